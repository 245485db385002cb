//! Memory and streams of other owners: another tensor, and direct driver calls.

use std::ptr::{null_mut, with_exposed_provenance_mut, without_provenance_mut};
use std::sync::Arc;

use convfuse::dlpack::{Legacy, Versioned};
use convfuse::raw::{RawPointer, RawStream};
use convfuse::{DType, Device, Error, Model, Options, Stream, Tensor, data};
use cust::sys;
use libtest_mimic::{Failed, Trial};

use crate::backend::{Backend, Outcome};
use crate::chains::{Preset, preset_79, presets};
use crate::layouts::{WAYS, Way, lying};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &[Backend::Gpu],
        "borrowed",
        &[
            ("memory_is_read_where_it_lies", inputs),
            ("memory_takes_outputs", outputs),
            ("tensors_come_and_go_by_dlpack", dlpack),
            ("streams_order_what_is_queued", streams),
        ],
    );
    let cpu = Backend::Cpu;
    trials.push(cpu.trial("borrowed", "memory_is_read_where_it_lies", inputs));
    trials.push(cpu.trial("borrowed", "memory_takes_outputs", outputs));
    trials.push(cpu.trial("borrowed", "tensors_come_and_go_by_dlpack", dlpack));
    trials
}

/// A tensor over the memory of another one, which it keeps alive.
fn over(stream: &Stream, tensor: &Tensor) -> convfuse::Result<Tensor> {
    let (start, owner) = (tensor.as_raw()?, Box::new(tensor.clone()));
    let (shape, dtype, strides) = (tensor.shape(), tensor.dtype(), tensor.strides());
    let strides = (!tensor.is_contiguous()).then_some(&strides[..]);
    // SAFETY: shape and strides stay in the tensor's memory, which nobody else uses, and which it keeps.
    unsafe { Tensor::from_raw_parts(stream, start, shape, strides, dtype, owner) }
}

/// A channels-last array in memory that starts on an odd address.
const ODD: Way = Way {
    before: 1,
    ..WAYS[0]
};

fn inputs(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (stream, other) = (device.stream()?, device.stream()?);
    for Preset { chain, small, .. } in presets() {
        let values = data::signed(1, small);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let parameters = convfuse::Parameters::init(&chain, 3)?;
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = model.forward(&dense)?.to_f32_array()?;
            let borrowed = over(&stream, &dense)?;
            drop(dense);
            assert_eq!(model.forward(&borrowed)?.to_f32_array()?, wanted);
            // The memory is freed only after the other stream's use of it.
            assert_eq!(
                model.forward(&borrowed.on(&other)?)?.to_f32_array()?,
                wanted
            );
            drop(borrowed);

            let memory = lying(&stream, &values, dtype, &ODD)?;
            let borrowed = over(&stream, &memory)?;
            drop(memory);
            assert_eq!(model.forward(&borrowed)?.to_f32_array()?, wanted);
            let mut plan = model.plan_for(&stream, &borrowed, &Options::default())?;
            let mut y = plan.output()?;
            plan.execute(&borrowed, &mut y)?;
            assert_eq!(y.to_f32_array()?, wanted);
            if backend == Backend::Gpu {
                let mut captured = plan.capture(borrowed)?;
                captured.replay()?;
                assert_eq!(captured.output().to_f32_array()?, wanted);
            }
        }
    }
    Ok(())
}

fn outputs(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for Preset { chain, small, .. } in presets() {
        let values = data::signed(1, small);
        for dtype in [DType::F32, DType::BF16] {
            let parameters = convfuse::Parameters::init(&chain, 3)?;
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let x = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = model.forward(&x)?.to_f32_array()?;
            let mut plan = model.plan(&stream, small, &Options::default())?;
            let shape = plan.output_shape().to_vec();
            // Two outputs by turns, in the halves of one allocation.
            let half = (wanted.len() * dtype.size()).next_multiple_of(16);
            let memory = Arc::new(Memory::new(backend, 2 * half)?);
            for round in 0..4 {
                let pointer = memory.start.wrapping_byte_add(round % 2 * half);
                let owner = Box::new(Arc::clone(&memory));
                // SAFETY: each half has room for the output; nobody else uses the memory, which its owner
                // keeps.
                let mut y = unsafe {
                    Tensor::from_raw_parts(&stream, pointer, &shape, None, dtype, owner)?
                };
                plan.execute(&x, &mut y)?;
                assert_eq!(y.as_raw()?, pointer);
                assert_eq!(y.to_f32_array()?, wanted);
            }
            stream.synchronize()?;
            if backend == Backend::Cpu {
                // The second half of a borrowed batch, if it is aligned like outputs.
                let memory = Memory::new(backend, 2 * wanted.len() * dtype.size())?;
                let (pointer, owner) = (memory.start, Box::new(memory));
                let both = [&[2 * shape[0]], &shape[1..]].concat();
                // SAFETY: as above.
                let both =
                    unsafe { Tensor::from_raw_parts(&stream, pointer, &both, None, dtype, owner)? };
                let mut y = both.slice(shape[0]..2 * shape[0])?;
                drop(both);
                let ran = plan.execute(&x, &mut y);
                if (wanted.len() * dtype.size()).is_multiple_of(16) {
                    ran?;
                    assert_eq!(y.to_f32_array()?, wanted);
                } else {
                    assert!(matches!(ran, Err(Error::Misaligned { .. })), "{ran:?}");
                }
            }
            if backend == Backend::Gpu {
                let memory = Memory::new(backend, half)?;
                let (pointer, owner) = (memory.start, Box::new(memory));
                // SAFETY: as above.
                let y = unsafe {
                    Tensor::from_raw_parts(&stream, pointer, &shape, None, dtype, owner)?
                };
                let mut captured = plan.capture_into(x, y)?;
                captured.replay()?;
                assert_eq!(captured.output().as_raw()?, pointer);
                assert_eq!(captured.output().to_f32_array()?, wanted);
            }
        }
    }
    Ok(())
}

/// Zeroed memory from the driver or the host's allocator instead of this library.
struct Memory {
    start: RawPointer,
    host: Vec<u128>,
}

// SAFETY: it is memory like any other.
unsafe impl Send for Memory {}
// SAFETY: as above; only the tensors over it use it.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(backend: Backend, bytes: usize) -> Result<Memory, Failed> {
        if backend == Backend::Cpu {
            let mut host = vec![0u128; bytes.div_ceil(16)];
            let start = host.as_mut_ptr().cast();
            return Ok(Memory { start, host });
        }
        let _context = cust::context::Context::new(cust::device::Device::get_device(0)?)?;
        let mut pointer = 0;
        // SAFETY: a place for one address; the device's context is current.
        let code = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) };
        // SAFETY: the memory has as many bytes; the copies wait for it, since it is not of a stream.
        let zeroed = unsafe { sys::cuMemsetD8_v2(pointer, 0, bytes) };
        match (code, zeroed) {
            (sys::CUresult::CUDA_SUCCESS, sys::CUresult::CUDA_SUCCESS) => Ok(Memory {
                start: with_exposed_provenance_mut(pointer as usize),
                host: Vec::new(),
            }),
            errors => Err(format!("cuMemAlloc, cuMemsetD8: {errors:?}").into()),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.host.is_empty() {
            return;
        }
        let context = cust::device::Device::get_device(0).and_then(cust::context::Context::new);
        if context.is_ok() {
            // SAFETY: it is this one's, of the current context; freeing waits for the work that uses it.
            unsafe { sys::cuMemFree_v2(self.start.addr() as u64) };
        }
    }
}

fn dlpack(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let Preset { chain, small, .. } = preset_79();
    let model = Model::init(&stream, &chain, 3)?;
    let values = data::signed(1, small);
    let dense = Tensor::from_array(&stream, &values)?;
    let wanted = model.forward(&dense)?.to_array::<f32>()?;
    let memory = lying(&stream, &values, DType::F32, &ODD)?;
    let last = over(&stream, &memory)?;
    for x in [dense, last] {
        let (address, strides) = (x.as_raw()?, x.strides());
        let lent: Versioned = x.to_dlpack()?;
        // SAFETY: it is this library's own, and its memory is written in the order of the stream.
        let borrowed = unsafe { Tensor::from_dlpack(&stream, lent)? };
        drop(x);
        assert_eq!((borrowed.as_raw()?, borrowed.strides()), (address, strides));
        assert_eq!(
            model.forward(&borrowed.on(&other)?)?.to_array::<f32>()?,
            wanted
        );
        let lent: Legacy = borrowed.to_dlpack()?;
        drop(borrowed);
        // Another thread calls the deleter while queued work reads the memory.
        // SAFETY: as above.
        let borrowed = unsafe { Tensor::from_dlpack(&stream, lent)? };
        let y = model.forward(&borrowed)?;
        std::thread::spawn(move || drop(borrowed))
            .join()
            .map_err(|_| "a thread panicked")?;
        assert_eq!(y.to_array::<f32>()?, wanted);
    }
    if backend == Backend::Gpu {
        let cpu = Device::cpu().stream()?;
        let lent: Legacy = Tensor::from_array(&stream, &values)?.to_dlpack()?;
        // SAFETY: as above.
        let refused = unsafe { Tensor::from_dlpack(&cpu, lent) };
        let refusal =
            "from_dlpack: the tensor is on DLPack's device of type 2, number 0, must be on cpu";
        says(refused, refusal)?;
    }
    Ok(())
}

/// A stream created by driver calls, which is destroyed on drop.
struct OwnStream(sys::CUstream);

impl OwnStream {
    fn new() -> Result<OwnStream, Failed> {
        let mut stream = null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for one handle; the caller has made the device's context current.
        match unsafe { sys::cuStreamCreate(&mut stream, flags) } {
            sys::CUresult::CUDA_SUCCESS => Ok(OwnStream(stream)),
            error => Err(format!("cuStreamCreate: {error:?}").into()),
        }
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        // SAFETY: it is this one's, and destroyed once; work that it has is still done.
        unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

fn streams(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let _context = cust::context::Context::new(cust::device::Device::get_device(0)?)?;
    let own = OwnStream::new()?;
    let legacy: RawStream = null_mut();
    let of_thread: RawStream = without_provenance_mut(2);
    for raw in [own.0.cast(), legacy, of_thread] {
        on_stream(&device, raw)?;
    }
    Ok(())
}

fn on_stream(device: &Device, raw: RawStream) -> Outcome {
    // SAFETY: a stream of the device's primary context, or a default one, which outlives all that is made on
    // it.
    let stream = unsafe { Stream::from_raw(device, raw)? };
    // Null and 1 are names of the same stream.
    let legacy: RawStream = without_provenance_mut(1);
    assert_eq!(stream.as_raw()?, if raw.is_null() { legacy } else { raw });
    let Preset { chain, small, .. } = preset_79();
    let home = device.stream()?;
    let model = Model::init(&home, &chain, 3)?;
    let values = data::signed(1, small);
    let wanted = model
        .forward(&Tensor::from_array(&home, &values)?)?
        .to_array::<f32>()?;
    let x = Tensor::from_array(&stream, &values)?;
    let borrowed = over(&stream, &x)?;
    assert_eq!(model.forward(&borrowed)?.to_array::<f32>()?, wanted);
    let memory = lying(&stream, &values, DType::F32, &ODD)?;
    let last = over(&stream, &memory)?;
    let mut plan = model.plan_for(&stream, &last, &Options::default())?;
    let mut y = plan.output()?;
    for _ in 0..3 {
        plan.execute(&last, &mut y)?;
        assert_eq!(y.to_array::<f32>()?, wanted);
        // A stream of this library reads the output afterwards.
        assert_eq!(y.on(&home)?.contiguous()?.to_array::<f32>()?, wanted);
    }
    stream.synchronize()?;
    Ok(())
}

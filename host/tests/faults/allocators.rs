//! A caller's allocator: all memory of its streams is from it, goes back to it, and is told of as long as it
//! is held.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex};

use convfuse::graph::presets::KernelBench79;
use convfuse::raw::{DeviceAllocator, RawPointer, RawStream};
use convfuse::{Device, Model, Options, PinnedArray, Replicas, Stream, Tensor, data};
use cust::sys::{self, CUresult};
use ndarray::IxDyn;

use crate::driver::Script;
use crate::ordering::{Current, WITH_POOLS, late};

/// Memory that the driver allocates at once, and what is held of it.
struct Own {
    device: Device,
    held: Mutex<HashMap<usize, usize>>,
}

// SAFETY: each address is of memory that nobody else has, which stays.
unsafe impl DeviceAllocator for Own {
    fn allocate(
        &self,
        bytes: usize,
        _stream: RawStream,
    ) -> Result<RawPointer, Box<dyn StdError + Send + Sync>> {
        let _current = Current::of(&self.device);
        let mut address = 0;
        // SAFETY: a place for one address.
        let code = unsafe { sys::cuMemAlloc_v2(&mut address, bytes) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        self.held.lock().unwrap().insert(address as usize, bytes);
        Ok(with_exposed_provenance_mut(address as usize))
    }

    fn free(&self, pointer: RawPointer, bytes: usize, _stream: RawStream) {
        let was = self.held.lock().unwrap().remove(&pointer.addr());
        assert_eq!(was, Some(bytes), "it goes back once, and as it came");
    }
}

/// Large enough for arrays to go in chunks.
const SHAPE: [usize; 5] = [16, 3, 18, 40, 40];

/// Runs a model in one way.
type Way = fn(&Model, &Stream);

fn input(stream: &Stream) -> Tensor {
    Tensor::from_array(stream, &data::fill(1, IxDyn(&SHAPE))).unwrap()
}

/// Every way to run a model that allocates.
const WAYS: [(&str, Way); 6] = [
    ("forward", |model, stream| {
        model.forward(&input(stream)).unwrap();
    }),
    ("plan", |model, stream| {
        let mut plan = model.plan(stream, &SHAPE, &Options::default()).unwrap();
        let mut y = plan.output().unwrap();
        plan.execute(&input(stream), &mut y).unwrap();
    }),
    ("capture", |model, stream| {
        let plan = model.plan(stream, &SHAPE, &Options::default()).unwrap();
        plan.capture(input(stream)).unwrap().replay().unwrap();
    }),
    ("array", |model, _| {
        let x = data::fill(1, IxDyn(&SHAPE));
        model.forward_array(&x).unwrap();
        model.trim_memory();
    }),
    ("pinned", |model, _| {
        let pinned = |shape: &[usize]| PinnedArray::zeros(model.stream().device(), shape).unwrap();
        let mut y = pinned(&model.output_shape(&SHAPE).unwrap());
        let x: PinnedArray<f32> = pinned(&SHAPE);
        model
            .forward_pinned(&x, &mut y, &Options::default())
            .unwrap();
        model.trim_memory();
    }),
    ("replicas", |model, _| {
        let devices = [model.stream().device().clone()];
        let replicas = Replicas::new(model, &devices).unwrap();
        let mut plans = replicas.plan(&SHAPE, &Options::default()).unwrap();
        let x = input(plans.plans()[0].stream());
        let mut ys = plans.outputs().unwrap();
        plans.execute(&[x], &mut ys).unwrap();
        plans.synchronize().unwrap();
    }),
];

/// Allocations from the library's own pool.
fn from_pool(script: &Script) -> u32 {
    let counts = script.counts();
    let of_pool = counts
        .iter()
        .find(|(name, _)| name == "cuMemAllocFromPoolAsync");
    of_pool.map_or(0, |(_, count)| *count)
}

#[test]
fn all_memory_of_a_stream_is_from_its_allocator_and_goes_back() {
    let test = "allocators::all_memory_of_a_stream_is_from_its_allocator_and_goes_back";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let own = Arc::new(Own {
        device: device.clone(),
        held: Mutex::default(),
    });
    let stream = device.stream().unwrap().with_allocator(own.clone());
    let model = Model::init(&stream, KernelBench79::default().chain().unwrap(), 7).unwrap();
    let held = || own.held.lock().unwrap().values().sum::<usize>();
    for (name, way) in WAYS {
        // What it keeps from run to run is there then.
        way(&model, &stream);
        stream.synchronize().unwrap();
        let before = held();
        stream.take_counts();
        let peaks = [1, 3].map(|runs| {
            (0..runs).for_each(|_| way(&model, &stream));
            stream.take_counts().peak_bytes
        });
        assert!(peaks[0] > 0 && peaks[0] == peaks[1], "{name}: {peaks:?}");
        assert_eq!(held(), before, "{name}");
        assert_eq!(from_pool(&script), 0, "{name}");
    }
    drop((model, stream));
    assert_eq!(held(), 0);
    script.expect_no_violations();
}

/// A stream with an allocator is the stream that it was: what was made on the one is the other's, on every
/// kind of device.
#[test]
fn a_stream_stays_what_it_is_with_an_allocator() {
    let test = "allocators::a_stream_stays_what_it_is_with_an_allocator";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    for of in [device.clone(), Device::cpu()] {
        let plain = of.stream().unwrap();
        let own = Arc::new(Own {
            device: device.clone(),
            held: Mutex::default(),
        });
        let with = plain.with_allocator(own);
        assert!(with == plain && with != of.stream().unwrap());
        let model = Model::init(&plain, KernelBench79::default().chain().unwrap(), 7).unwrap();
        let shape = [1, 3, 5, 6, 7];
        let mut plan = model.plan(&with, &shape, &Options::default()).unwrap();
        let x = Tensor::from_array(&plain, &data::fill(1, IxDyn(&shape))).unwrap();
        let mut y = Tensor::zeros(&plain, plan.output_shape(), plan.dtype()).unwrap();
        plan.execute(&x, &mut y).unwrap();
    }
    script.expect_no_violations();
}

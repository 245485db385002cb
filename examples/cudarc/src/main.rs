//! convfuse on memory of another library: cudarc allocates input and output and owns the stream. convfuse
//! reads and writes that memory in the stream's order. Nothing is copied, and the host waits only at the
//! end.
//!
//! ```text
//! cd examples/cudarc && cargo run --release
//! ```

use std::error::Error;
use std::sync::Arc;

use convfuse::graph::presets::KernelBench85;
use convfuse::{DType, Device, Model, Options, Stream, Tensor, data};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};

const INPUT: [usize; 4] = [16, 8, 128, 128];
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    // cudarc panics without a driver, so convfuse checks first.
    let device = match Device::gpu(0) {
        Ok(device) => device,
        Err(error) => {
            println!("this example needs a GPU: {error}");
            return Ok(());
        }
    };

    // The other library: a stream and two buffers. Both use the device's primary context.
    let context = CudaContext::new(0)?;
    let theirs = context.new_stream()?;
    let x = data::fill(1, INPUT);
    let input = Arc::new(theirs.clone_htod(x.as_slice().expect("it is dense"))?);

    // SAFETY: the stream is one of the primary context, and `theirs` outlives all that is made on it.
    let stream = unsafe { Stream::from_raw(&device, theirs.cu_stream().cast())? };
    let model = Model::init(&device.stream()?, &KernelBench85::default().chain()?, 7)?;
    let mut plan = model.plan(&stream, &INPUT, &Options::default())?;
    let shape = plan.output_shape().to_vec();
    let output = Arc::new(theirs.alloc_zeros::<f32>(shape.iter().product())?);

    {
        let x = borrowed(&stream, &theirs, &input, &INPUT)?;
        let mut y = borrowed(&stream, &theirs, &output, &shape)?;
        for _ in 0..RUNS {
            plan.execute(&x, &mut y)?;
        }
        // The tensors and their buffer handles are dropped here, so cudarc is the only owner again.
    }

    // cudarc reads the output of convfuse in the order of the same stream.
    let output = Arc::try_unwrap(output).map_err(|_| "a tensor still holds the output")?;
    let y = theirs.clone_dtoh(&output)?;
    let wanted = model.forward_array(&x)?;
    assert!(
        wanted.iter().eq(&y),
        "the same bits as in memory of convfuse's own"
    );
    println!(
        "{device}: {shape:?} in cudarc's memory, {RUNS} runs, the same bits as in convfuse's own"
    );
    Ok(())
}

/// A tensor over a buffer of cudarc, which it keeps alive.
fn borrowed(
    stream: &Stream,
    theirs: &Arc<CudaStream>,
    buffer: &Arc<CudaSlice<f32>>,
    shape: &[usize],
) -> convfuse::Result<Tensor> {
    // The stream orders cudarc's work on the buffer before ours, so the guard, which records a read on the
    // same stream, is not needed.
    let (address, _guard) = buffer.device_ptr(theirs);
    let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
    let owner = Box::new(Arc::clone(buffer));
    // SAFETY: the buffer has the elements of the shape, in the primary context; nobody uses it but by this
    // stream's order, and whoever frees it does so in that order too.
    unsafe { Tensor::from_raw_parts(stream, pointer, shape, None, DType::F32, owner) }
}

//! Embeds convfuse in another program: parameters from a file, requests from several threads, a plan per
//! thread.
//!
//! ```text
//! cargo run --release --example embed
//! ```

use std::error::Error;
use std::thread;

use convfuse::graph::presets::KernelBench85;
use convfuse::{Device, Model, Options, Parameters, Tensor, data};

/// The shape of a request: a batch of images.
const REQUEST: [usize; 4] = [4, 8, 64, 64];
const WORKERS: u64 = 2;
const REQUESTS_PER_WORKER: u64 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best();
    println!("device\n{}", device.info());

    // Parameters come from a safetensors file under PyTorch's names. Without a trained model, this example
    // writes one.
    let chain = KernelBench85::default().chain()?;
    let file =
        std::env::temp_dir().join(format!("convfuse-embed-{}.safetensors", std::process::id()));
    Parameters::init(&chain, 7)?.save(&file)?;
    let model = Model::load(&device.stream()?, &chain, &file);
    std::fs::remove_file(&file)?;
    let model = model?;

    // The model is shared. Each worker has its own stream, so their work overlaps on a GPU, and its own plan,
    // so that a request only costs its launches.
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let (device, model) = (&device, &model);
                    move || serve(device, model, worker)
                })
            })
            .collect();
        for (worker, thread) in workers.into_iter().enumerate() {
            match thread.join() {
                Ok(Ok(means)) => println!("worker {worker}: means {means:.4?}"),
                Ok(Err(error)) => return Err(format!("worker {worker}: {error}").into()),
                Err(_) => return Err(format!("worker {worker} panicked").into()),
            }
        }
        Ok(())
    })
}

/// Returns the mean output of each of the worker's requests.
fn serve(device: &Device, model: &Model, worker: u64) -> convfuse::Result<Vec<f32>> {
    let stream = device.stream()?;
    let mut plan = model.plan(&stream, &REQUEST, &Options::default())?;
    let mut output = plan.output()?;
    (0..REQUESTS_PER_WORKER)
        .map(|request| {
            let images = data::fill(100 * worker + request, REQUEST);
            let input = Tensor::from_array(&stream, &images)?;
            plan.execute(&input, &mut output)?;
            // The copy waits for the worker's own stream only.
            Ok(output.to_array::<f32>()?.mean().unwrap_or(0.0))
        })
        .collect()
}

//! Runs a whole network on a made-up batch: layers from a network file, parameters from a safetensors file
//! under PyTorch's names.
//!
//! In Python `convfuse.export(model, example, "resnet50")` writes both:
//!
//! ```text
//! cargo run --release --example network -- resnet50.json 32,3,224,224 resnet50.safetensors
//! ```
//!
//! Without the second file the network has initial (untrained) parameters. The folder `examples/networks` has
//! networks to try:
//!
//! ```text
//! cargo run --release --example network -- examples/networks/resnet.json 4,3,64,64
//! cargo run --release --example network -- examples/networks/pyramid.json 4,3,64,64
//! cargo run --release --example network -- examples/networks/vae_decoder.json 4,4,8,8
//! ```

use std::env;
use std::error::Error;
use std::fs;
use std::time::Instant;

use convfuse::graph::Graph;
use convfuse::{Device, Model, Options, Tensor, data};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [network, shape, parameters @ ..] = &arguments[..] else {
        return Err("expected NETWORK.json SHAPE [PARAMETERS.safetensors]".into());
    };
    let shape: Result<Vec<usize>, _> = shape.split(',').map(str::parse).collect();
    let shape = shape?;

    let start = Instant::now();
    let graph: Graph = serde_json::from_str(&fs::read_to_string(network)?)?;
    let stream = Device::best().stream()?;
    let model = match parameters {
        [] => Model::init(&stream, &graph, 7)?,
        [file] => Model::load(&stream, &graph, file)?,
        _ => return Err("expected one file of parameters".into()),
    };
    // The plan has all choices, kernels and memory for this shape. Executing it only launches.
    let mut plan = model.plan(&stream, &shape, &Options::default())?;
    let mut outputs = plan.outputs()?;
    let x = Tensor::from_array(&stream, &data::signed(1, &shape[..]))?;
    plan.execute_all(&x, &mut outputs)?;
    stream.synchronize()?;
    println!(
        "{} layers on {}, the first result after {:.2?}",
        graph.layers().len(),
        stream.device(),
        start.elapsed()
    );
    println!("input {}: {shape:?}", graph.input());
    for (&layer, y) in graph.outputs().iter().zip(&outputs) {
        let values = y.to_array::<f32>()?;
        let name = graph.name_of(layer);
        if values.iter().any(|y| !y.is_finite()) {
            return Err(format!("output {name} has values that are not finite").into());
        }
        let (min, max) = values
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &y| {
                (min.min(y), max.max(y))
            });
        println!(
            "output {}: {:?}, values from {min:.3} to {max:.3}",
            name,
            y.shape()
        );
    }
    Ok(())
}

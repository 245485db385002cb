//! A whole network of two files: its layers, and its parameters under PyTorch's names.
//!
//! In Python `convfuse.export(model, example, "resnet50")` writes both:
//!
//! ```text
//! cargo run --release --example network -- resnet50.json resnet50.safetensors 32,3,224,224
//! ```
//!
//! Without arguments it writes a small residual network, for want of a trained model.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

use convfuse::graph::{Graph, GraphError, Layer};
use convfuse::{Device, Model, Options, Parameters, Tensor, data};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [network, parameters, shape] => {
            let shape: Result<Vec<usize>, _> = shape.split(',').map(str::parse).collect();
            run(network.as_ref(), parameters.as_ref(), &shape?)
        }
        [] => {
            let folder = env::temp_dir().join(format!("convfuse-network-{}", std::process::id()));
            fs::create_dir(&folder)?;
            let ran = written(&folder)
                .and_then(|[network, parameters]| run(&network, &parameters, &[4, 3, 64, 64]));
            fs::remove_dir_all(&folder)?;
            ran
        }
        _ => Err(
            "expected a network file, a safetensors file and a shape such as 32,3,224,224".into(),
        ),
    }
}

/// Loads a network and runs it on a batch that is made up.
fn run(network: &Path, parameters: &Path, shape: &[usize]) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let graph: Graph = serde_json::from_str(&fs::read_to_string(network)?)?;
    let stream = Device::best().stream()?;
    let model = Model::load(&stream, &graph, parameters)?;
    // All choices, kernels and memory for this shape. Running it only launches.
    let mut plan = model.plan(&stream, shape, &Options::default())?;
    let x = Tensor::from_array(&stream, &data::signed(1, shape))?;
    let mut y = plan.output()?;
    plan.execute(&x, &mut y)?;
    let first = y.to_array::<f32>()?;
    println!(
        "{} layers on {}: {shape:?} to {:?}, the first result after {:.2?}",
        graph.layers().len(),
        stream.device(),
        first.shape(),
        start.elapsed()
    );
    println!(
        "the first sample: {:.3}",
        first.outer_iter().next().ok_or("no samples")?
    );
    Ok(())
}

/// Writes a network and its parameters, as they are before training.
fn written(folder: &Path) -> Result<[PathBuf; 2], Box<dyn Error>> {
    let files = ["network.json", "network.safetensors"].map(|name| folder.join(name));
    let graph = residual()?;
    fs::write(&files[0], serde_json::to_string(&graph)?)?;
    Parameters::init(&graph, 7)?.save(&files[1])?;
    Ok(files)
}

fn residual() -> Result<Graph, GraphError> {
    let conv = |name: &str| Layer::conv2d(name, 16, 3).padding(1).bias(false);
    Graph::builder("x", 3)
        .layer(
            "conv1",
            "x",
            Layer::conv2d("conv1", 16, 7).stride(2).padding(3),
        )
        .layer("relu", "conv1", Layer::relu())
        .layer("block.conv1", "relu", conv("block.conv1"))
        .layer("block.bn1", "block.conv1", Layer::batch_norm("block.bn1"))
        .layer("block.relu", "block.bn1", Layer::relu())
        .layer("block.conv2", "block.relu", conv("block.conv2"))
        .layer("block.bn2", "block.conv2", Layer::batch_norm("block.bn2"))
        .layer("block.sum", "block.bn2", Layer::add("relu"))
        .layer("block", "block.sum", Layer::relu())
        .layer("avgpool", "block", Layer::adaptive_avg_pool2d())
        .layer("flatten", "avgpool", Layer::flatten())
        .layer("fc", "flatten", Layer::linear("fc", 16, 10))
        .build("fc")
}

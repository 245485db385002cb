//! A chain of layers with parameters as PyTorch initialises them, and one batch.

use convfuse::graph::{Chain, Layer};
use convfuse::{Device, Model, data};

fn main() -> convfuse::Result<()> {
    let device = Device::best(); // a GPU if one answers, else the CPU
    if let Some(reason) = device.fallback_reason() {
        eprintln!("on the CPU: {reason}");
    }
    let layers = (
        Layer::conv2d("conv", 64, 3),
        Layer::group_norm("group_norm", 16),
        Layer::scale("scale"),
        Layer::max_pool2d(4),
        Layer::clamp(0.0, 1.0),
    );
    let chain = Chain::new(8, layers)?; // of images with 8 channels
    let model = Model::init(&device.stream()?, &chain, 42)?;
    let y = model.forward_array(&data::fill(1, (2, 8, 128, 128)))?;
    println!("{device}: {:?}", y.shape());
    Ok(())
}

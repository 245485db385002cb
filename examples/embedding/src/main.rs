//! A chain of layers, parameters as PyTorch initialises them, and one batch: on a GPU where there is one,
//! else on the CPU.

use convfuse::graph::{Chain, Layer};
use convfuse::{Device, Model};
use ndarray::Array4;

fn main() -> convfuse::Result<()> {
    let device = Device::best();
    let chain = Chain::new(
        3,
        (
            Layer::conv2d("conv", 16, 3),
            Layer::group_norm("norm", 4),
            Layer::max_pool2d(2),
            Layer::relu(),
        ),
    )?;
    let model = Model::init(&device.stream()?, &chain, 42)?;
    let images = Array4::from_shape_fn((8, 3, 64, 64), |(n, c, h, w)| {
        ((n + 2 * c + 3 * h + 5 * w) % 17) as f32 / 17.0
    });
    let features = model.forward_array(&images)?;
    println!(
        "{device}: {:?}, mean {:.4}",
        features.shape(),
        features.mean().unwrap_or(0.0)
    );
    if let Some(reason) = device.fallback_reason() {
        println!("on the CPU, since {reason}");
    }
    Ok(())
}

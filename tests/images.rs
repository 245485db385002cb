//! Channels-last images with three channels, which are padded for tensor cores.

use convfuse::graph::{Chain, Layer};
use convfuse::model::Precision;
use convfuse::{DType, Model, Options, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of, lying_last};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "images",
        &[
            ("of_three_colours_are_padded_once", pads_images),
            ("of_several_sizes_have_filters_of_their_own", several_sizes),
        ],
    )
}

/// Three-channel images of several sizes through one model, which prepares its filters once. The channels
/// are padded before the first convolution, and nothing is reformatted.
fn pads_images(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = |name: &str, filters, kernel: usize, stride: usize| {
        let conv = Layer::conv2d(name, filters, kernel).stride(stride);
        Layer::from(conv.padding(kernel / 2))
    };
    let chain = Chain::new(
        3,
        [
            conv("stem", 40, 7, 2),
            Layer::from(Layer::batch_norm("norm")),
            Layer::relu(),
            conv("next", 24, 3, 1),
            Layer::silu(),
        ],
    )?;
    let options = Options::default();
    for dtype in [DType::F16, DType::BF16] {
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        for [n, h, w] in [[2, 13, 18], [1, 9, 31], [2, 13, 18]] {
            let values = data::signed(1, &[n, 3, h, w][..]);
            let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward_with(&dense, &options)?)?;
            let x = lying_last(&stream, &values, dtype)?;
            let got = bits_of(&model.forward_with(&x, &options)?)?;
            are_close(&got, &wanted, (dtype, Precision::Fast));
            if stream.device().properties().arch.has_warpgroup_mma() {
                let explained = model.plan_for(&stream, &x, &options)?.explain()?;
                let kernels = explained.launches.iter().map(|launch| launch.kernel);
                let kinds = ["gemm_pad_channels", "gemm_sm90", "gemm_sm90"];
                let pairs = kernels.clone().zip(kinds);
                assert!(
                    kernels.count() == kinds.len()
                        && pairs.into_iter().all(|(name, kind)| name.starts_with(kind)),
                    "{explained}"
                );
            }
        }
    }
    Ok(())
}

/// Images of two channels in sizes for which lines have other rows of the filter, through one model. Each has
/// the bits that a new model gives.
fn several_sizes(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = Layer::conv2d("conv", 40, 5).stride([1, 2]).padding(2);
    let chain = Chain::new(2, [Layer::from(conv), Layer::relu()])?;
    let parameters = convfuse::Parameters::init(&chain, 3)?;
    let model = || Model::with_dtype(&stream, &chain, &parameters, DType::F16);
    let shared = model()?;
    for [h, w] in [[3, 3], [3, 9], [3, 3], [16, 33]] {
        let values = data::signed(1, &[1, 2, h, w][..]);
        let x = lying_last(&stream, &values, DType::F16)?;
        let (got, wanted) = (shared.forward(&x)?, model()?.forward(&x)?);
        assert!(bits_of(&got)? == bits_of(&wanted)?, "{h} x {w}");
    }
    Ok(())
}

//! Convolutions of channels-last tensors with few filters.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::model::Precision;
use convfuse::spec::PaddingMode;
use convfuse::{DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of, lying_last};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "few_filters",
        &[("reformat_nothing", labels), ("are_padded_first", padded)],
    )
}

/// The last layers of segmentation networks with functions, and similar layers that use other rows.
fn labels(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = |filters, kernel: usize| {
        let conv = Layer::conv3d("conv", filters, [1, kernel, kernel]);
        Layer::from(conv.padding([0, kernel / 2, kernel / 2]))
    };
    let dtypes = [DType::F16, DType::BF16, DType::F32];
    for (filters, kernel, channels, is_few) in [
        (2, 1, 32, true),
        (1, 3, 16, true),
        (3, 3, 24, true),
        // Many products, and a number of channels that is no multiple of a vector.
        (5, 3, 16, false),
        (2, 1, 12, false),
    ] {
        let chain = Chain::new(channels, [conv(filters, kernel), Layer::sigmoid()])?;
        let parameters = Parameters::init(&chain, 3)?;
        let values = data::signed(1, &[2, channels, 3, 9, 14][..]);
        for dtype in dtypes {
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let options = Options::default();
            let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward(&dense)?)?;
            let x = lying_last(&stream, &values, dtype)?;
            let y = model.forward(&x)?;
            assert!(filters == 1 || y.strides()[1] == 1, "{:?}", y.strides());
            are_close(&bits_of(&y)?, &wanted, (dtype, Precision::default()));
            let explained = model.plan_for(&stream, &x, &options)?.explain()?;
            let kernels: Vec<_> = explained.regions.iter().map(|of| of.kernels).collect();
            let is_direct = kernels == ["direct-nhwc", "tensor"];
            assert_eq!(is_direct, is_few && dtype != DType::F32, "{explained}");
            let mut launches = explained.launches.iter();
            let is_copied = launches.any(|of| of.kernel.contains("copy"));
            assert!(!(is_direct && is_copied), "{explained}");
            if dtype != DType::F32 && channels.is_multiple_of(8) {
                // A partition may ask for the row also where tensor cores are faster.
                let text = "conv3d @direct-nhwc | sigmoid";
                let asked = options.partition(Partition::parse(&chain, text)?);
                let y = model.forward_with(&x, &asked)?;
                are_close(&bits_of(&y)?, &wanted, (dtype, Precision::default()));
            }
        }
    }
    Ok(())
}

/// Padding that repeats values, before few and before many filters. A launch pads, in every type.
fn padded(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (filters, mode) in [
        (3, PaddingMode::Reflect),
        (72, PaddingMode::Reflect),
        (72, PaddingMode::Circular),
    ] {
        let conv = Layer::conv2d("conv", filters, 3).padding([2, 1]);
        let chain = Chain::new(16, [conv.padding_mode(mode)])?;
        let parameters = Parameters::init(&chain, 3)?;
        let values = data::signed(1, &[2, 16, 9, 14][..]);
        for (dtype, precision) in [
            (DType::F16, Precision::default()),
            (DType::BF16, Precision::default()),
            (DType::F32, Precision::Fast),
        ] {
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let options = Options::default().precision(precision);
            let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward_with(&dense, &options)?)?;
            let x = lying_last(&stream, &values, dtype)?;
            let y = bits_of(&model.forward_with(&x, &options)?)?;
            are_close(&y, &wanted, (dtype, precision));
            for x in [x, dense] {
                let explained = model.plan_for(&stream, &x, &options)?.explain()?;
                let mut launches = explained.launches.iter();
                let is_padded = launches.any(|of| of.kernel.contains("pad"));
                assert!(is_padded, "{explained}");
            }
        }
    }
    Ok(())
}

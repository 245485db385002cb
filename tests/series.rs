//! Softmax and layer norms of rows with fused pointwise lists, also after convolutions.

use convfuse::graph::{BroadcastParameter, Chain, Layer};
use convfuse::spec::GeluApproximation;
use convfuse::{DType, Options, Tensor};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::layouts::{bits_of, lying_last};
use crate::suite::in_every_type;

pub(crate) fn trials() -> Vec<Trial> {
    let cases = || cases().into_iter().map(|(case, _)| case).collect();
    let mut trials = in_every_type("series", cases);
    let name = "takes_the_list_behind_it_in_its_launch";
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "series",
        &[
            (name, launches),
            ("is_computed_in_channels_last_layout", in_channels_last),
        ],
    ));
    trials
}

/// Chains with the kernel rows of their regions.
fn cases() -> Vec<(Case, &'static [&'static str])> {
    let up = Layer::conv_transpose2d("up", 21, 4).stride(2).padding(1);
    let conv = || Layer::from(Layer::conv2d("conv", 24, 3));
    let parameter = |name: &str| BroadcastParameter::new(name);
    let pool = || Layer::from(Layer::max_pool2d(2));
    let table = chains::table! {
        "of_channels": [up, Layer::softmax(&[1]), Layer::add(parameter("bias")), Layer::mul(2.0),
            Layer::sigmoid()], [2, 16, 6, 7] => &["transposed", "tensor"][..];
        "of_space": [conv(), Layer::clamp(-0.3, 0.3), Layer::softmax(&[2, 3]),
            Layer::scale("scale"), Layer::silu(), Layer::add("residual")],
            [2, 16, 9, 12] => &["implicit-gemm", "tensor"][..];
        "before_pools": [conv(), Layer::log_softmax(&[1]), pool(), pool()],
            [2, 16, 11, 12] => &["implicit-gemm", "tensor", "tensor", "tensor"][..];
        "norm_of_rows": [conv(), Layer::layer_norm("norm", &[10]),
            Layer::gelu(GeluApproximation::None), Layer::mul(0.5)],
            [2, 16, 9, 12] => &["implicit-gemm", "tensor"][..];
        "norm_of_planes": [Layer::layer_norm("norm", &[5, 12]).bias(false), Layer::add("residual"),
            Layer::scale("scale"), Layer::avg_pool2d(2)], [2, 6, 5, 12] => &["tensor", "tensor"][..];
        // There is no kernel for per-channel parameters with a sum over channels and other axes.
        "of_samples": [Layer::softmax(&[1, 2, 3]), Layer::mul(20.0), Layer::scale("scale")],
            [2, 3, 5, 6] => &["tensor", "tensor"][..];
        "of_rows_behind_a_norm": [Layer::group_norm("norm", 3), Layer::softmax(&[-1]),
            Layer::tanh()], [2, 6, 5, 12] => &["tensor", "tensor"][..];
    };
    chains::cases("series", table)
}

fn launches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, rows) in cases() {
        let model = chains::model(&stream, &case, DType::F32)?;
        let facts = model.explain(case.x.shape(), &Options::default())?;
        let taken: Vec<_> = facts.regions.iter().map(|run| run.kernels).collect();
        assert_eq!(taken, rows, "{}", case.name);
    }
    Ok(())
}

/// Over the channels, channels-last inputs are read in place, with the bits of the other layout. Over space,
/// input and output are reformatted.
fn in_channels_last(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (channels, dim, launches) in [(20, &[1][..], 1), (301, &[1], 1), (20, &[2, 3], 3)] {
        let layers = [
            Layer::softmax(dim),
            Layer::from(Layer::scale("scale")),
            Layer::tanh(),
        ];
        let chain = Chain::new(channels, layers)?;
        let case = Case::of_graph("series/channels_last", chain, &[2, channels, 5, 6]);
        let model = chains::model(&stream, &case, DType::F32)?;
        let x = lying_last(&stream, &case.x, DType::F32)?;
        let y = model.forward(&x)?;
        let expected = case.expected(&oracle::Precision::F32)?;
        expected.check(y.to_array()?.view())?;
        stream.take_counts();
        drop(model.forward(&x)?);
        assert_eq!(stream.take_counts().launches, launches, "{dim:?}");
        let dense = model.forward(&Tensor::from_array(&stream, &case.x)?)?;
        assert_eq!(bits_of(&y)?, bits_of(&dense)?, "{dim:?}");
    }
    Ok(())
}

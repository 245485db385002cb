//! Reductions over the pixels of channels-last tensors, in place.

use convfuse::graph::{Chain, Graph, Layer};
use convfuse::model::Precision;
use convfuse::spec::{Layout, ReductionOp, ReductionSpec};
use convfuse::{DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of, lying_last};
use crate::suite::count;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "channels_last_reductions",
        &[
            ("are_those_of_dense_tensors_without_a_copy", alone),
            ("give_a_sample_the_same_bits_in_any_batch", batches),
            ("follow_what_is_written_so", inside),
            ("stay_dense_where_there_is_no_kernel", refused),
        ],
    )
}

/// A reduction, with or without keeping the axes.
fn reduction(operation: ReductionOp, dim: &[isize], keepdim: bool) -> Layer {
    Layer::from(ReductionSpec::new(operation, dim).keepdim(keepdim))
}

/// Each operation on images and volumes, in one launch or, for many pixels, in two.
fn alone(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let image = &[3, 40, 7, 9][..];
    let cases = [
        (reduction(ReductionOp::Max, &[2, 3], false), image, 1),
        (reduction(ReductionOp::Min, &[-1, -2], true), image, 1),
        (reduction(ReductionOp::Sum, &[3, 2], true), image, 1),
        (reduction(ReductionOp::Mean, &[2, 3], false), image, 1),
        (Layer::adaptive_avg_pool2d(1), image, 1),
        (
            Layer::from(Layer::avg_pool2d([7, 9]).divisor_override(5)),
            image,
            1,
        ),
        (Layer::adaptive_avg_pool3d(1), &[2, 12, 3, 5, 7], 1),
        (
            reduction(ReductionOp::Mean, &[2, 3, 4], true),
            &[2, 12, 3, 5, 7],
            1,
        ),
        (Layer::adaptive_avg_pool2d(1), &[2, 64, 33, 35], 2),
        (
            reduction(ReductionOp::Max, &[2, 3], true),
            &[1, 64, 33, 35],
            2,
        ),
    ];
    for (layer, shape, launches) in cases {
        let chain = Chain::new(shape[1], [layer])?;
        let mut values = data::signed(1, shape);
        if let Some(value) = values.iter_mut().nth(5) {
            *value = f32::NAN;
        }
        if let Some(value) = values.iter_mut().last() {
            *value = f32::INFINITY;
        }
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let model = Model::with_dtype(&stream, &chain, &Parameters::init(&chain, 3)?, dtype)?;
            let wanted = model.forward(&Tensor::from_f32_array(&stream, &values, dtype)?)?;
            let x = lying_last(&stream, &values, dtype)?;
            let y = model.forward(&x)?;
            assert_eq!(y.shape(), wanted.shape());
            are_numbers(&bits_of(&y)?, &bits_of(&wanted)?, dtype);
            let explained = model
                .plan_for(&stream, &x, &Options::default())?
                .explain()?;
            let mut kernels = explained.launches.iter().map(|launch| launch.kernel);
            assert_eq!(kernels.len(), launches, "{explained}");
            assert!(
                kernels.all(|kernel| kernel.starts_with("reduction_nhwc")),
                "{explained}"
            );
            assert_eq!(explained.regions[0].reads, Layout::Nhwc, "{explained}");
        }
    }
    Ok(())
}

/// Asserts that finite values are approximately equal, and that all other values match.
fn are_numbers(got: &[u32], wanted: &[u32], dtype: DType) {
    let finite = |bits: &[u32]| {
        let finite = bits.iter().copied();
        finite
            .filter(|&bits| f32::from_bits(bits).is_finite())
            .collect::<Vec<_>>()
    };
    for (&got, &wanted) in got.iter().zip(wanted) {
        let [got, wanted] = [got, wanted].map(f32::from_bits);
        let is_same = got == wanted || got.is_nan() && wanted.is_nan();
        assert!(is_same || got.is_finite() && wanted.is_finite());
    }
    are_close(&finite(got), &finite(wanted), (dtype, Precision::Accurate));
}

fn batches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for shape in [[5, 40, 7, 9], [3, 64, 33, 35]] {
        let chain = Chain::new(shape[1], [Layer::adaptive_avg_pool2d(1)])?;
        let parameters = Parameters::init(&chain, 3)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, DType::F16)?;
        let values = data::signed(1, &shape[..]);
        let of_batch = bits_of(&model.forward(&lying_last(&stream, &values, DType::F16)?)?)?;
        for (number, wanted) in of_batch.chunks_exact(shape[1]).enumerate() {
            let sample = values
                .index_axis(ndarray::Axis(0), number)
                .insert_axis(ndarray::Axis(0))
                .to_owned();
            let y = model.forward(&lying_last(&stream, &sample, DType::F16)?)?;
            assert_eq!(bits_of(&y)?, wanted, "sample {number} of {shape:?}");
        }
    }
    Ok(())
}

/// Reductions after convolutions: at the end of a classifier, and for a gate.
fn inside(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let classes = Graph::builder("x", 64)
        .layer("wide", "x", Layer::conv2d("conv", 128, 1))
        .layer("active", "wide", Layer::relu())
        .layer("pooled", "active", Layer::adaptive_avg_pool2d(1))
        .layer("flat", "pooled", Layer::flatten())
        .layer("y", "flat", Layer::linear("fc", 128, 16))
        .build("y")?;
    let gate = Graph::builder("x", 64)
        .layer("wide", "x", Layer::conv2d("conv", 128, 1))
        .layer("active", "wide", Layer::relu())
        .layer(
            "pooled",
            "active",
            reduction(ReductionOp::Mean, &[2, 3], true),
        )
        .layer("excited", "pooled", Layer::conv2d("excite", 128, 1))
        .layer("weights", "excited", Layer::sigmoid())
        .layer("y", "active", Layer::gate("weights"))
        .build("y")?;
    for graph in [classes, gate] {
        let parameters = Parameters::init(&graph, 3)?;
        let model = Model::with_dtype(&stream, &graph, &parameters, DType::F16)?;
        let values = data::signed(1, &[2, 64, 8, 12][..]);
        let wanted = model.forward(&Tensor::from_f32_array(&stream, &values, DType::F16)?)?;
        let x = lying_last(&stream, &values, DType::F16)?;
        let y = model.forward(&x)?;
        let close = (DType::F16, Precision::Fast);
        are_close(&bits_of(&y)?, &bits_of(&wanted)?, close);
        let explained = model
            .plan_for(&stream, &x, &Options::default())?
            .explain()?;
        if stream.device().properties().arch.has_warpgroup_mma() {
            let kernels = |part: &str| count(&explained, part);
            assert_eq!(kernels("reduction_nhwc"), 1, "{explained}");
            assert_eq!(kernels("copy") + kernels("reformat"), 0, "{explained}");
        }
    }
    Ok(())
}

/// A number of channels that is no multiple of a vector, an operation with a state of several values, and a
/// reduction over only one of two axes.
fn refused(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (channels, layer) in [
        (6, Layer::adaptive_avg_pool2d(1)),
        (8, reduction(ReductionOp::LogSumExp, &[2, 3], false)),
        (8, reduction(ReductionOp::Mean, &[3], false)),
        (8, reduction(ReductionOp::Mean, &[1, 2, 3], false)),
        (8, reduction(ReductionOp::Max, &[1], false)),
    ] {
        let chain = Chain::new(channels, [layer])?;
        let model = Model::new(&stream, &chain, &Parameters::init(&chain, 3)?)?;
        let values = data::signed(1, &[2, channels, 5, 7][..]);
        let wanted = model.forward(&Tensor::from_array(&stream, &values)?)?;
        let x = lying_last(&stream, &values, DType::F32)?;
        assert_eq!(bits_of(&model.forward(&x)?)?, bits_of(&wanted)?);
        let explained = model
            .plan_for(&stream, &x, &Options::default())?
            .explain()?;
        let mut launches = explained.launches.iter();
        assert!(
            launches.all(|of| !of.kernel.contains("_nhwc")),
            "{explained}"
        );
    }
    Ok(())
}

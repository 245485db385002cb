//! Upsampling against the oracle. Channels-last tensors have the bits of NCHW ones.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::reciprocal::Reciprocal;
use launch_config::upsample::{BLOCK_UNITS, UpsampleGeometry};
use op_spec::graph::{Layer, LayerProblem};
use op_spec::{EachAxis, UpsampleMode, UpsampleSpec};

use super::super::kernels::upsample::{UPSAMPLE, UPSAMPLE_NHWC};
use super::far::number;
use super::{Failure, Loaded, Outcome, Run, case, compare, expected, label, same_bits};

/// Input shape, and output extents. Sequences, images and volumes; channels that are whole vectors and not;
/// several blocks to a plane and several planes to a block; smaller outputs.
const ROWS: [(&[usize], EachAxis<usize>); 6] = [
    (&[2, 3, 19], EachAxis::One([31])),
    (&[1, 8, 5, 7], EachAxis::Two([10, 21])),
    (&[2, 3, 23, 31], EachAxis::Two([46, 29])),
    (&[1, 4, 3, 5, 7], EachAxis::Three([5, 13, 17])),
    (&[2, 12, 1, 3, 2], EachAxis::Three([2, 1, 5])),
    (&[1, 1, 1, 1], EachAxis::Two([1, 3])),
];

/// Checks every row in every mode.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (input, size) in ROWS {
        let linear = [
            UpsampleMode::Linear,
            UpsampleMode::Bilinear,
            UpsampleMode::Trilinear,
        ];
        let spec = UpsampleSpec::size(1);
        let spec = |mode, align_corners| {
            let mut spec = spec.mode(mode).align_corners(align_corners);
            spec.size = Some(size);
            spec
        };
        for spec in [
            spec(UpsampleMode::Nearest, false),
            spec(UpsampleMode::NearestExact, false),
            spec(linear[input.len() - 3], false),
            spec(linear[input.len() - 3], true),
        ] {
            check::<T>(run, input, spec)?;
        }
    }
    Ok(())
}

fn check<T: Storage>(run: &Run, input: &[usize], spec: UpsampleSpec) -> Outcome {
    let case = case::<T>([Layer::upsample(spec)], input).special();
    let LayerProblem::Upsample(problem) = case.problem().expect("a valid case").steps[0].problem
    else {
        panic!("an upsampling");
    };
    let g = problem.geometry().expect("a small case");
    let Loaded { x, .. } = run.load::<T>(&case)?;
    let outputs = problem.output_shape().elements();
    let labels = [label::<T>()];
    let what = format!("{spec:?} of {input:?}");
    let dense = |g: UpsampleGeometry| {
        let y = run.empty::<T>(outputs)?;
        run.launch(&UPSAMPLE, &labels, g.shape(), (x.source(), y.ptr(), g))?;
        Ok::<_, Failure>(y)
    };
    let y = dense(g)?;
    compare(&what, &y, &expected::<T>(&case))?;
    // Treats the planes as too long for a reciprocal.
    if g.plane_units() > BLOCK_UNITS.into() {
        let near = Reciprocal::of(BLOCK_UNITS);
        same_bits(
            &format!("{what} far"),
            &dense(UpsampleGeometry { near, ..g })?,
            &y,
        )?;
    }
    let Ok(g) = g.channels_last(problem.c) else {
        assert_ne!(problem.c % 4, 0, "{what}: refused");
        return Ok(());
    };
    let last = |tensor| run.channels_last::<T>(tensor, problem.n as u64, problem.c as u32);
    let (x, wanted) = (last(&x)?, last(&y)?);
    let y = run.empty::<T>(outputs)?;
    run.launch(&UPSAMPLE_NHWC, &labels, g.shape(), (x.source(), y.ptr(), g))?;
    same_bits(&format!("{what}, channels last"), &y, &wanted)
}

/// Checks nearest upsampling of images to twice the extents, in tensors of more than 2^32 elements.
pub(crate) fn far(run: &Run) -> Outcome {
    let (planes, channels) = (1 << 17, 8);
    let spec = UpsampleSpec::scale_factor(2.0);
    let problem = spec.problem(&[planes / channels, channels, 101, 83]);
    let problem = problem.expect("an upsampling");
    let dense = problem.geometry().expect("small images");
    let last = dense.channels_last(channels).expect("whole vectors");
    let [p, q] = [202, 166];
    for (family, g, inner) in [
        (&UPSAMPLE, dense, 1),
        (&UPSAMPLE_NHWC, last, channels as u64),
    ] {
        let outputs = planes as u64 * p * q;
        let x = run.computed::<f32>(outputs / 4, number)?;
        let y = run.sparse::<f32>(outputs)?;
        let grid = u64::from(g.shape().expect("few blocks").grid[0]);
        let labels = [label::<f32>()];
        run.launch_some(
            family,
            &labels,
            g.shape(),
            &[grid - 1],
            (x.source(), y.ptr(), g),
        )?;
        y.are("far images", outputs - 3..outputs, |index| {
            let (pixel, channel) = (index / inner, index % inner);
            let (plane, row, column) = (pixel / (p * q), pixel / q % p, pixel % q);
            number(((plane * p / 2 + row / 2) * (q / 2) + column / 2) * inner + channel)
        })?;
    }
    Ok(())
}

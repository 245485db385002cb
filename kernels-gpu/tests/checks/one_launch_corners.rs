//! Corner cases of problems 85 and 79 in one launch: no bias or affine parameters, bounds in the wrong order,
//! filters of zeros, filters with a NaN, inputs without deviation, an eps of 0 and a large one, tiny input
//! and filters together.

use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::{ClampSpec, GroupNormSpec, InstanceNormSpec};
use oracle::Precision;

use super::conv2d_group_norm_scale_max_pool_clamp as problem85;
use super::conv3d_multiply_instance_norm_clamp_multiply_max as problem79;
use super::convolved::Format;
use super::{Outcome, Run, compare, precision, same_bits, stored};
use problem79::{Choose, of_warpgroups, of_warps};
use problem85::Configured;

/// An eps that is large relative to the convolution's variance, which is about 8 here.
const LARGE_EPS: f64 = 0.5;

/// A corner case of problem 85.
struct Corner85 {
    what: &'static str,
    preset: KernelBench85,
    /// Rows of the input.
    height: usize,
    /// The first of the filters that are zero.
    zeros_from: usize,
}

fn corners85() -> [Corner85; 2] {
    let bare = KernelBench85 {
        bias: false,
        affine: false,
        clamp: ClampSpec::new(0.75, -0.25),
        ..KernelBench85::default()
    };
    let groups = KernelBench85 {
        group_norm: GroupNormSpec::new(8).eps(LARGE_EPS),
        clamp: ClampSpec::new(-0.5, 1.5),
        ..KernelBench85::default()
    };
    [
        Corner85 {
            what: "no bias, not affine, min above max",
            preset: bare,
            height: 10,
            zeros_from: usize::MAX,
        },
        // A last output tile whose input rows are all in one pipeline stage.
        Corner85 {
            what: "groups of eight channels, a large eps, filters of zeros",
            preset: groups,
            height: 11,
            zeros_from: 60,
        },
    ]
}

/// Checks every corner case of problem 85, with the same bits on more blocks.
pub(crate) fn of_problem85<F: Configured>(run: &Run) -> Outcome {
    let precision = Precision {
        products: F::PRODUCTS / 4.0,
        ..precision::<F::Stored>()
    };
    for corner in corners85() {
        let mut case = problem85::case_of::<F::Stored>(corner.preset, 1, corner.height);
        let filters = case.parameters[0].outer_iter_mut().skip(corner.zeros_from);
        filters.into_iter().for_each(|mut filter| filter.fill(0.0));
        let y = problem85::outputs::<F>(run, &case, F::CONFIG)?;
        let wanted = case.expected_of_one_kernel(&precision).expect("an image");
        compare(corner.what, &y, &wanted)?;
        let spread = problem85::outputs::<F>(run, &case, F::CONFIG.spread())?;
        same_bits(corner.what, &spread, &y)?;
    }
    if size_of::<F::Stored>() == 4 {
        // The reciprocals of both scales are normal numbers. Their product would not be normal if both were
        // as large as possible.
        let mut case = problem85::case_of::<F::Stored>(KernelBench85::default(), 1, 10);
        case = case.scaled(f32::exp2(-100.0));
        case.parameters[0].mapv_inplace(|weight| weight * f32::exp2(-40.0));
        let y = problem85::outputs::<F>(run, &case, F::CONFIG)?;
        let wanted = case.expected_of_one_kernel(&precision).expect("an image");
        compare("tiny input, tiny filters", &y, &wanted)?;
    }
    // The norm removes a bias that all channels share, however large, to the last bit.
    let mut case = problem85::case_of::<F::Stored>(KernelBench85::default(), 1, 10);
    case.parameters[1].fill(0.0);
    let without = problem85::outputs::<F>(run, &case, F::CONFIG)?;
    case.parameters[1].fill(4096.0);
    let with = problem85::outputs::<F>(run, &case, F::CONFIG)?;
    same_bits("a bias of all channels", &with, &without)
}

/// A corner case of problem 79: name, preset, factor and summand of the input, and the value of a filter, if
/// changed.
type Corner79 = (&'static str, KernelBench79, [f32; 2], Option<f32>);

fn corners79() -> [Corner79; 7] {
    let usual = KernelBench79 {
        in_channels: 3,
        out_channels: 16,
        ..KernelBench79::default()
    };
    let bare = KernelBench79 {
        bias: false,
        instance_norm: InstanceNormSpec::default().eps(LARGE_EPS),
        ..usual
    };
    let bounds = KernelBench79 {
        clamp: ClampSpec::new(0.5, -0.25),
        ..usual
    };
    let no_eps = KernelBench79 {
        instance_norm: InstanceNormSpec::default().eps(0.0),
        ..usual
    };
    [
        ("no bias, a large eps", bare, [1.0, 0.0], None),
        ("min above max", bounds, [1.0, 0.0], None),
        // A multiplier of 0 leaves no deviation.
        ("no eps", no_eps, [1.0, 0.0], None),
        // Equal values: the variance as mean square less squared mean may be slightly negative.
        ("no deviation", usual, [0.0, 3.0], None),
        ("none of other values", usual, [0.0, -0.7], None),
        ("a filter of zeros", usual, [1.0, 0.0], Some(0.0)),
        ("a filter with a NaN", usual, [1.0, 0.0], Some(f32::NAN)),
    ]
}

fn of_problem79_by<F: Format>(run: &Run, choose: Choose, clusters: &[u32]) -> Outcome {
    let precision = Precision {
        products: F::PRODUCTS / 16.0,
        ..precision::<F::Stored>()
    };
    for (what, preset, [scale, added], filter) in corners79() {
        let change = |case: oracle::Case| {
            let mut case = case
                .scaled(scale)
                .shifted(added)
                .rounded(stored::<F::Stored>);
            let mut seventh = case.parameters[0].index_axis_mut(ndarray::Axis(0), 7);
            match filter {
                Some(value) if value.is_nan() => seventh[[1, 0, 2, 1]] = value,
                Some(value) => seventh.fill(value),
                None => {}
            }
            case
        };
        let subject = problem79::Subject::<F::Stored>::of(run, preset, (1, 4, 5), change)?;
        let y = subject.result(run, choose(&subject.g, 1))?;
        let wanted = subject.case.expected_of_one_kernel(&precision);
        compare(what, &y, &wanted.expect("a volume"))?;
        for &blocks in clusters {
            let of_cluster = subject.result(run, choose(&subject.g, blocks))?;
            let wanted = subject.case.expected_of_one_kernel(&precision);
            let what = format!("{what}, {blocks} blocks");
            compare(&what, &of_cluster, &wanted.expect("a volume"))?;
        }
    }
    // A value far larger than all before it, in rows of a tall volume that the first items need, but that did
    // not choose the scale.
    let late = |mut case: oracle::Case| {
        case.x[[0, 1, 2, 60, 5]] = stored::<F::Stored>(1000.0);
        case
    };
    let (_, usual, ..) = corners79()[3];
    let subject = problem79::Subject::<F::Stored>::of(run, usual, (1, 3, 64), late)?;
    let y = subject.result(run, choose(&subject.g, 1))?;
    let wanted = subject.case.expected_of_one_kernel(&precision);
    compare("a late value", &y, &wanted.expect("a volume"))
}

/// Checks every corner case of problem 79 with `mma.sync`.
pub(crate) fn of_problem79<F: Format>(run: &Run) -> Outcome {
    // 16-bit types have clusters only with `wgmma`.
    let clusters = if size_of::<F::Stored>() == 4 {
        &[2][..]
    } else {
        &[]
    };
    of_problem79_by::<F>(run, of_warps::<F>, clusters)
}

/// Checks every corner case of problem 79 with `wgmma`.
pub(crate) fn of_problem79_on_warpgroups<F: Format>(run: &Run) -> Outcome {
    let clusters = [
        launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::CLUSTER_BLOCKS,
    ];
    of_problem79_by::<F>(run, of_warpgroups::<F>, &clusters)
}

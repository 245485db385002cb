//! Problems 85 and 79 in one launch where some values are NaN and others are not, so that a step that loses
//! NaN shows: a NaN of the input is in all that its norm makes, one of a parameter in its channel alone.

use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup;
use op_spec::ClampSpec;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use oracle::{Case, Precision};

use super::conv2d_group_norm_scale_max_pool_clamp as problem85;
use super::conv3d_multiply_instance_norm_clamp_multiply_max as problem79;
use super::convolved::Format;
use super::{Outcome, Run, compare, precision};
use problem79::{Choose, of_warpgroups, of_warps};
use problem85::Configured;

/// A sample without, one with a NaN, one with an infinity; parameters of some channels that are NaN, an
/// infinite bias and infinite scales.
pub(crate) fn of_problem85<F: Configured>(run: &Run) -> Outcome {
    let precision = Precision {
        products: F::PRODUCTS / 4.0,
        ..precision::<F::Stored>()
    };
    let preset = KernelBench85 {
        clamp: ClampSpec::new(-0.5, 1.5),
        ..KernelBench85::default()
    };
    let mut case = problem85::case_of::<F::Stored>(preset, 3, 10);
    case.x[[1, 2, 9, 127]] = f32::NAN;
    case.x[[2, 7, 0, 64]] = f32::NEG_INFINITY;
    // Weight and bias of the norm, and scale.
    for (parameter, channel, value) in [
        (2, 3, f32::NAN),
        (3, 17, f32::NAN),
        (4, 30, f32::NAN),
        (3, 44, f32::INFINITY),
        (4, 9, f32::INFINITY),
        (4, 51, f32::NEG_INFINITY),
        // Of nothing infinity makes NaN.
        (2, 33, 0.0),
        (3, 33, 0.0),
        (4, 33, f32::INFINITY),
    ] {
        let values = case.parameters[parameter].as_slice_mut();
        values.expect("a vector")[channel] = value;
    }
    let y = problem85::outputs::<F>(run, &case, F::CONFIG)?;
    let wanted = case.expected_of_one_kernel(&precision).expect("an image");
    compare("NaN in 85", &y, &wanted)
}

/// Channels of every register that a thread has results in, whether filters are rows or columns of the
/// GEMM.
const CHANNELS: [usize; 4] = [2, 5, 8, 15];

/// A NaN in the filter of one channel, which is the largest of all channels everywhere; an infinite bias,
/// which the norm takes away with its mean, and an infinity in some windows where multipliers are 0: of these
/// the kernels' own results show nothing, or not everywhere.
fn of_problem79_by<F: Format>(run: &Run, choose: Choose, blocks: &[u32]) -> Outcome {
    let check = |what: &str, change: &dyn Fn(&mut Case)| {
        check_problem79::<F>(run, choose, blocks, what, change)
    };
    for channel in CHANNELS {
        check(&format!("NaN in channel {channel}"), &|case| {
            case.parameters[0][[channel, 0, 1, 2, 0]] = f32::NAN;
        })?;
    }
    // One order of threads will do for each type: these differ in what one thread does with a channel's sums.
    if run.seed == Some(1) {
        return Ok(());
    }
    check("an infinite bias", &|case| {
        case.parameters[1][7] = f32::INFINITY;
    })?;
    check("an infinity where all multipliers are 0", &|case| {
        case.x[[0, 2, 1, 0, 5]] = f32::INFINITY;
        case.parameters[2].fill(0.0);
    })
}

/// A sample of problem 79, with what `change` does to it.
fn check_problem79<F: Format>(
    run: &Run,
    choose: Choose,
    blocks: &[u32],
    what: &str,
    change: &dyn Fn(&mut Case),
) -> Outcome {
    let precision = Precision {
        products: F::PRODUCTS / 16.0,
        ..precision::<F::Stored>()
    };
    let preset = KernelBench79 {
        in_channels: 3,
        out_channels: 16,
        ..KernelBench79::default()
    };
    let changed = |mut case: Case| {
        change(&mut case);
        case
    };
    let subject = problem79::Subject::<F::Stored>::of(run, preset, (1, 3, 4), changed)?;
    let wanted = subject.case.expected_of_one_kernel(&precision);
    let wanted = wanted.expect("a volume");
    for &blocks in blocks {
        let y = subject.result(run, choose(&subject.g, blocks))?;
        compare(&format!("{what}, {blocks} blocks"), &y, &wanted)?;
    }
    Ok(())
}

/// Warp by warp.
pub(crate) fn of_problem79<F: Format>(run: &Run) -> Outcome {
    of_problem79_by::<F>(run, of_warps::<F>, &[1])
}

/// With `wgmma`.
pub(crate) fn of_problem79_on_warpgroups<F: Format>(run: &Run) -> Outcome {
    of_problem79_by::<F>(run, of_warpgroups::<F>, &[1, warpgroup::CLUSTER_BLOCKS])
}

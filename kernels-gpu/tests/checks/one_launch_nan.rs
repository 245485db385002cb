//! Problems 85 and 79 in one launch with NaN in some results only, so that a step that loses NaN shows. A NaN
//! of the input reaches all results of its norm, a NaN of a parameter only those of its channel.

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

/// Checks a sample of finite values, one with a NaN and one with an infinity. Some channels have NaN
/// parameters, infinite biases or infinite scales.
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
    // Parameters 2, 3 and 4: weight and bias of the norm, and scale.
    for (parameter, channel, value) in [
        (2, 3, f32::NAN),
        (3, 17, f32::NAN),
        (4, 30, f32::NAN),
        (3, 44, f32::INFINITY),
        (4, 9, f32::INFINITY),
        (4, 51, f32::NEG_INFINITY),
        // 0 times infinity is NaN.
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

/// Channels that cover every register of a thread's results, whether filters are rows or columns of the GEMM.
const CHANNELS: [usize; 4] = [2, 5, 8, 15];

/// Checks a NaN in the filter of one channel, which wins the maximum over channels everywhere; an infinite
/// bias, which the norm removes with its mean; and an infinity in some windows with multipliers of 0. The
/// kernel's own arithmetic would show none of these, or not everywhere.
fn of_problem79_by<F: Format>(run: &Run, choose: Choose, blocks: &[u32]) -> Outcome {
    let check = |what: &str, change: &dyn Fn(&mut Case)| {
        check_problem79::<F>(run, choose, blocks, what, change)
    };
    for channel in CHANNELS {
        check(&format!("NaN in channel {channel}"), &|case| {
            case.parameters[0][[channel, 0, 1, 2, 0]] = f32::NAN;
        })?;
    }
    // One thread order suffices for each type: the remaining cases differ only in one thread's arithmetic on
    // a channel's sums.
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

/// Checks a sample of problem 79, changed by `change`.
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

/// Checks problem 79 with `mma.sync`.
pub(crate) fn of_problem79<F: Format>(run: &Run) -> Outcome {
    of_problem79_by::<F>(run, of_warps::<F>, &[1])
}

/// Checks problem 79 with `wgmma`.
pub(crate) fn of_problem79_on_warpgroups<F: Format>(run: &Run) -> Outcome {
    of_problem79_by::<F>(run, of_warpgroups::<F>, &[1, warpgroup::CLUSTER_BLOCKS])
}

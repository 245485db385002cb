//! Every kernel in the emulator, in natural order and in shuffled ones, against loops in f64.

use kernels_gpu as kernels;

mod checks;

use checks::{Outcome, Run};

/// Runs a check in natural order and in two shuffled ones.
fn under_all_schedules(check: fn(&Run) -> Outcome) {
    for seed in [None, Some(1), Some(2)] {
        if let Err(failure) = check(&Run::new(seed)) {
            panic!("seed {seed:?}: {failure}");
        }
    }
}

macro_rules! tests {
    ($($name:ident: $($check:path),+;)+) => {
        $(
            #[test]
            fn $name() {
                $(under_all_schedules($check);)+
            }
        )+
    };
}

tests! {
    conv2d_direct_matches_on_ragged_shapes: checks::conv::direct2_f32;
    conv2d_direct_matches_in_half_precision: checks::conv::direct2_f16, checks::conv::direct2_bf16;
    conv3d_direct_matches_on_ragged_shapes: checks::conv::direct3_f32;
    conv3d_direct_matches_in_half_precision: checks::conv::direct3_f16, checks::conv::direct3_bf16;
    conv2d_gemm_matches_with_any_workspace: checks::conv::gemm2_f32;
    conv2d_gemm_matches_in_half_precision: checks::conv::gemm2_f16, checks::conv::gemm2_bf16;
    conv3d_gemm_matches_with_any_workspace: checks::conv::gemm3_f32;
    conv3d_gemm_matches_in_half_precision: checks::conv::gemm3_f16, checks::conv::gemm3_bf16;
    group_norm_matches_for_short_and_long_rows: checks::norm::group_norm_f32;
    group_norm_matches_in_half_precision: checks::norm::group_norm_f16, checks::norm::group_norm_bf16;
    group_norm_of_constant_rows_is_the_bias: checks::norm::constant_rows_give_the_bias;
    group_norm_scale_clamp_matches_for_planes_of_any_length:
        checks::norm::clamped_f32, checks::norm::clamped_f16, checks::norm::clamped_bf16;
    group_norm_scale_resident_matches_for_rows_that_fit_and_do_not:
        checks::norm::resident_f32, checks::norm::resident_f16, checks::norm::resident_bf16;
    scale_matches_and_works_in_place:
        checks::elementwise::scale_f32, checks::elementwise::scale_f16, checks::elementwise::scale_bf16;
    clamp_keeps_nan_and_lets_the_upper_bound_win:
        checks::elementwise::clamp_f32, checks::elementwise::clamp_f16, checks::elementwise::clamp_bf16;
    fold_scale_matches:
        checks::elementwise::fold_f32, checks::elementwise::fold_f16, checks::elementwise::fold_bf16;
    max_pool2d_matches_alone_and_fused: checks::max_pool2d::max_pool2d_f32;
    max_pool2d_matches_in_half_precision:
        checks::max_pool2d::max_pool2d_f16, checks::max_pool2d::max_pool2d_bf16;
    group_norm_scale_max_pool2d_clamp_matches: checks::max_pool2d::normed_f32;
    group_norm_scale_max_pool2d_clamp_matches_in_half_precision:
        checks::max_pool2d::normed_f16, checks::max_pool2d::normed_bf16;
    group_norm_scale_max_pool2d_clamp_maps_extremes_to_the_bits_of_all_elements:
        checks::max_pool2d::extremes_decide_what_all_elements_would;
    channel_max_matches_alone_and_fused: checks::channel_max::channel_max_f32;
    channel_max_matches_in_half_precision:
        checks::channel_max::channel_max_f16, checks::channel_max::channel_max_bf16;
    conv2d_group_norm_scale_max_pool_clamp_matches:
        checks::conv2d_group_norm_scale_max_pool_clamp::split,
        checks::conv2d_group_norm_scale_max_pool_clamp::rounded;
    conv2d_group_norm_scale_max_pool_clamp_matches_in_half_precision:
        checks::conv2d_group_norm_scale_max_pool_clamp::f16,
        checks::conv2d_group_norm_scale_max_pool_clamp::bf16;
    conv2d_group_norm_scale_max_pool_clamp_gives_the_same_bits_on_more_blocks:
        checks::conv2d_group_norm_scale_max_pool_clamp::split_spread,
        checks::conv2d_group_norm_scale_max_pool_clamp::rounded_spread;
    conv2d_group_norm_scale_max_pool_clamp_gives_the_same_bits_on_more_blocks_in_half_precision:
        checks::conv2d_group_norm_scale_max_pool_clamp::f16_spread,
        checks::conv2d_group_norm_scale_max_pool_clamp::bf16_spread;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::split_f32,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::rounded_f32;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches_in_half_precision:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::f16,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::bf16;
    implicit_gemm_matches: checks::implicit_gemm::split_f32, checks::implicit_gemm::rounded_f32;
    implicit_gemm_matches_in_half_precision:
        checks::implicit_gemm::f16, checks::implicit_gemm::bf16;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches_on_warpgroups:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_f16,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_bf16;
    conv3d_multiply_instance_norm_clamp_multiply_max_gives_the_same_bits_in_clusters:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::split_clusters,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::rounded_clusters,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_f16_clusters,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_bf16_clusters;
    stencil_matches: checks::stencil::full;
    stencil_matches_in_half_precision: checks::stencil::f16, checks::stencil::bf16;
    instance_norm_clamp_multiply_channel_max_matches: checks::channel_max::normed_f32;
    instance_norm_clamp_multiply_channel_max_matches_in_half_precision:
        checks::channel_max::normed_f16, checks::channel_max::normed_bf16;
}

#[test]
fn statistics_repeat_bit_for_bit_in_any_order_and_batch() {
    let of =
        |seed, n| checks::norm::first_row_in_a_batch_of(&Run::new(seed), n).expect("a clean run");
    let once = of(None, 1);
    for (seed, n) in [(None, 1), (Some(3), 1), (Some(4), 3)] {
        assert_eq!(of(seed, n), once, "seed {seed:?}, batch {n}");
    }
}

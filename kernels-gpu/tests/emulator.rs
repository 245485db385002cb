//! Checks every kernel in the emulator against the oracle, in natural and in shuffled thread orders.

use kernels_gpu as kernels;

mod checks;
/// A module of its own: the other checks also run on copies of the kernels that lack the peak kernels.
#[path = "checks/peak.rs"]
mod peak;

use checks::convolved::{Bf16x3, F16x2, ScaledF16};
use checks::{Outcome, Run};
use cuda_std::{bf16, f16};

/// Orders of threads: the natural one, and two shuffled ones. A check runs in the first two, or in the first
/// alone if it takes long. With other types, it runs in the third.
const ORDERS: [Option<u64>; 3] = [None, Some(1), Some(2)];

/// Runs a check in these orders. If `CONVFUSE_TEST_ORDER` is `natural` or `shuffled`, the check runs in all
/// such orders of [`ORDERS`] instead; if it is `rest`, in these orders without the natural one. `cargo xtask`
/// sets the variable to see in the least time what the tests reach or notice, and continuous integration sets
/// it for the runs after that.
fn run_in(orders: &[Option<u64>], check: fn(&Run) -> Outcome) {
    let chosen = std::env::var("CONVFUSE_TEST_ORDER").ok();
    let runs = |seed: &Option<u64>| match chosen.as_deref() {
        None => orders.contains(seed),
        Some("natural") => seed.is_none(),
        Some("shuffled") => seed.is_some(),
        Some("rest") => seed.is_some() && orders.contains(seed),
        Some(other) => panic!("CONVFUSE_TEST_ORDER is {other}: natural, shuffled or rest"),
    };
    for seed in ORDERS.into_iter().filter(runs) {
        if let Err(failure) = check(&Run::new(seed)) {
            panic!("seed {seed:?}: {failure}");
        }
    }
}

/// Defines tests that run checks in `$orders` orders. After `=>` are the same checks with other types.
macro_rules! tests {
    (in $orders:literal: $($name:ident: $($check:expr),+ $(=> $($other:expr),+)?;)+) => {
        $(
            #[test]
            fn $name() {
                $(run_in(&ORDERS[..$orders], $check);)+
                $($(run_in(&ORDERS[2..], $other);)+)?
            }
        )+
    };
}

tests! {
    in 2:
    conv2d_direct_matches_on_ragged_shapes: checks::conv::direct::<f32, 2>;
    conv2d_direct_matches_in_half_precision: checks::conv::direct::<f16, 2> => checks::conv::direct::<bf16, 2>;
    conv3d_direct_matches_on_ragged_shapes: checks::conv::direct::<f32, 3>;
    conv3d_direct_matches_in_half_precision: checks::conv::direct::<f16, 3> => checks::conv::direct::<bf16, 3>;
    conv_pad_puts_planes_of_any_length_into_any_pad:
        checks::conv_pad::matches::<f32>
            => checks::conv_pad::matches::<f16>, checks::conv_pad::matches::<bf16>;
    conv_transpose_matches_on_ragged_shapes: checks::conv_transpose::matches::<f32>;
    conv_transpose_matches_in_half_precision:
        checks::conv_transpose::matches::<f16> => checks::conv_transpose::matches::<bf16>;
    conv_transpose_matches_with_what_is_behind_it: checks::conv_transpose_epilogue::matches::<f32>;
    conv_transpose_matches_with_what_is_behind_it_in_half_precision:
        checks::conv_transpose_epilogue::matches::<f16> => checks::conv_transpose_epilogue::matches::<bf16>;
    conv_transpose_matches_where_results_are_shuffled:
        checks::conv_transpose_shuffled::matches::<ScaledF16>
            => checks::conv_transpose_shuffled::matches::<f16>, checks::conv_transpose_shuffled::matches::<bf16>;
    conv_transpose_matches_where_results_are_shuffled_in_accurate_f32:
        checks::conv_transpose_shuffled::matches::<Bf16x3>;
    conv_transpose_matches_where_no_two_axes_are_alike:
        checks::conv_transpose::drawn::<f32> => checks::conv_transpose::drawn::<bf16>;
    group_norm_matches_for_short_and_long_rows: checks::norm::group_norm::<f32>;
    group_norm_matches_in_half_precision: checks::norm::group_norm::<f16> => checks::norm::group_norm::<bf16>;
    layer_norm_matches_for_short_and_long_rows:
        checks::norm::layer_norm::<f32> => checks::norm::layer_norm::<f16>, checks::norm::layer_norm::<bf16>;
    group_norm_statistics_are_the_same_bits_at_any_place:
        checks::norm::at_any_place::<f32> => checks::norm::at_any_place::<f16>;
    group_norm_of_constant_rows_is_the_bias: checks::norm::constant_rows_give_the_bias;
    group_norm_scale_pointwise_matches_for_planes_of_any_length:
        checks::norm::functions::<f32> => checks::norm::functions::<f16>, checks::norm::functions::<bf16>;
    group_norm_scale_pointwise_matches_for_channels_that_were_multiplied:
        checks::norm::multiplied_before::<f32> => checks::norm::multiplied_before::<f16>;
    group_norm_scale_pointwise_matches_with_slopes_behind_the_norm:
        checks::norm::slopes::<f32> => checks::norm::slopes::<f16>, checks::norm::slopes::<bf16>;
    group_norm_scale_resident_matches_for_rows_that_fit_and_do_not:
        checks::norm::resident::<f32> => checks::norm::resident::<f16>, checks::norm::resident::<bf16>;
    norms_read_parameters_in_f32: checks::norm_f32_affine::same_bits_as_stored::<f16> => checks::norm_f32_affine::same_bits_as_stored::<bf16>;
    scale_matches_and_works_in_place:
        checks::elementwise::scale::<f32> => checks::elementwise::scale::<f16>, checks::elementwise::scale::<bf16>;
    prelu_matches_and_works_in_place:
        checks::elementwise::prelu::<f32> => checks::elementwise::prelu::<f16>, checks::elementwise::prelu::<bf16>;
    add_matches_and_works_in_place:
        checks::elementwise::add::<f32> => checks::elementwise::add::<f16>, checks::elementwise::add::<bf16>;
    arithmetic_folds_its_parameter_behind_others:
        checks::arithmetic::matches::<f32> => checks::arithmetic::matches::<f16>, checks::arithmetic::matches::<bf16>;
    batch_norm_folds_its_parameters_and_matches_in_place:
        checks::batch_norm::matches::<f32> => checks::batch_norm::matches::<f16>, checks::batch_norm::matches::<bf16>;
    batch_norm_by_the_batch_matches_and_renews_running_statistics:
        checks::batch_norm::by_batch::<f32> => checks::batch_norm::by_batch::<f16>, checks::batch_norm::by_batch::<bf16>;
    clamp_keeps_nan_and_lets_the_upper_bound_win:
        checks::pointwise::clamp::<f32> => checks::pointwise::clamp::<f16>, checks::pointwise::clamp::<bf16>;
    pointwise_walks_over_lists_without_rounding_in_between:
        checks::pointwise::lists::<f32> => checks::pointwise::lists::<f16>, checks::pointwise::lists::<bf16>;
    pointwise_functions_are_accurate_at_all_magnitudes: checks::pointwise::all_magnitudes::<f32>;
    fold_scale_matches:
        checks::elementwise::fold::<f32> => checks::elementwise::fold::<f16>, checks::elementwise::fold::<bf16>;
    max_pool2d_matches_alone_and_fused: checks::max_pool2d::max_pool2d::<f32>;
    max_pool2d_stacks_match_at_any_edge: checks::max_pool2d::stacks;
    max_pool2d_matches_in_half_precision:
        checks::max_pool2d::max_pool2d::<f16> => checks::max_pool2d::max_pool2d::<bf16>;
    group_norm_scale_max_pool2d_clamp_matches: checks::max_pool2d::normed::<f32>;
    group_norm_scale_max_pool2d_clamp_matches_in_half_precision:
        checks::max_pool2d::normed::<f16> => checks::max_pool2d::normed::<bf16>;
    group_norm_scale_max_pool2d_clamp_maps_extremes_to_the_bits_of_all_elements:
        checks::max_pool2d::extremes_decide_what_all_elements_would;
    pool_matches_on_windows_of_any_attributes:
        checks::pool::windows::<f32> => checks::pool::windows::<f16>, checks::pool::windows::<bf16>;
    row_reduction_matches_for_rows_of_any_length: checks::row_reduction::matches::<f32>;
    row_reduction_matches_in_half_precision:
        checks::row_reduction::matches::<f16> => checks::row_reduction::matches::<bf16>;
    layer_norm_rows_match: checks::layer_norm_rows::matches::<f32>;
    layer_norm_rows_match_in_half_precision:
        checks::layer_norm_rows::matches::<f16> => checks::layer_norm_rows::matches::<bf16>;
    layer_norm_rows_apply_lists:
        checks::layer_norm_rows::lists::<f32>
            => checks::layer_norm_rows::lists::<f16>, checks::layer_norm_rows::lists::<bf16>;
    softmax_matches_for_series_of_any_length: checks::softmax::matches::<f32>;
    softmax_matches_in_half_precision:
        checks::softmax::matches::<f16> => checks::softmax::matches::<bf16>;
    softmax_applies_lists:
        checks::softmax::lists::<f32> => checks::softmax::lists::<f16>, checks::softmax::lists::<bf16>;
    gate_multiplies_channels_of_samples:
        checks::gate::matches::<f32> => checks::gate::matches::<f16>, checks::gate::matches::<bf16>;
    conv_of_channels_last_tensors_with_few_filters_matches:
        checks::conv_nhwc::matches::<f16> => checks::conv_nhwc::matches::<bf16>;
    norms_of_channels_last_tensors_match:
        checks::norm_nhwc::matches::<f32>
            => checks::norm_nhwc::matches::<f16>, checks::norm_nhwc::matches::<bf16>;
    norms_of_channels_last_tensors_take_moments_of_far_values: checks::norm_nhwc::takes_moments_of_far_values;
    norms_of_channels_last_tensors_take_running_statistics:
        checks::norm_nhwc::of_running_statistics::<f32>
            => checks::norm_nhwc::of_running_statistics::<f16>, checks::norm_nhwc::of_running_statistics::<bf16>;
    reduction_nhwc_matches_for_any_number_of_pixels: checks::reduction_nhwc::matches::<f32>;
    reduction_nhwc_matches_in_half_precision:
        checks::reduction_nhwc::matches::<f16> => checks::reduction_nhwc::matches::<bf16>;
    reduction_nhwc_averages_by_any_divisor: checks::reduction_nhwc::averages_by_any_divisor;
    upsample_matches_in_every_mode:
        checks::upsample::matches::<f32> => checks::upsample::matches::<f16>, checks::upsample::matches::<bf16>;
    row_reduction_averages_by_any_divisor: checks::row_reduction::averages_by_any_divisor;
    channel_reduction_matches_alone_and_fused: checks::channel_reduction::channel_reduction::<f32>;
    channel_reduction_matches_in_half_precision:
        checks::channel_reduction::channel_reduction::<f16> => checks::channel_reduction::channel_reduction::<bf16>;
    conv2d_group_norm_scale_max_pool_clamp_matches:
        checks::conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>
            => checks::conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>;
    conv2d_group_norm_scale_max_pool_clamp_matches_in_half_precision:
        checks::conv2d_group_norm_scale_max_pool_clamp::matches::<f16>
            => checks::conv2d_group_norm_scale_max_pool_clamp::matches::<bf16>;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches::<F16x2>
            => checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches::<ScaledF16>;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches_in_half_precision:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches::<f16>
            => checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches::<bf16>;
    implicit_gemm_matches_in_half_precision:
        checks::implicit_gemm::matches::<f16> => checks::implicit_gemm::matches::<bf16>;
    implicit_gemm_combine_matches_for_rows_of_many_parts: checks::combine::in_chunks;
    implicit_gemm_keeps_to_windows_where_no_norm_follows:
        checks::implicit_gemm_without_norm::matches::<f16>, checks::implicit_gemm_without_norm::zeros::<f16>
            => checks::implicit_gemm_without_norm::matches::<bf16>;
    implicit_gemm_writes_nhwc_and_reads_filters_in_place:
        checks::implicit_gemm_without_norm::nhwc_and_in_place::<f16>;
    implicit_gemm_keeps_magnitudes_to_windows_in_parts: checks::implicit_gemm_without_norm::magnitudes::<Bf16x3>;
    implicit_gemm_keeps_scales_to_samples_and_filters_where_no_norm_follows:
        checks::implicit_gemm_without_norm::scales::<ScaledF16>;
    implicit_gemm_matches_in_parts_where_no_norm_follows: checks::implicit_gemm_without_norm::matches::<Bf16x3>;
    implicit_gemm_matches_with_scales_where_no_norm_follows: checks::implicit_gemm_without_norm::matches::<ScaledF16>;
    implicit_gemm_reduces_what_it_would_write:
        checks::implicit_gemm_reduced::matches::<ScaledF16>
            => checks::implicit_gemm_reduced::matches::<f16>, checks::implicit_gemm_reduced::matches::<bf16>;
    implicit_gemm_reduces_what_it_would_write_in_parts: checks::implicit_gemm_reduced::matches::<Bf16x3>;
    implicit_gemm_reformats_k_vectors_of_few_channels:
        checks::implicit_gemm_corners::few_channels::<F16x2>
            => checks::implicit_gemm_corners::few_channels::<ScaledF16>,
            checks::implicit_gemm_corners::few_channels::<f16>, checks::implicit_gemm_corners::few_channels::<bf16>;
    implicit_gemm_promotes_accumulators_and_writes_odd_rows:
        checks::implicit_gemm_corners::sums_and_rows::<F16x2>
            => checks::implicit_gemm_corners::sums_and_rows::<ScaledF16>,
            checks::implicit_gemm_corners::sums_and_rows::<f16>, checks::implicit_gemm_corners::sums_and_rows::<bf16>;
    depthwise_and_warpgroup_tiles_match_where_no_two_axes_are_alike:
        checks::draws::depthwise::<f32>, checks::draws::depthwise_nhwc::<f32>
            => checks::draws::depthwise::<bf16>, checks::draws::depthwise_nhwc::<f16>, checks::draws::warpgroups;
    pools_match_where_no_two_axes_are_alike:
        checks::draws_pools::images::<f32>
            => checks::draws_pools::volumes::<f16>, checks::draws_pools::rows::<f32>;
    convolutions_match_where_no_two_axes_are_alike:
        checks::draws::on_cores::<f32> => checks::draws::warps, checks::draws::without_norm;
    group_norm_takes_statistics_that_say_how_many_values_they_are_of:
        checks::counted::matches::<f32> => checks::counted::matches::<f16>, checks::counted::matches::<bf16>;
    group_norm_gives_the_same_bits_for_statistics_in_parts_and_combined_ones:
        checks::counted::bits::<f32> => checks::counted::bits::<f16>;
    implicit_gemm_pools_windows_of_any_extent_in_every_tile:
        checks::implicit_gemm_corners::windows::<F16x2>
            => checks::implicit_gemm_corners::windows::<ScaledF16>, checks::implicit_gemm_corners::windows::<f16>,
            checks::implicit_gemm_corners::windows::<bf16>;
    implicit_gemm_keeps_nan_of_windows:
        checks::implicit_gemm_nan::windows::<F16x2>
            => checks::implicit_gemm_nan::windows::<ScaledF16>, checks::implicit_gemm_nan::windows::<f16>,
            checks::implicit_gemm_nan::windows::<bf16>;
    implicit_gemm_keeps_infinities_between_windows_out_of_them:
        checks::implicit_gemm_nan::between_windows::<F16x2> => checks::implicit_gemm_nan::between_windows::<f16>;
    implicit_gemm_undoes_scales_of_any_magnitude:
        checks::implicit_gemm_corners::magnitudes::<F16x2> => checks::implicit_gemm_corners::magnitudes::<ScaledF16>;
    implicit_gemm_finds_a_scale_for_each_sample:
        checks::implicit_gemm_corners::samples_apart::<F16x2> => checks::implicit_gemm_corners::samples_apart::<ScaledF16>;
    implicit_gemm_keeps_nan_out_of_scales:
        checks::implicit_gemm_corners::not_a_number::<F16x2>
            => checks::implicit_gemm_corners::not_a_number::<ScaledF16>,
            checks::implicit_gemm_corners::not_a_number::<f16>, checks::implicit_gemm_corners::not_a_number::<bf16>;
    one_launch_kernels_match_at_the_corners_of_problem_85:
        checks::one_launch_corners::of_problem85::<F16x2>
            => checks::one_launch_corners::of_problem85::<ScaledF16>, checks::one_launch_corners::of_problem85::<f16>,
            checks::one_launch_corners::of_problem85::<bf16>;
    one_launch_kernels_match_at_the_corners_of_problem_79:
        checks::one_launch_corners::of_problem79::<F16x2>,
        checks::one_launch_corners::of_problem79_on_warpgroups::<f16>
            => checks::one_launch_corners::of_problem79::<ScaledF16>, checks::one_launch_corners::of_problem79::<f16>,
            checks::one_launch_corners::of_problem79::<bf16>,
            checks::one_launch_corners::of_problem79_on_warpgroups::<bf16>;
    one_launch_kernels_keep_nan_to_their_channels_and_samples:
        checks::one_launch_nan::of_problem85::<F16x2>, checks::one_launch_nan::of_problem79::<F16x2>,
        checks::one_launch_nan::of_problem79_on_warpgroups::<f16>
            => checks::one_launch_nan::of_problem85::<ScaledF16>, checks::one_launch_nan::of_problem85::<f16>,
            checks::one_launch_nan::of_problem85::<bf16>, checks::one_launch_nan::of_problem79::<ScaledF16>,
            checks::one_launch_nan::of_problem79::<f16>, checks::one_launch_nan::of_problem79::<bf16>,
            checks::one_launch_nan::of_problem79_on_warpgroups::<bf16>;
    implicit_gemm_fills_and_frees_all_stages_of_warp_specialized_tiles:
        checks::implicit_gemm::warp_specialized::<F16x2> => checks::implicit_gemm::warp_specialized::<ScaledF16>;
    implicit_gemm_makes_two_outputs_in_depth_of_a_warp_specialized_tile:
        checks::warp_specialized_tiles::two_outputs::<f16> => checks::warp_specialized_tiles::two_outputs::<F16x2>;
    implicit_gemm_warpgroups_ping_pong_in_warp_specialized_tiles:
        checks::warp_specialized_tiles::ping_pong::<f16>;
    implicit_gemm_combines_the_moments_of_neighbouring_channels:
        checks::warp_specialized_tiles::moments_together::<f16> => checks::warp_specialized_tiles::moments_together::<F16x2>;
    implicit_gemm_fills_and_frees_all_stages_of_warp_specialized_tiles_in_half_precision:
        checks::implicit_gemm::warp_specialized::<f16> => checks::implicit_gemm::warp_specialized::<bf16>;
    implicit_gemm_gives_the_same_bits_on_nhwc_halo_tiles:
        checks::implicit_gemm_channels_last::same_bits_as_reformatted::<f16>;
    implicit_gemm_gives_the_same_bits_on_nhwc_halo_tiles_with_scales:
        checks::implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>;
    dense_f32_has_the_bits_of_a_reformatted_one:
        checks::implicit_gemm_channels_last::dense_has_same_bits;
    conv3d_multiply_instance_norm_clamp_multiply_max_matches_on_warpgroups:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches_on_warpgroups::<f16>
            => checks::conv3d_multiply_instance_norm_clamp_multiply_max::matches_on_warpgroups::<bf16>;
    peak_kernels_store_what_their_mma_batches_come_to: peak::copy, peak::fma, peak::mma, peak::wgmma;
    copy_rows_keeps_the_bits_of_parts_of_rows:
        checks::copy_rows::copies::<f32>
            => checks::copy_rows::copies::<f16>, checks::copy_rows::copies::<bf16>;
    copy_strided_keeps_the_bits_of_any_array:
        checks::copy_strided::copies::<f32, f32>
            => checks::copy_strided::copies::<f16, f16>, checks::copy_strided::copies::<bf16, bf16>;
    copy_strided_keeps_all_bits_of_numbers_of_16:
        checks::copy_strided::bits::<f16> => checks::copy_strided::bits::<bf16>;
    copy_strided_rounds_to_the_target:
        checks::copy_strided::copies::<f32, f16>
            => checks::copy_strided::copies::<f32, bf16>, checks::copy_strided::copies::<f16, f32>,
            checks::copy_strided::copies::<f16, bf16>, checks::copy_strided::copies::<bf16, f32>,
            checks::copy_strided::copies::<bf16, f16>;
    copy_strided_takes_random_axes_in_random_orders:
        checks::copy_strided::random::<f32, f32> => checks::copy_strided::random::<f16, f32>;
    far_elements_are_found_by_what_is_done_to_each: checks::far::elementwise;
    far_elements_are_found_by_what_moves_them: checks::far::moved;
    far_elements_are_found_by_interleaving: checks::conv_transpose::far;
    far_elements_are_found_by_pools:
        checks::far_pools::images, checks::far_pools::volumes, checks::far_pools::overlapping, checks::far_pools::nhwc, checks::far_pools::rows,
        checks::far_pools::channels, checks::reduction_nhwc::far;
    far_elements_are_found_by_upsampling: checks::upsample::far;
    far_elements_are_found_by_series: checks::softmax::far, checks::layer_norm_rows::far;
    far_elements_are_found_by_norms:
        checks::far_norms::statistics::<f32>, checks::far_norms::resident::<f32>
            => checks::far_norms::statistics::<f16>, checks::far_norms::channels_last::<f16>;
    far_elements_are_found_by_convolutions:
        checks::far_products::on_cores, checks::far_products::depthwise, checks::far_products_nhwc::depthwise,
        checks::far_products_nhwc::few_filters, checks::far_products_nhwc::gemm;
    far_elements_are_found_by_products_on_tensor_cores:
        checks::far_products::warp_specialized::<f16>, checks::far_products::by_warpgroups::<f16>,
        checks::far_products::narrow::<F16x2>;
    far_samples_are_found_by_kernels_of_one_launch:
        checks::conv2d_group_norm_scale_max_pool_clamp::far::<f16>,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::far::<F16x2>,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::far_on_warpgroups::<f16>;
    depthwise_keeps_nan_of_windows:
        checks::depthwise_nan::windows::<f32>
            => checks::depthwise_nan::windows::<f16>, checks::depthwise_nan::windows::<bf16>;
    conv_mean_matches: checks::conv_mean::matches;
    gemm_matches: checks::gemm::matches::<f16> => checks::gemm::matches::<bf16>;
    gemm_matches_in_tf32: checks::gemm::matches::<f32>;
    gemm_matches_of_windows_in_tf32: checks::gemm::matches_of_windows::<f32>;
    gemm_matches_of_windows:
        checks::gemm::matches_of_windows::<f16> => checks::gemm::matches_of_windows::<bf16>;
    depthwise_matches: checks::depthwise::matches::<f32>;
    depthwise_applies_its_epilogue: checks::depthwise::without_norm::<f32> => checks::depthwise::without_norm::<f16>, checks::depthwise::without_norm::<bf16>;
    depthwise_rolls_its_sums_over_channels_last_images:
        checks::depthwise::rolling::<f16> => checks::depthwise::rolling::<f32>, checks::depthwise::rolling::<bf16>;
    depthwise_matches_in_half_precision: checks::depthwise::matches::<f16> => checks::depthwise::matches::<bf16>;
    instance_norm_clamp_multiply_channel_reduction_matches: checks::channel_reduction::normed::<f32>;
    instance_norm_clamp_multiply_channel_reduction_matches_in_half_precision:
        checks::channel_reduction::normed::<f16> => checks::channel_reduction::normed::<bf16>;
}

tests! {
    in 1:
    pointwise_functions_of_16_bits_are_accurate_for_all_numbers:
        checks::pointwise::all_magnitudes::<f16> => checks::pointwise::all_magnitudes::<bf16>;
    implicit_gemm_finds_the_scales_of_all_magnitudes:
        checks::implicit_gemm_corners::peaks::<F16x2> => checks::implicit_gemm_corners::peaks::<ScaledF16>;
    conv2d_group_norm_scale_max_pool_clamp_gives_the_same_bits_on_more_blocks:
        checks::conv2d_group_norm_scale_max_pool_clamp::spread::<F16x2>
            => checks::conv2d_group_norm_scale_max_pool_clamp::spread::<ScaledF16>;
    conv2d_group_norm_scale_max_pool_clamp_gives_the_same_bits_on_more_blocks_in_half_precision:
        checks::conv2d_group_norm_scale_max_pool_clamp::spread::<f16>
            => checks::conv2d_group_norm_scale_max_pool_clamp::spread::<bf16>;
    implicit_gemm_matches: checks::implicit_gemm::matches::<F16x2> => checks::implicit_gemm::matches::<ScaledF16>;
    implicit_gemm_adds_sums_that_a_cluster_split:
        checks::implicit_gemm::split::<F16x2>
            => checks::implicit_gemm::split::<ScaledF16>, checks::implicit_gemm::split::<f16>,
            checks::implicit_gemm::split::<bf16>;
    conv3d_multiply_instance_norm_clamp_multiply_max_gives_the_same_bits_in_clusters:
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<F16x2>,
        checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_clusters::<f16>
            => checks::conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<ScaledF16>,
            checks::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_clusters::<bf16>;
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

//! Every planted bug is noticed, by a detector of the emulator or by a wrong result.

include!("../bugs.rs");
include!(concat!(env!("OUT_DIR"), "/copies.rs"));

/// A check on one schedule, with what it found as text.
type Check = fn(seed: Option<u64>) -> Result<(), String>;

/// What notices the bug called `name`.
fn check_for(name: &str) -> Check {
    macro_rules! check {
        ($copy:ident, $operator:ident, $check:ident) => {
            |seed| {
                let run = $copy::checks::Run::new(seed);
                $copy::checks::$operator::$check(&run).map_err(|failure| failure.to_string())
            }
        };
    }
    match name {
        "block_statistics_without_barrier" => check!(first, norm, group_norm_f32),
        "direct_convolution_stages_over_rows_in_use" => check!(first, conv, direct2_f32),
        "gemm_without_barrier_between_steps" => check!(first, conv, gemm2_f32),
        "pool_reads_a_row_too_many" => check!(first, max_pool2d, max_pool2d_f32),
        "elementwise_writes_past_the_end" => check!(fifth, elementwise, clamp_f32),
        "vectors_across_planes_take_an_element_too_few_from_the_next" => {
            check!(sixth, norm, clamped_f32)
        }
        "channel_max_drops_nan" => check!(first, channel_max, channel_max_f32),
        "statistics_of_splits_with_lanes_missing" => check!(second, norm, group_norm_f32),
        "convolution_swaps_rows_and_columns" => check!(second, conv, direct2_f32),
        "stacks_take_the_first_row_of_the_next_plane" => {
            check!(third, max_pool2d, max_pool2d_f32)
        }
        "infinite_scales_are_left_to_the_extremes_of_a_window" => {
            check!(fourth, max_pool2d, max_pool2d_f32)
        }
        "padding_wins_in_a_pool" => check!(second, max_pool2d, max_pool2d_f32),
        "channel_slices_meet_without_barrier" => check!(second, channel_max, channel_max_f32),
        "channels_of_short_planes_do_not_wrap" => check!(third, elementwise, scale_f32),
        "statistics_drop_an_element" => check!(fifth, channel_max, normed_f32),
        "gemm_swaps_rows_and_columns_of_threads" => check!(third, conv, gemm2_f32),
        "direct_convolution_adds_the_bias_of_another_group" => check!(third, conv, direct2_f32),
        "variance_with_the_other_divisor" => check!(fourth, norm, group_norm_f32),
        "volume_steps_by_the_wrong_dilation" => check!(fourth, conv, direct3_f32),
        "cluster_starts_before_its_barriers_are_known" => {
            check!(first, conv2d_group_norm_scale_max_pool_clamp, f16)
        }
        "rows_are_rescaled_while_products_read_them" => {
            check!(first, conv2d_group_norm_scale_max_pool_clamp, rounded)
        }
        "filled_slots_are_not_shown_to_the_tensor_cores" => {
            check!(first, conv2d_group_norm_scale_max_pool_clamp, split)
        }
        "statistics_of_the_other_block_are_not_awaited" => {
            check!(second, conv2d_group_norm_scale_max_pool_clamp, f16)
        }
        "channels_are_written_before_their_factors_are_known" => {
            check!(second, conv2d_group_norm_scale_max_pool_clamp, rounded)
        }
        "statistics_of_the_other_block_are_awaited_as_the_own" => {
            check!(third, conv2d_group_norm_scale_max_pool_clamp, rounded)
        }
        "slots_are_freed_before_their_last_product" => {
            check!(third, conv2d_group_norm_scale_max_pool_clamp, f16)
        }
        "other_block_announces_too_few_bytes" => {
            check!(fourth, conv2d_group_norm_scale_max_pool_clamp, bf16)
        }
        "maxima_of_the_next_sample_come_too_early" => {
            check!(fourth, conv2d_group_norm_scale_max_pool_clamp, split)
        }
        "one_barrier_for_the_statistics_of_all_samples" => {
            check!(fifth, conv2d_group_norm_scale_max_pool_clamp, rounded)
        }
        "slots_are_filled_while_products_read_them" => {
            check!(fifth, conv2d_group_norm_scale_max_pool_clamp, f16)
        }
        "stencil_takes_padding_for_input" => check!(second, stencil, full),
        "stencil_takes_rows_beyond_the_output_into_the_moments" => {
            check!(third, stencil, full)
        }
        "stencil_pools_across_one_column_too_few" => check!(fourth, stencil, full),
        "blocks_that_share_a_half_do_not_free_slots_for_each_other" => {
            check!(
                sixth,
                conv2d_group_norm_scale_max_pool_clamp,
                rounded_spread
            )
        }
        "statistics_of_blocks_that_share_a_half_are_not_awaited" => {
            check!(sixth, conv2d_group_norm_scale_max_pool_clamp, split_spread)
        }
        "blocks_that_share_a_half_all_write_the_first_rows" => {
            check!(sixth, conv2d_group_norm_scale_max_pool_clamp, f16_spread)
        }
        "implicit_gemm_multiplies_a_patch_that_has_not_arrived" => {
            check!(fourth, implicit_gemm, split_f32)
        }
        "implicit_gemm_overwrites_the_patch_in_use" => check!(fifth, implicit_gemm, split_f32),
        "implicit_gemm_reads_results_before_all_are_there" => {
            check!(second, implicit_gemm, split_f32)
        }
        "implicit_gemm_takes_unused_pixels_into_the_moments" => {
            check!(third, implicit_gemm, split_f32)
        }
        "implicit_gemm_keeps_a_sample_packed_at_the_wrong_scale" => {
            check!(first, implicit_gemm, split_f32)
        }
        "power_sums_of_other_blocks_are_read_before_they_are_there" => {
            check!(
                first,
                conv3d_multiply_instance_norm_clamp_multiply_max,
                split_clusters
            )
        }
        "block_ends_while_others_read_its_power_sums" => {
            check!(
                second,
                conv3d_multiply_instance_norm_clamp_multiply_max,
                rounded_clusters
            )
        }
        "power_sums_come_from_other_blocks_without_a_barrier" => {
            check!(
                third,
                conv3d_multiply_instance_norm_clamp_multiply_max,
                warpgroup_half_clusters
            )
        }
        "block_decides_by_the_largest_magnitude_of_its_own_rows" => {
            check!(
                fourth,
                conv3d_multiply_instance_norm_clamp_multiply_max,
                split_clusters
            )
        }
        _ => panic!("no check for {name}"),
    }
}

#[test]
fn every_planted_bug_is_noticed() {
    let mut unnoticed = Vec::new();
    for bug in BUGS {
        let check = check_for(bug.name);
        match check(None).and_then(|()| check(Some(1))) {
            Ok(()) => unnoticed.push(bug.name),
            Err(how) => println!("{}: {how}\n", bug.name),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}

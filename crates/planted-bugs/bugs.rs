// The mistakes; those of warp-specialized tiles are in `warp_specialized_bugs.rs`,
// `channels_last_bugs.rs`, `split_bugs.rs` and `ping_pong_bugs.rs`, those about what hardware does in
// `hardware_bugs.rs`. Included by the build script, which plants them, and by the test, which expects them to
// be noticed; each defines the macro `bugs` for it:
//
// - `name` says what is wrong, and is the name of a test.
// - `check` is what notices it, a check of `kernels-gpu`.
// - `file` is the file that it is in.
// - `right` is what stands there, once in the file; if «a part» of it is marked, the rest only says where the
//   part is.
// - `wrong` is what stands there instead of that part.

bugs! {
    BUGS:
    {
        name: block_statistics_without_barrier,
        check: norm::group_norm::<f32>,
        file: "parts/moments.rs",
        right: "        «thread::sync_threads();»\n        let mut all = Self::EMPTY;",
        wrong: "",
    }
    {
        name: direct_convolution_k_blocks_over_rows_in_use,
        check: conv::direct::<f32, 2>,
        file: "conv/direct.rs",
        right: "        «thread::sync_threads();»\n        stage_filter(",
        wrong: "",
    }
    {
        name: pool_reads_a_row_too_many,
        check: max_pool2d::max_pool2d::<f32>,
        file: "parts/pool.rs",
        right: "h < g.h && w < g.w",
        wrong: "h <= g.h && w < g.w",
    }
    {
        name: elementwise_writes_past_the_end,
        check: elementwise::scale::<f32>,
        file: "parts/elementwise.rs",
        right: "left.min(local + VECTOR_ELEMENTS)",
        wrong: "local + VECTOR_ELEMENTS",
    }
    {
        name: averages_count_what_hangs_over,
        check: pool::windows::<f32>,
        file: "pool.rs",
        right: "count *= «end.min(last)» - start.max(first);",
        wrong: "end",
    }
    {
        name: sums_of_parts_are_read_in_part,
        check: pool::planes::<f32>,
        file: "pool.rs",
        right: "part += «WARP_THREADS as u64»;",
        wrong: "2 * WARP_THREADS as u64",
    }
    {
        name: pointwise_writes_past_the_end,
        check: pointwise::clamp::<f32>,
        file: "pointwise.rs",
        right: "if «at < x.len()» {\n                y.store(",
        wrong: "true",
    }
    {
        name: pointwise_takes_the_attributes_of_the_first_step,
        check: pointwise::lists::<f32>,
        file: "parts/pointwise.rs",
        right: "values = step::<T, N>(nth(list, «at»), values);",
        wrong: "0",
    }
    {
        name: tail_of_a_normal_distribution_without_what_rounding_took,
        check: pointwise::all_magnitudes,
        file: "parts/pointwise.rs",
        right: "Exponential::of_product::<T>(magnitude, -0.5 * magnitude, NOTHING)",
        wrong: "Exponential::of::<T>(-0.5 * magnitude * magnitude)",
    }
    {
        name: vectors_across_planes_take_an_element_too_few_from_the_next,
        check: norm::functions::<f32>,
        file: "fused/group_norm_scale_pointwise.rs",
        right: "position + (i - first) as u32 >= segments.length()",
        wrong: "position + (i - first) as u32 > segments.length()",
    }
    {
        name: channel_max_drops_nan,
        check: channel_max::channel_max::<f32>,
        file: "parts/channel_reduce.rs",
        right: "            let mapped = map.apply(params, x[i]);\n            maxima[i] = «math::max_nan(maxima[i], mapped)»;",
        wrong: "math::max(maxima[i], mapped)",
    }
    {
        name: statistics_of_splits_with_lanes_missing,
        check: norm::group_norm::<f32>,
        file: "parts/moments.rs",
        right: "        let all = «Moments::of_two_warps([all, behind])»;",
        wrong: "if lane < g.splits { Moments::of_two_warps([all, behind]) } else { all }",
    }
    {
        name: convolution_swaps_rows_and_columns,
        check: conv::direct::<f32, 2>,
        file: "conv/window.rs",
        right: "row.wrapping_mul(g.w)",
        wrong: "row.wrapping_mul(g.h)",
    }
    {
        name: stacks_take_the_first_row_of_the_next_plane,
        check: max_pool2d::max_pool2d::<f32>,
        file: "parts/pool.rs",
        right: "of_row((next + 2).min(«last[0]»))",
        wrong: "last[0] + 1",
    }
    {
        name: infinite_scales_are_left_to_the_extremes_of_a_window,
        check: max_pool2d::max_pool2d::<f32>,
        file: "parts/map.rs",
        right: "math::abs(x) != f32::INFINITY",
        wrong: "math::abs(x) >= 0.0",
    }
    {
        name: padding_wins_in_a_pool,
        check: max_pool2d::max_pool2d::<f32>,
        file: "parts/pool.rs",
        right: "largest: «T::from_f32(f32::NEG_INFINITY)»",
        wrong: "T::from_f32(0.0)",
    }
    {
        name: channel_slices_meet_without_barrier,
        check: channel_max::channel_max::<f32>,
        file: "parts/channel_reduce.rs",
        right: "        «thread::sync_threads();»\n        if slice > 0 {",
        wrong: "",
    }
    {
        name: channels_of_short_planes_do_not_wrap,
        check: elementwise::scale::<f32>,
        file: "parts/index.rs",
        right: "if «channel < self.channels» {",
        wrong: "channel <= self.channels",
    }
    {
        name: statistics_drop_an_element,
        check: channel_max::normed::<f32>,
        file: "parts/moments.rs",
        right: "thread < end - vectors_end",
        wrong: "thread + 1 < end - vectors_end",
    }
    {
        name: direct_convolution_adds_the_bias_of_another_group,
        check: conv::direct::<f32, 2>,
        file: "conv/direct.rs",
        right: "bias.load_readonly(«filter»).to_f32()",
        wrong: "k",
    }
    {
        name: variance_with_the_other_divisor,
        check: norm::group_norm::<f32>,
        file: "parts/moments.rs",
        right: "self.m2 / self.count",
        wrong: "self.m2 / (self.count - 1.0)",
    }
    {
        name: volume_steps_by_the_wrong_dilation,
        check: conv::direct::<f32, 3>,
        file: "conv/window.rs",
        right: "t * g.dilation_d",
        wrong: "t * g.dilation_h",
    }
    {
        name: cluster_starts_before_its_barriers_are_known,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/mod.rs",
        right: "    «cluster::sync();»\n",
        wrong: "thread::sync_threads();",
    }
    {
        name: rows_are_rescaled_while_products_read_them,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                    if «tile >= 2» {\n",
        wrong: "false",
    }
    {
        name: filled_stages_are_not_shown_to_the_tensor_cores,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                «async_proxy::fence_shared();»\n",
        wrong: "",
    }
    {
        name: statistics_of_the_other_block_are_not_awaited,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    «cluster::wait(exchanged, phase);»\n",
        wrong: "",
    }
    {
        name: channels_are_written_before_their_factors_are_known,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    «barrier::sync(CONSUMER_BARRIER, threads);»\n    write::<F>(",
        wrong: "",
    }
    {
        name: statistics_of_the_other_block_are_awaited_as_the_own,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    «cluster::wait(exchanged, phase);»\n",
        wrong: "exchanged.wait(phase);",
    }
    {
        name: stages_are_freed_before_their_last_product,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/output_tile.rs",
        right: "                if «y + 1 == self.rows» {\n                    release_stage(",
        wrong: "y == 0",
    }
    {
        name: other_block_announces_too_few_bytes,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/consume.rs",
        right: ".arrive_expect(«statistics::bytes::<F>()»);",
        wrong: "504",
    }
    {
        name: maxima_of_the_next_sample_come_too_early,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    // The next sample's maxima overwrite these.\n    «barrier::sync(CONSUMER_BARRIER, threads);»\n",
        wrong: "",
    }
    {
        name: one_barrier_for_the_statistics_of_all_samples,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    let exchanged = Barrier::at(memory.exchanged, «place»);\n    let mut mine",
        wrong: "0",
    }
    {
        name: stages_are_filled_while_products_read_them,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                if «count >= stages» {\n",
        wrong: "false",
    }
    {
        name: blocks_that_share_a_half_do_not_free_stages_for_each_other,
        check: conv2d_group_norm_scale_max_pool_clamp::spread::<ScaledF16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/consume.rs",
        right: "                «release_stage(memory, count % stages, place.lane);»\n",
        wrong: "if F::CONFIG.blocks_per_half == 1 { release_stage(memory, count % stages, place.lane); }",
    }
    {
        name: statistics_of_blocks_that_share_a_half_are_not_awaited,
        check: conv2d_group_norm_scale_max_pool_clamp::spread::<F16x2>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    «cluster::wait(exchanged, phase);»\n",
        wrong: "if F::CONFIG.blocks_per_half == 1 { cluster::wait(exchanged, phase); }",
    }
    {
        name: blocks_that_share_a_half_all_write_the_first_rows,
        check: conv2d_group_norm_scale_max_pool_clamp::spread::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "        «cluster::block_rank() % blocks»\n",
        wrong: "0",
    }
    {
        name: implicit_gemm_multiplies_a_halo_that_has_not_arrived,
        check: implicit_gemm::matches::<F16x2>,
        file: "fused/implicit_gemm/product.rs",
        right: "            «cp_async::wait_all();»\n            S::Multiplier::<F>::show_halo();",
        wrong: "",
    }
    {
        name: implicit_gemm_overwrites_the_halo_in_use,
        check: implicit_gemm::matches::<F16x2>,
        file: "fused/implicit_gemm/product.rs",
        right: "halo.start::<F>(&place, k_block + 1, «1 - buffer»);",
        wrong: "buffer",
    }
    {
        name: implicit_gemm_reads_results_before_all_are_there,
        check: implicit_gemm::matches::<F16x2>,
        file: "fused/implicit_gemm/results/mod.rs",
        right: "        self.store_tile(sums);\n        «thread::sync_threads();»",
        wrong: "",
    }
    {
        name: implicit_gemm_takes_unused_pixels_into_the_moments,
        check: implicit_gemm::matches::<F16x2>,
        file: "fused/implicit_gemm/results/mod.rs",
        right: "(limits - pixel) & BEYOND == BEYOND",
        wrong: "(limits - pixel) & BEYOND != 0",
    }
    {
        name: implicit_gemm_keeps_a_sample_reformatted_at_the_wrong_scale,
        check: implicit_gemm::matches::<F16x2>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "    if «usual» || g.is_converted_in_producer() {\n        return;",
        wrong: "largest > OPTIMISTIC_MIN",
    }
    {
        name: implicit_gemm_leaves_what_met_an_infinity_outside_of_its_window,
        check: implicit_gemm_without_norm::matches::<Bf16x3>,
        file: "fused/implicit_gemm/fixup.rs",
        right: "if !«warp::warp_vote_any(warp::ALL_LANES, seen)» {",
        wrong: "warp::warp_vote_any(warp::ALL_LANES, false)",
    }
    {
        name: implicit_gemm_convolves_again_without_the_bias,
        check: implicit_gemm_without_norm::matches::<Bf16x3>,
        file: "fused/implicit_gemm/fixup.rs",
        right: "map([gain, shift], «sum + bias»)",
        wrong: "sum",
    }
    {
        name: implicit_gemm_multiplies_other_parts_than_a_pass_has,
        check: implicit_gemm_without_norm::matches::<Bf16x3>,
        file: "fused/implicit_gemm/tables.rs",
        right: "in_halo += «part_of_pass(INPUT_PARTS, pass)» * g.halo_k_vectors;",
        wrong: "0",
    }
    {
        name: warp_specialized_sums_of_parts_are_promoted_before_they_are_complete,
        check: implicit_gemm_without_norm::matches::<Bf16x3>,
        file: "fused/implicit_gemm/sm90/format.rs",
        right: "promote(&mut promoted, &«mma_batches.wait::<0>()»);\n                let mma_batches",
        wrong: "mma_batches.wait::<1>()",
    }
    {
        name: power_sums_of_other_blocks_are_read_before_they_are_there,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<F16x2>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/pass.rs",
        right: "        «cluster::sync();»\n",
        wrong: "thread::sync_threads();",
    }
    {
        name: block_ends_while_others_read_its_power_sums,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<ScaledF16>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/mod.rs",
        right: "    «if BLOCKS > 1 {\n        cluster::wait_all();\n    }»\n}\n",
        wrong: "",
    }
    {
        name: power_sums_come_from_other_blocks_without_a_barrier,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_clusters::<f16>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/warpgroup/mod.rs",
        right: "        «cluster::sync();»\n",
        wrong: "thread::sync_threads();",
    }
    {
        name: block_decides_by_the_largest_magnitude_of_its_own_rows,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<F16x2>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/pass.rs",
        right: "«self.warp % BLOCKS»);",
        wrong: "cluster::block_rank()",
    }
    {
        name: depthwise_takes_padding_for_input,
        check: depthwise::matches::<f32>,
        file: "fused/depthwise/item.rs",
        right: "let inside = «is_column && h < conv.h»;",
        wrong: "is_column && h <= conv.h",
    }
    {
        name: depthwise_takes_rows_beyond_the_output_into_the_moments,
        check: depthwise::matches::<f32>,
        file: "fused/depthwise/mod.rs",
        right: "(conv.p - place.p).min(g.item_rows)",
        wrong: "g.item_rows",
    }
    {
        name: depthwise_pools_across_one_column_too_few,
        check: depthwise::matches::<f32>,
        file: "fused/depthwise/results.rs",
        right: "while «column < g.pool_w» {",
        wrong: "column + 1 < g.pool_w",
    }
    {
        name: tile_is_written_from_before_all_of_it_is_there,
        check: copy_strided::copies::<f32, f32>,
        file: "copy_strided.rs",
        right: "    «thread::sync_threads();»\n    let (global, shared) = ",
        wrong: "",
    }
    {
        name: tile_takes_an_index_beyond_the_axis,
        check: copy_strided::copies::<f32, f32>,
        file: "copy_strided.rs",
        right: "if «walk.fast < left_i» && walk.slow < left_j {",
        wrong: "walk.fast <= left_i",
    }
    {
        name: copy_takes_rows_that_end_in_a_vector_for_longer,
        check: copy_strided::copies::<f32, f32>,
        file: "copy_strided.rs",
        right: "if «of_row >= VECTOR_ELEMENTS as u64» {",
        wrong: "of_row + 1 >= VECTOR_ELEMENTS as u64",
    }
    {
        name: copy_counts_on_from_indices_that_are_not_there_yet,
        check: copy_strided::random::<f32, f32>,
        file: "copy_strided.rs",
        right: "    «thread::sync_threads();»\n    let (mut source, mut target)",
        wrong: "",
    }
    {
        name: pad_repeats_the_edge_that_it_mirrors,
        check: conv_pad::matches::<f32>,
        file: "conv/pad.rs",
        right: "if position < 0 {\n            «-position»\n",
        wrong: "-position - 1",
    }
    {
        name: batch_norm_adds_the_mean,
        check: batch_norm::matches::<f32>,
        file: "batch_norm.rs",
        right: "«(bias - mean * exact)» as f32",
        wrong: "(bias + mean * exact)",
    }
    {
        name: layer_norm_takes_the_weight_of_a_place_in_its_block,
        check: norm::layer_norm::<f32>,
        file: "layer_norm.rs",
        right: "values.load_readonly(«position as usize»)",
        wrong: "local as usize % row",
    }
}

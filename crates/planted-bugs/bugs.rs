// The planted bugs of most kernels. `lists.rs` names the other lists. The build script, which plants the
// bugs, and the test, which expects their detection, include them all. The entries after the name of a source
// file are:
//
// - the name of the bug, which is also the name of a test,
// - the check of `kernels-gpu` that detects it,
// - the original text, unique in the file; if «a part» of it is marked, the rest only locates the part,
// - after `=>`, the replacement of that part.

bugs! {
    BUGS:
    "parts/moments.rs":
        block_statistics_without_barrier, norm::group_norm::<f32>,
            "        «thread::sync_threads();»\n        let mut all = Self::EMPTY;" => "";
        statistics_of_splits_with_lanes_missing, norm::group_norm::<f32>,
            "        let all = «Moments::of_two_warps([all, behind])»;"
                => "if lane < g.splits { Moments::of_two_warps([all, behind]) } else { all }";
        statistics_drop_an_element, channel_reduction::normed::<f32>,
            "thread < end - vectors_end" => "thread + 1 < end - vectors_end";
        variance_with_the_other_divisor, norm::group_norm::<f32>,
            "self.m2 / self.count" => "self.m2 / (self.count - 1.0)";
    "conv/direct.rs":
        direct_convolution_k_blocks_over_rows_in_use, conv::direct::<f32, 2>,
            "        «thread::sync_threads();»\n        stage_filter(" => "";
        direct_convolution_adds_the_bias_of_another_group, conv::direct::<f32, 2>,
            "bias.load_readonly(«filter»).to_f32()" => "k";
    "parts/pool.rs":
        pool_reads_a_row_too_many, max_pool2d::max_pool2d::<f32>,
            "h < g.h && w < g.w" => "h <= g.h && w < g.w";
        stacks_take_the_first_row_of_the_next_plane, max_pool2d::max_pool2d::<f32>,
            "of_row((next + 2).min(«last[0]»))" => "last[0] + 1";
        padding_wins_in_a_pool, max_pool2d::max_pool2d::<f32>,
            "largest: «T::from_f32(f32::NEG_INFINITY)»" => "T::from_f32(0.0)";
        windows_of_infinities_are_finite_at_one_end, max_pool2d::max_pool2d::<f32>,
            "smallest: T::from_f32(«f32::INFINITY»)," => "f32::MAX";
    "parts/elementwise.rs":
        elementwise_writes_past_the_end, elementwise::scale::<f32>,
            "left.min(local + VECTOR_ELEMENTS)" => "local + VECTOR_ELEMENTS";
    "pool.rs":
        windows_that_hang_over_count_as_whole, pool::windows::<f32>,
            "let last = «(g.output[axis] - 1) * g.stride[axis]» +" => "0";
        padded_windows_count_as_whole, pool::windows::<f32>,
            "are_whole &= «g.padding[axis] == 0» && last < g.input[axis];" => "true";
        rows_of_odd_length_are_loaded_as_vectors, pool::windows::<f32>,
            "«g.input[2].is_multiple_of(columns)» && g.stride[2]" => "true";
        whole_windows_stay_in_a_slice, pool::windows::<f32>,
            "steps: [«to_slice», to_row, w_step]," => "0";
        averages_count_what_hangs_over, pool::windows::<f32>,
            "count *= «end.min(last)» - start.max(first);" => "end";
    "pool/rows.rs":
        segments_begin_a_column_late, pool::windows::<f32>,
            "let column = (first * of.stride[2]).wrapping_sub(«of.padding[2]»);" => "of.padding[2].min(1)";
        segments_take_windows_beside_the_padding_for_whole, pool::windows::<f32>,
            "of.kernel[2] <= columns && «start <= last»;" => "true";
        padded_columns_are_loaded, pool::windows::<f32>,
            "if nth(i) < g.staged && «column < columns» {" => "true";
        windows_are_reduced_before_they_are_staged, pool::windows::<f32>,
            "«thread::sync_threads();»" => "";
        the_last_segment_is_whole, pool::windows::<f32>,
            "        if «q < outputs» {" => "q < outputs.next_multiple_of(SEGMENT)";
        segments_of_a_stride_begin_side_by_side, pool::windows::<f32>,
            "let column = («first * of.stride[2]»)" => "first";
    "pool/overlapping.rs":
        rows_above_the_input_are_pooled, pool::windows::<f32>,
            "if «!is_inside[i]» {" => "false";
        the_last_tap_of_a_row_is_left_out, pool::windows::<f32>,
            "while tap < «to» {" => "to.max(1) - 1";
        windows_begin_a_tap_late_beside_the_input, pool::windows::<f32>,
            "up(«(first as i32).wrapping_neg()»)," => "(first as i32).wrapping_neg() + 1";
        tiles_take_lines_of_the_row_before, pool::windows::<f32>,
            "let line = nth(i) * row_step + r * «tap_step»;" => "tap_step.max(2) - 1";
        threads_share_their_lines, pool::windows::<f32>,
            "(slice * g.lines[1] + row) * BLOCK_THREADS + «thread»" => "0";
        tiles_go_on_behind_the_last_slice, pool::windows::<f32>,
            "while slice < «g.tile[0].min(of.output[0] - z)» {" => "g.tile[0]";
    "pool/nhwc.rs":
        averages_of_a_run_are_all_by_the_first_divisor, pool::windows::<f32>,
            "divisor(g, [z, p, «q + o»])" => "q";
        maxima_of_a_row_are_taken_without_those_before, max_pool2d::max_pool2d::<f32>,
            "larger::<T>(«maxima[o]», columns[o * STRIDE + s])" => "columns[o * STRIDE + s]";
    "parts/nhwc.rs":
        runs_read_a_row_behind_the_input, depthwise::without_norm::<f32>,
            "let is_row = «d < slices && h < rows»;" => "d < slices && h <= rows";
        runs_go_on_behind_the_row, pool::windows::<f32>,
            "len: «blocks.run.min(q - first)»," => "blocks.run";
        blocks_of_channels_all_begin_with_the_first, pool::windows::<f32>,
            "first_channel: «of_channels» * blocks.block_vectors" => "0";
    "pointwise.rs":
        pointwise_writes_past_the_end, pointwise::clamp::<f32>,
            "if «at < x.len()» {\n                y.store(" => "true";
    "parts/pointwise.rs":
        pointwise_takes_the_attributes_of_the_first_step, pointwise::lists::<f32>,
            "values = step::<A, N, _>(nth(list, «at»), values, &mut KeepsNothing);" => "0";
        a_value_is_taken_in_the_place_of_the_kept_one, pointwise::lists::<f32>,
            "both(values, «self.0», f)" => "values";
        a_residual_is_what_is_subtracted_from, pointwise::lists::<f32>,
            "ArithmeticOp::Sub => others.with_values(values, |x, other| «x - other»)," => "other - x";
        tail_of_a_normal_distribution_without_what_rounding_took, pointwise::all_magnitudes::<f32>,
            "Exponential::of_product(magnitude, -0.5 * magnitude, NOTHING)"
                => "Exponential::of(-0.5 * magnitude * magnitude)";
        arithmetic_with_a_constant_has_no_summand, pointwise::lists::<f32>,
            "Function::Affine => each(values, |x| fma(x, a, «b»))," => "0.0";
    "parts/coarse.rs":
        coarse_tangents_have_the_series_near_zero_for_larger_values, pointwise::all_magnitudes::<f16>,
            "if math::abs(x) < «0.0625» { near }" => "0.25";
        coarse_tails_lack_a_digit_of_a_coefficient, pointwise::all_magnitudes::<f16>,
            "fma(tail, t, «4.711_2»)" => "4.71";
        coarse_exponentials_less_one_cancel_near_zero, pointwise::all_magnitudes::<f16>,
            "if x > «-0.125» {" => "-0.0001";
        coarse_logarithms_cancel_near_one, pointwise::all_magnitudes::<bf16>,
            "if x < «0.0625» {" => "0.0";
        coarse_mish_of_large_values_is_infinite, pointwise::all_magnitudes::<f16>,
            "exponential(«math::min(x, 20.0)»)" => "x";
    "fused/group_norm_scale_pointwise.rs":
        vectors_across_planes_take_an_element_too_few_from_the_next, norm::functions::<f32>,
            "position + (i - first) as u32 >= segments.length()"
                => "position + (i - first) as u32 > segments.length()";
    "reduction.rs":
        parts_of_rows_have_the_length_of_the_first, row_reduction::matches::<f32>,
            "let len = «(g.elements - before).min(PART_ELEMENTS)» as usize;" => "g.elements.min(PART_ELEMENTS)";
        rows_lose_the_elements_behind_the_last_loads, row_reduction::matches::<f32>,
            "        if «at < len» {\n            states[i]" => "at + 1 < len";
        lanes_of_rows_are_combined_in_part, row_reduction::matches::<f32>,
            "let mut distance = «WARP_THREADS / 2»;" => "WARP_THREADS / 4";
    "parts/reduction_operations.rs":
        max_over_channels_drops_nan, channel_reduction::channel_reduction::<f32>,
            "Max from f32::NEG_INFINITY, |a, b| «math::max_nan(a, b)»;" => "math::max(a, b)";
        mean_over_channels_is_their_sum, channel_reduction::channel_reduction::<f32>,
            "combined / divisor" => "combined";
        sums_of_exponentials_keep_their_scale, row_reduction::matches::<f32>,
            "math::fma(sum_a, ratio, sum_b)" => "sum_a + sum_b";
        four_exponentials_are_added_to_a_sum_of_another_scale, channel_reduction::channel_reduction::<f32>,
            "let mut sum = «sum * Self::term(before, largest)»;" => "sum";
        logarithms_lose_the_largest_value, row_reduction::matches::<f32>,
            "largest + ln_from_one(sum)" => "ln_from_one(sum)";
    "parts/channel_reduce.rs":
        channels_behind_the_last_four_are_left_out, channel_reduction::channel_reduction::<f32>,
            "            let mapped = map.apply(params, x[i]);\n            results[i] = «O::and_value(results[i], mapped)»;"
                => "results[i]";
        channel_slices_meet_without_barrier, channel_reduction::channel_reduction::<f32>,
            "        «thread::sync_threads();»\n        if slice > 0 {" => "";
    "conv/window.rs":
        convolution_swaps_rows_and_columns, conv::direct::<f32, 2>,
            "row.wrapping_mul(g.w)" => "row.wrapping_mul(g.h)";
        volume_steps_by_the_wrong_dilation, conv::direct::<f32, 3>,
            "t * g.dilation_d" => "t * g.dilation_h";
    "parts/map.rs":
        infinite_scales_are_left_to_the_extremes_of_a_window, max_pool2d::max_pool2d::<f32>,
            "math::abs(x) != f32::INFINITY" => "math::abs(x) >= 0.0";
    "parts/index.rs":
        channels_of_short_planes_do_not_wrap, elementwise::scale::<f32>,
            "if «channel < self.channels» {" => "channel <= self.channels";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/mod.rs":
        cluster_starts_before_its_barriers_are_known, conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
            "    «cluster::sync();»\n" => "thread::sync_threads();";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs":
        rows_are_rescaled_while_products_read_them, conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
            "                    if «tile >= 2» {\n" => "false";
        filled_stages_are_not_shown_to_the_tensor_cores, conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
            "                «async_proxy::fence_shared();»\n" => "";
        stages_are_filled_while_products_read_them, conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
            "                if «count >= stages» {\n" => "false";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs":
        statistics_of_the_other_block_are_not_awaited, conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
            "    «cluster::wait(exchanged, phase);»\n" => "";
        channels_are_written_before_their_factors_are_known, conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
            "    «barrier::sync(CONSUMER_BARRIER, threads);»\n    write::<F>(" => "";
        statistics_of_the_other_block_are_awaited_as_the_own, conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
            "    «cluster::wait(exchanged, phase);»\n" => "exchanged.wait(phase);";
        maxima_of_the_next_sample_come_too_early, conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
            "    // The next sample's maxima overwrite these.\n    «barrier::sync(CONSUMER_BARRIER, threads);»\n"
                => "";
        one_barrier_for_the_statistics_of_all_samples, conv2d_group_norm_scale_max_pool_clamp::matches::<ScaledF16>,
            "    let exchanged = Barrier::at(memory.exchanged, «place»);\n    let mut mine" => "0";
        statistics_of_blocks_that_share_a_half_are_not_awaited, conv2d_group_norm_scale_max_pool_clamp::spread::<F16x2>,
            "    «cluster::wait(exchanged, phase);»\n"
                => "if F::CONFIG.blocks_per_half == 1 { cluster::wait(exchanged, phase); }";
        blocks_that_share_a_half_all_write_the_first_rows, conv2d_group_norm_scale_max_pool_clamp::spread::<f16>,
            "        «cluster::block_rank() % blocks»\n" => "0";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/output_tile.rs":
        stages_are_freed_before_their_last_product, conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
            "                if «y + 1 == self.rows» {\n                    release_stage(" => "y == 0";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/consume.rs":
        other_block_announces_too_few_bytes, conv2d_group_norm_scale_max_pool_clamp::matches::<f16>,
            ".arrive_expect(«statistics::bytes::<F>()»);" => "504";
        blocks_that_share_a_half_do_not_free_stages_for_each_other, conv2d_group_norm_scale_max_pool_clamp::spread::<ScaledF16>,
            "                «release_stage(memory, count % stages, place.lane);»\n"
                => "if F::CONFIG.blocks_per_half == 1 { release_stage(memory, count % stages, place.lane); }";
    "fused/implicit_gemm/product.rs":
        implicit_gemm_multiplies_a_halo_that_has_not_arrived, implicit_gemm::matches::<F16x2>,
            "            «cp_async::wait_all();»\n            S::Multiplier::<F>::show_halo();" => "";
        implicit_gemm_overwrites_the_halo_in_use, implicit_gemm::matches::<F16x2>,
            "halo.start::<F>(&place, k_block + 1, «1 - buffer»);" => "buffer";
    "fused/implicit_gemm/results/mod.rs":
        implicit_gemm_reads_results_before_all_are_there, implicit_gemm::matches::<F16x2>,
            "        self.store_tile(sums);\n        «thread::sync_threads();»" => "";
        implicit_gemm_takes_unused_pixels_into_the_moments, implicit_gemm::matches::<F16x2>,
            "(limits - pixel) & BEYOND == BEYOND" => "(limits - pixel) & BEYOND != 0";
    "fused/implicit_gemm/reformat.rs":
        implicit_gemm_keeps_a_sample_reformatted_at_the_wrong_scale, implicit_gemm::matches::<F16x2>,
            "    if «usual» || g.is_converted_in_producer() {\n        return;" => "largest > OPTIMISTIC_MIN";
        the_usual_scale_takes_the_first_sample_that_is_too_large, implicit_gemm_corners::peaks::<F16x2>,
            "let usual = «(OPTIMISTIC_MIN..=OPTIMISTIC_MAX)».contains" => "(OPTIMISTIC_MIN..=2.0 * OPTIMISTIC_MAX)";
        the_usual_scale_takes_samples_that_are_too_small, implicit_gemm_corners::peaks::<F16x2>,
            "let usual = «(OPTIMISTIC_MIN..=OPTIMISTIC_MAX)».contains" => "(OPTIMISTIC_MIN / 256.0..=OPTIMISTIC_MAX)";
        infinities_are_the_largest_magnitudes, implicit_gemm_corners::peaks::<F16x2>,
            "    if «bits < f32::INFINITY.to_bits()» {" => "bits <= f32::INFINITY.to_bits()";
    "fused/implicit_gemm/fixup.rs":
        implicit_gemm_leaves_what_met_an_infinity_outside_of_its_window, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if !«warp::warp_vote_any(warp::ALL_LANES, seen)» {" => "warp::warp_vote_any(warp::ALL_LANES, false)";
        implicit_gemm_convolves_again_without_the_bias, implicit_gemm_without_norm::matches::<Bf16x3>,
            "map([gain, shift], «sum + bias»)" => "sum";
        shuffled_results_are_convolved_again_without_their_residual, conv_transpose_shuffled::matches::<Bf16x3>,
            "*residual = [«all.load(to).to_f32()»];" => "0.0";
        shuffled_results_are_convolved_again_with_taps_of_other_phases, conv_transpose_shuffled::matches::<Bf16x3>,
            "h < conv.h && w < conv.w && «shuffle.has_tap(channel, [t, r, s])»" => "true";
    "fused/implicit_gemm/tables.rs":
        implicit_gemm_multiplies_other_parts_than_a_pass_has, implicit_gemm_without_norm::matches::<Bf16x3>,
            "in_halo += «part_of_pass(INPUT_PARTS, pass)» * g.halo_k_vectors;" => "0";
    "fused/implicit_gemm/sm90/format.rs":
        warp_specialized_sums_of_parts_are_promoted_before_they_are_complete, implicit_gemm_without_norm::matches::<Bf16x3>,
            "promote(&mut promoted, &«mma_batches.wait::<0>()»);\n                let mma_batches"
                => "mma_batches.wait::<1>()";
    "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/pass.rs":
        power_sums_of_other_blocks_are_read_before_they_are_there, conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<F16x2>,
            "        «cluster::sync();»\n" => "thread::sync_threads();";
        block_decides_by_the_largest_magnitude_of_its_own_rows, conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<F16x2>,
            "«self.warp % BLOCKS»);" => "cluster::block_rank()";
    "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/mod.rs":
        block_ends_while_others_read_its_power_sums, conv3d_multiply_instance_norm_clamp_multiply_max::clusters::<ScaledF16>,
            "    «if BLOCKS > 1 {\n        cluster::wait_all();\n    }»\n}\n" => "";
    "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/warpgroup/mod.rs":
        power_sums_come_from_other_blocks_without_a_barrier, conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup_clusters::<f16>,
            "        «cluster::sync();»\n" => "thread::sync_threads();";
    "conv_transpose.rs":
        phases_read_taps_that_the_filter_lacks, conv_transpose_shuffled::matches::<Bf16x3>,
            "r < g.kernel[1] && «s < g.kernel[2]» {" => "true";
        interleaving_maps_by_the_number_of_the_plane, conv_transpose_epilogue::matches::<f32>,
            "let of_channel = epilogue.of_channel(«channel as u32»);" => "(plane % 2) as u32";
        outputs_without_taps_have_no_bias, conv_transpose_epilogue::matches::<f32>,
            "values = «[bias; 4]»;" => "[T::from_f32(0.0); 4]";
        interleaving_takes_rows_beyond_the_last_of_a_phase, conv_transpose::matches::<f32>,
            "if «at_row < rows_of_class» &&" => "at_row <= rows_of_class";
        interleaving_takes_columns_beyond_the_last_of_a_phase, conv_transpose::matches::<f32>,
            "&& «at < columns_of_class» {" => "at <= columns_of_class";
        interleaving_does_not_follow_a_phase_along_rows, conv_transpose::matches::<f32>,
            "at_row = at_row.wrapping_add(«tile.rows.position_step»);" => "tile.rows.step";
    "conv_transpose/epilogue.rs":
        interleaving_adds_the_residual_of_the_first_element, conv_transpose_epilogue::matches::<f32>,
            "self.residual().load(«at»)" => "0";
        a_list_has_the_gain_of_the_first_channel, conv_transpose_epilogue::matches::<f32>,
            "let channel = «channel_of(i)» as usize;" => "channel_of(i) * 0";
    "fused/depthwise/item.rs":
        depthwise_takes_padding_for_input, depthwise::matches::<f32>,
            "let inside = «is_column && h < conv.h»;" => "is_column && h <= conv.h";
    "fused/depthwise/mod.rs":
        depthwise_takes_rows_beyond_the_output_into_the_moments, depthwise::matches::<f32>,
            "(conv.p - place.p).min(g.item_rows)" => "g.item_rows";
    "fused/depthwise/nhwc.rs":
        runs_read_filters_before_they_are_there, depthwise::without_norm::<f32>,
            "    «thread::sync_threads();»\n\n    let Some(place)" => "";
        window_slides_over_an_input_again, depthwise::without_norm::<f32>,
            "window[first] = row.load_or(«w», 0.0);" => "w.wrapping_sub(1)";
        depthwise_adds_the_residuals_of_the_first_outputs_of_a_run, depthwise::without_norm::<f32>,
            "residual.load_vec(at(«first + i as u32»))" => "i as u32";
    "fused/depthwise/stage.rs":
        channels_last_norms_are_those_of_the_first_channel, depthwise::rolling::<f32>,
            "self.norm.folded::<T>(«channel»)" => "first_channel as usize";
        channels_last_taps_begin_with_those_of_the_first_channel, depthwise::rolling::<f32>,
            "let at = «first_channel as usize * taps as usize + at as usize»;" => "at as usize";
    "fused/depthwise/rolling.rs":
        sums_roll_with_filters_that_are_not_there_yet, depthwise::rolling::<f32>,
            "    «thread::sync_threads();»\n    if place.rows == 0 {" => "";
        sums_roll_on_where_a_row_begins, depthwise::rolling::<f32>,
            "(true, 0) => «0.0»," => "sums[age][i][c]";
        sums_roll_over_rows_behind_the_image, depthwise::rolling::<f32>,
            "«conv.h».min(last.cast_unsigned())" => "(conv.h + 1)";
        sums_roll_over_columns_behind_the_image, depthwise::rolling::<f32>,
            "place.w.wrapping_add(j as u32) < «conv.w» {" => "conv.w + 1";
        sums_roll_over_too_few_rows, depthwise::rolling::<f32>,
            "place.rows + «R as u32» - STRIDE as u32;" => "R as u32 - 1";
        segments_all_begin_with_the_first_row, depthwise::rolling::<f32>,
            "let (p, q) = («segment * g.segment_rows», " => "segment * 0";
        runs_are_written_behind_the_row, depthwise::rolling::<f32>,
            "if «place.q + (i as u32) < conv.q» {" => "true";
    "fused/depthwise/rolling/output.rs":
        rolling_adds_the_residual_of_the_first_output_of_a_run, depthwise::rolling::<f32>,
            "T::load(self.residual, self.offset + «channels * i»);" => "channels * 0 * i";
    "fused/depthwise/results.rs":
        depthwise_adds_the_residual_of_the_first_row, depthwise::without_norm::<f32>,
            "                let at = first + «i as u32 * conv.q»;\n                added[i]" => "0";
        depthwise_pools_across_one_column_too_few, depthwise::matches::<f32>,
            "while «column < g.pool_w» {" => "column + 1 < g.pool_w";
    "copy_strided.rs":
        tile_is_written_from_before_all_of_it_is_there, copy_strided::copies::<f32, f32>,
            "    «thread::sync_threads();»\n    let (global, shared) = " => "";
        tile_takes_an_index_beyond_the_axis, copy_strided::copies::<f32, f32>,
            "if «walk.fast < left_i» && walk.slow < left_j {" => "walk.fast <= left_i";
        copy_takes_rows_that_end_in_a_vector_for_longer, copy_strided::copies::<f32, f32>,
            "if «of_row >= VECTOR_ELEMENTS as u64» {" => "of_row + 1 >= VECTOR_ELEMENTS as u64";
        copy_counts_on_from_indices_that_are_not_there_yet, copy_strided::random::<f32, f32>,
            "    «thread::sync_threads();»\n    let (mut source, mut target)" => "";
    "upsample.rs":
        upsample_takes_the_value_behind_the_last_one, upsample::matches::<f32>,
            "let next = first[axis] + 1;\n        if «next < g.input[axis]» {" => "next <= g.input[axis]";
        upsample_weighs_rows_by_the_weight_of_columns, upsample::matches::<f32>,
            "between(a, row(d, behind(1)), «weight[1]»)" => "weight[2]";
        upsample_begins_planes_where_outputs_do, upsample::matches::<f32>,
            "* «g.input_units()» as usize,\n            unit," => "g.plane_units()";
    "gate.rs":
        gate_takes_the_factors_of_the_first_sample, gate::matches::<f32>,
            "let first = (segments.first + «samples as u64») * g.pixel" => "0";
    "copy_rows.rs":
        rows_that_begin_in_a_block_are_counted_from_the_first_one, copy_rows::copies::<f32>,
            "let row = (segments.first + «rows as u64») * of.pitch;" => "0";
        rows_are_written_where_they_are_read, copy_rows::copies::<f32>,
            "y.store_vec(at(&«g.target», local), values[v]);" => "g.source";
    "conv/pad.rs":
        pad_repeats_the_edge_that_it_mirrors, conv_pad::matches::<f32>,
            "if position < 0 {\n            «-position»\n" => "-position - 1";
    "arithmetic.rs":
        arithmetic_leaves_the_shift_before_it, arithmetic::matches::<f32>,
            "«factor * shift» };" => "shift";
    "parts/batch_norm.rs":
        batch_norm_adds_the_mean, batch_norm::matches::<f32>,
            "«(bias - mean * exact)» as f32" => "(bias + mean * exact)";
    "batch_norm.rs":
        batch_norm_leaves_out_samples_that_a_block_has_no_threads_for, batch_norm::by_batch::<f32>,
            "        index += «STATS_THREADS as u64»;" => "samples * splits";
        batch_norm_takes_the_moments_before_they_are_there, batch_norm::by_batch::<f32>,
            "    «thread::sync_threads();»\n    let (mean, variance) = " => "";
        batch_norm_renews_by_the_biased_variance, batch_norm::by_batch::<f32>,
            "«(samples * norm.row_elements - 1)» as f32" => "(samples * norm.row_elements)";
        batch_norm_counts_every_split_as_the_first, batch_norm::by_batch::<f32>,
            "row(sample), «split as u32»" => "0 * split as u32";
    "parts/series.rs":
        series_lose_the_last_vector, softmax::matches::<f32>,
            "if number.is_multiple_of(VECTOR_ELEMENTS) && «is_in(number)» {" => "is_in(number + VECTOR_ELEMENTS)";
        second_rows_are_taken_for_present, softmax::matches::<f32>,
            "true => «u32::from(is_there(0)) + u32::from(is_there(1))»," => "PARTS as u32";
        parameters_of_series_are_taken_for_vectors, layer_norm_rows::matches::<f32>,
            "u32::from(g.is_in_fours() && «is_aligned»)" => "true";
        parameters_of_series_lack_the_last_value, layer_norm_rows::matches::<f32>,
            "                if «(i as i32) < values» {" => "(i as i32) + 1 < values";
        single_values_of_series_go_too_far, softmax::matches::<f32>,
            "                if «is_in(number)» {\n                    f(number, at, false);"
                => "number == 0 || is_in(number - 1)";
    "parts/series/reduce.rs":
        series_of_a_warp_are_combined_in_part, softmax::matches::<f32>,
            "let mut all = of_lanes(own, «g.threads.min(WARP_THREADS)»);" => "g.threads.min(WARP_THREADS) / 2";
        series_meet_without_barrier, softmax::matches::<f32>,
            "            «thread::sync_threads();»\n            // Combined by halves" => "";
        rows_of_several_warps_meet_without_barrier, softmax::matches::<f32>,
            "            «thread::sync_threads();»\n            all = of_lanes(" => "";
        series_lose_the_values_of_every_other_slice, softmax::matches::<f32>,
            "8 => «combine(quarter(0), quarter(1))»," => "quarter(0)";
    "parts/series/store.rs":
        series_of_another_channel_take_its_gain, softmax::lists::<f32>,
            "let (_, channel) = div_rem_u64(«plane», g.channels as u64);" => "plane + 1";
        residuals_of_series_are_those_of_the_first_values, softmax::lists::<f32>,
            "self.some::<T, MAPPED>(operands.residual, «index», batch, start, 0.0)" => "self.first_of(batch)";
    "softmax.rs":
        softmax_of_a_batch_of_minus_infinity_is_nan, softmax::matches::<f32>,
            "let mut own = [«f32::MIN»; PARTS];" => "f32::NEG_INFINITY";
        sums_of_threads_keep_their_own_scale, softmax::matches::<f32>,
            "|v| exponential::<T>(«own[v] - largest[v]»)" => "own[v] - own[v]";
        softmax_sums_batches_at_their_own_scale, softmax::matches::<f32>,
            "sums[0] * exponential::<T>(«own[0] - next[0]»)" => "0.0";
        softmax_of_minus_infinity_alone_is_infinite, softmax::matches::<f32>,
            "        if «sums[v] >= 1.0» {" => "sums[v] >= 0.0";
    "layer_norm.rs":
        rows_deviate_by_values_that_they_lack, layer_norm_rows::matches::<f32>,
            "                    if «row.has(batch, first + i)» {" => "true";
        rows_of_batches_keep_the_first, layer_norm_rows::matches::<f32>,
            "values = row.load(x, «batch», 0.0);\n        unroll!" => "0";
        rows_take_the_sum_of_their_first_batch, layer_norm_rows::matches::<f32>,
            "sums = [«sums[0] + added[0]»; PARTS];" => "sums[0]";
        rows_take_the_weights_of_their_first_part, layer_norm_rows::matches::<f32>,
            "if part == 0 && «opaque::to_compiler(u32::from(g.rows.has_several())) == 0» {" => "false";
        layer_norm_takes_the_weight_of_a_place_in_its_block, norm::layer_norm::<f32>,
            "affine(values, row, «position as usize», g.norm.affine_type)" => "local as usize % row";
}

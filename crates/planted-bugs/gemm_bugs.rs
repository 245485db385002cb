// The planted bugs of convolutions as matrix products that load tiles by TMA; `bugs.rs` has those of other
// kernels.

bugs! {
    GEMM_BUGS:
    "fused/gemm/sm90/mod.rs":
        gemm_multiplies_the_first_filters_alone, gemm::matches::<f16>,
            "[pixel_tile * self.g.tile_pixels, «filter_tile * self.tile[1]»]" => "0";
        gemm_warpgroups_have_the_same_half, gemm::matches::<f16>,
            "(1 - self.g.schedule.shift()) * «number» * self.tile[0]" => "0";
        gemm_parts_start_anywhere, gemm::matches::<f16>,
            "first: «start.wrapping_neg() % TILE_BYTES»," => "128";
    "fused/gemm/sm90/produce.rs":
        gemm_announces_too_few_bytes, gemm::matches::<f16>,
            "produce(memory, «g.tile_pixels * LINE_BYTES», of_tile, copy);" => "g.tile_pixels * LINE_BYTES - 16";
        gemm_fills_stages_that_are_read, gemm::matches::<f16>,
            "            «stages.empty(state.stage).wait(state.parity ^ 1);»\n" => "";
        gemm_filters_are_all_those_of_the_first_channels, gemm::matches::<f16>,
            "[«channel», tap, filter, 0, 0]" => "0";
        gemm_filters_are_all_those_of_the_first_tap, gemm::matches_of_windows::<f16>,
            "[depth.channel, «depth.tap»].map" => "0 * depth.tap";
        gemm_pixels_are_all_those_of_the_first_tap, gemm::matches_of_windows::<f16>,
            "depth.offsets.map(|offset| «offset as u16»)" => "0 * offset as u16";
        gemm_windows_begin_behind_the_padding, gemm::matches_of_windows::<f16>,
            "first(q, conv.stride_w, «conv.pad_w»)" => "0";
        gemm_windows_are_side_by_side, gemm::matches_of_windows::<f16>,
            "first(p, «conv.stride_h», conv.pad_h)" => "1";
        gemm_columns_of_taps_are_side_by_side, gemm::matches_of_windows::<f16>,
            "w += «conv.dilation_w»;" => "1";
        gemm_slices_of_taps_are_side_by_side, gemm::matches_of_windows::<f16>,
            "d += «conv.dilation_d»;" => "1";
        gemm_rows_of_taps_end_late, gemm::matches_of_windows::<f16>,
            "if s == «conv.s» {" => "conv.s + 1";
        gemm_puts_all_taps_of_a_stage_to_its_start, gemm::matches_of_windows::<f16>,
            "let of_part = «(g.tile_pixels << g.unit_shift) * wgmma::UNIT_BYTES»;" => "0";
    "fused/gemm/sm90/pad_channels.rs":
        gemm_pads_columns_behind_alone, gemm::matches_of_windows::<f16>,
            "column.wrapping_sub(«column_lead»)" => "0";
        gemm_pads_with_the_next_pixel, gemm::matches_of_windows::<f16>,
            "if channel == «g.channels» {" => "g.channels + 1";
        gemm_joins_neighbouring_rows, gemm::matches_of_windows::<f16>,
            "joined.wrapping_mul(«g.joined_step»)" => "1";
        gemm_pads_rows_behind_alone, gemm::matches_of_windows::<f16>,
            "wrapping_sub(«row_lead»)" => "0";
        gemm_copies_all_rows, gemm::matches_of_windows::<f16>,
            "(row * «g.row_step»)" => "1";
        gemm_joins_a_row_more, gemm::matches_of_windows::<f16>,
            "joined < «g.joined_rows» {" => "g.joined_rows + 1";
        gemm_pads_half_of_a_vector_of_f32, gemm::matches_of_windows::<f32>,
            "        «y.store_vec(at + low.len(), high);»\n" => "";
    "fused/gemm/sm90/consume.rs":
        gemm_releases_stages_before_they_are_read, gemm::matches::<f16>,
            "if let Some(stage) = «to_release.replace(state.stage)» {" => "{ to_release.replace(state.stage); Some(state.stage) }";
        gemm_warpgroups_do_not_take_turns, gemm::matches::<f16>,
            "memory.order_barrier(number).wait(«order_parity ^ 1 ^ number»);" => "1";
        gemm_multiplies_the_filters_of_the_first_stage, gemm::matches::<f16>,
            "steps(first_filters + «filter_stage» * filter_stage_units)" => "0";
        gemm_multiplies_the_first_rows_twice, gemm::matches::<f16>,
            "pixel_operand.steps(pixels + «(MMA_ROWS << g.unit_shift)»)" => "0";
        gemm_steps_are_all_the_first, gemm::matches::<f16>,
            "laid_out(first + «step», self.layout)" => "0 * step";
        gemm_taps_of_a_stage_are_side_by_side, gemm::matches_of_windows::<f16>,
            "(step >> shift) * «(lines << unit_shift)»" => "STEP_UNITS";
    "fused/gemm/sm90/results.rs":
        gemm_has_no_bias, gemm::matches::<f16>,
            "[gain, «bias», 0.0]" => "shift";
        gemm_adds_the_bias_of_the_other_filter, gemm::matches::<f16>,
            "sum + biases[«j»]" => "1 - j";
        gemm_lines_are_swizzled_alike, gemm::matches::<f16>,
            "(unit ^ «quad») * UNIT_WORDS + of_unit" => "0";
        gemm_second_filters_are_in_the_first_part, gemm::matches::<f16>,
            "let (part, octet) = («n as u32 / line_octets», n" => "0";
        gemm_lines_of_f32_are_those_of_halves, gemm::matches::<f32>,
            "LINE_WORDS / «(4 * pair_words)»;" => "4";
        gemm_pairs_of_f32_are_words, gemm::matches::<f32>,
            "(4 * octet + of_quad) * «pair_words»;" => "1";
        gemm_results_are_not_shown, gemm::matches::<f16>,
            "        «async_proxy::fence_shared();»\n" => "";
        gemm_keeps_channels_that_are_read, gemm::matches::<f16>,
            "        «barrier::sync(1 + self.number, WARPGROUP_THREADS);»\n        let mut of_tile" => "";
        gemm_writes_over_what_is_stored, gemm::matches::<f16>,
            "        «pipeline.empty(state.stage).wait(state.parity);»\n" => "";
        gemm_adds_the_residual_of_the_first_buffer, gemm::matches::<f16>,
            "self.memory.results(self.number, «buffer»)" => "0";
        gemm_bounds_residuals_by_what_is_in_front, gemm::matches::<f16>,
            "T::bounds(«rounded.after.bounds»)" => "self.output.store.epilogue.bounds";
        gemm_leaves_bounds_in_front_of_functions, gemm::matches::<f16>,
            "bounds != Bounds::NONE && «!self.output.ends_with_bounds()»" => "false";
        gemm_has_no_slope_behind_a_residual, gemm::matches::<f16>,
            "(_, true) if «rounded.after.slope != 1.0»" => "false";
    "fused/gemm/sm90/write.rs":
        gemm_stores_before_results_are_there, gemm::matches::<f16>,
            "        «pipeline.full(state.stage).wait(state.parity);»\n" => "";
        gemm_gives_room_before_results_are_read, gemm::matches::<f16>,
            "        «wait_stores_read::<0>();»\n" => "";
        gemm_stores_all_parts_at_the_first, gemm::matches::<f16>,
            "filter + «part * g.line_values()»," => "0";
        gemm_buffers_have_the_residual_of_the_same_tile, gemm::matches::<f16>,
            "copy_box(staged(buffer, part), residual, at(«tile», part), room);" => "memory.first_tile(number)";
}

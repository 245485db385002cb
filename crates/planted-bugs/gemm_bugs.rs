// The mistakes of convolutions of one tap as plain matrix products; `bugs.rs` has those of other kernels.

bugs! {
    GEMM_BUGS:
    "fused/gemm/mod.rs":
        gemm_announces_too_few_bytes, gemm::matches::<f16>,
            "full.arrive_expect(«memory.layout.stage_bytes»);" => "memory.layout.stage_bytes - 16";
        gemm_fills_stages_that_are_read, gemm::matches::<f16>,
            "            «stages.empty(state.stage).wait(state.parity ^ 1);»\n" => "";
        gemm_multiplies_the_first_filters_alone, gemm::matches::<f16>,
            "[pixel_tile * self.g.tile_pixels, «filter_tile * self.tile[1]»]" => "0";
        gemm_warpgroups_have_the_same_half, gemm::matches::<f16>,
            "(1 - self.g.schedule.shift()) * «number» * self.tile[0]" => "0";
        gemm_parts_start_anywhere, gemm::matches::<f16>,
            "first: «start.wrapping_neg() % TILE_BYTES»," => "128";
        gemm_filters_stay_as_those_of_the_first_stage, gemm::matches::<f16>,
            "copy_box(\n                memory.resident(k_block),\n                filters,\n                [«channel», filter, 0, 0, 0]," => "0";
    "fused/gemm/consume.rs":
        gemm_releases_stages_before_they_are_read, gemm::matches::<f16>,
            "if let Some(stage) = «used.replace(state.stage)» {" => "{ used.replace(state.stage); Some(state.stage) }";
        gemm_warpgroups_do_not_take_turns, gemm::matches::<f16>,
            "memory.turn(number).wait(«parity ^ 1 ^ number»);" => "1";
        gemm_multiplies_the_filters_of_the_first_stage, gemm::matches::<f16>,
            "steps(first_filters + «of_filters» * filter_stage_units)" => "0";
        gemm_multiplies_the_first_rows_twice, gemm::matches::<f16>,
            "&steps(pixels + «MMA_ROWS * LINE_UNITS»)" => "0";
        gemm_steps_are_all_the_first, gemm::matches::<f16>,
            "laid_out(first + «step * STEP_UNITS», LAYOUT)" => "0";
    "fused/gemm/results.rs":
        gemm_has_no_bias, gemm::matches::<f16>,
            "[gain, «bias», 0.0]" => "shift";
        gemm_adds_the_bias_of_the_other_filter, gemm::matches::<f16>,
            "sum + biases[«j»]" => "1 - j";
        gemm_lines_are_swizzled_alike, gemm::matches::<f16>,
            "((n as u32 % 8) ^ «quad») * CHUNK_WORDS" => "0";
        gemm_second_filters_are_in_the_first_part, gemm::matches::<f16>,
            "let part = «n as u32 / 8» * Self::PIXELS;" => "0";
        gemm_results_are_not_shown, gemm::matches::<f16>,
            "        «async_proxy::fence_shared();»\n" => "";
        gemm_keeps_channels_that_are_read, gemm::matches::<f16>,
            "        «barrier::sync(1 + self.number, WARPGROUP_THREADS);»\n        let mut of_tile" => "";
        gemm_writes_over_what_is_stored, gemm::matches::<f16>,
            "        «self.memory.room(self.number).wait(parity);»\n" => "";
    "fused/gemm/write.rs":
        gemm_stores_before_results_are_there, gemm::matches::<f16>,
            "        «there.wait(parity);»\n" => "";
        gemm_gives_room_before_results_are_read, gemm::matches::<f16>,
            "        «wait_stores_read::<0>();»\n" => "";
        gemm_stores_all_parts_at_the_first, gemm::matches::<f16>,
            "[filter + («part * LINE_VALUES») as i32, pixel, 0, 0, 0]" => "0";
}

// The planted bugs of synchronisation in matrix products that load tiles by TMA, and in kernels whose threads
// meet at a barrier: barriers that are left out or have other counts, parities or places.

bugs! {
    ORDER_BUGS:
    "fused/gemm/sm90/mod.rs":
        gemm_barriers_are_not_shown_to_copies, gemm::matches::<f16>,
            "        «async_proxy::fence_shared();»\n    }\n    thread::sync_threads();" => "";
        gemm_barriers_are_used_before_they_exist, gemm::matches::<f16>,
            "    «thread::sync_threads();»\n\n    let warp" => "";
        gemm_stages_are_empty_for_one_warpgroup, gemm::matches::<f16>,
            "memory.stages().init(producers, «consumers»);" => "WARPGROUP_WARPS";
        gemm_stages_are_full_with_one_operand, gemm::matches::<f16>,
            "memory.stages().init(«producers»," => "1";
        gemm_warps_take_turns_alone, gemm::matches::<f16>,
            "memory.order_barrier(warpgroup).init(«WARPGROUP_WARPS»);" => "1";
        gemm_results_of_one_warp_are_stored, gemm::matches::<f16>,
            "memory.results_pipeline(warpgroup).init(«WARPGROUP_WARPS», 1);" => "1";
    "fused/gemm/sm90/consume.rs":
        gemm_resident_filters_are_not_awaited, gemm::matches::<f16>,
            "                «memory.filters_are_there().wait(0);»\n" => "";
        gemm_stages_are_not_awaited, gemm::matches::<f16>,
            "            «stages.full(state.stage).wait(state.parity);»\n" => "";
        gemm_releases_stages_while_the_second_rows_are_read, gemm::matches::<f16>,
            "                «second.wait_for_older::<2>();»\n" => "second.wait_for_older::<3>();";
        gemm_releases_stages_of_few_pixels_that_are_read, gemm::matches::<f16>,
            "                «first.wait_for_older::<1>();»\n" => "first.wait_for_older::<2>();";
        gemm_releases_the_last_stage_while_it_is_read, gemm::matches::<f16>,
            "            if k_block == g.k_blocks {\n                «break;»\n" => "{ if let Some(stage) = to_release.take() { release(stages.empty(stage)); } break; }";
        gemm_skips_no_stages_of_the_other_warpgroup, gemm::matches::<f16>,
            "            «state = state.skip(g.tile_skip, &stages);»\n        }\n        let sums" => "";
    "fused/gemm/sm90/produce.rs":
        gemm_resident_filters_are_announced_in_part, gemm::matches::<f16>,
            "there.arrive_expect(«g.k_blocks * memory.filter_bytes()»);" => "memory.filter_bytes()";
        gemm_announces_bytes_behind_their_copy, gemm::matches::<f16>,
            "            «full.arrive_expect(bytes);\n            depth = copy(memory.stage(state.stage), found, depth, full);»\n"
                => "depth = copy(memory.stage(state.stage), found, depth, full); full.arrive();";
    "fused/gemm/sm90/results.rs":
        gemm_channels_are_read_before_they_are_kept, gemm::matches::<f16>,
            "            of_tile += WARPGROUP_THREADS;\n        }\n        «barrier::sync(1 + self.number, WARPGROUP_THREADS);»\n" => "";
        gemm_lanes_do_not_meet_before_one_arrives, gemm::matches::<f16>,
            "        «warp::sync_warp(warp::ALL_LANES);»\n" => "";
        gemm_room_is_awaited_by_the_other_parity, gemm::matches::<f16>,
            "        «pipeline.empty(state.stage).wait(state.parity);»\n" => "pipeline.empty(state.stage).wait(state.parity ^ 1);";
    "fused/gemm/sm90/write.rs":
        gemm_stores_are_not_committed, gemm::matches::<f16>,
            "        «commit_stores();»\n" => "";
        gemm_waits_for_all_but_the_last_store, gemm::matches::<f16>,
            "        «wait_stores_read::<0>();»\n" => "wait_stores_read::<1>();";
        gemm_residuals_are_announced_in_part, gemm::matches::<f16>,
            "room.arrive_expect(«pixels * filters * g.element_bytes»);" => "pixels * filters * g.element_bytes - 128";
        gemm_makes_room_before_it_stores, gemm::matches::<f16>,
            "        «store(tile, state);\n        make_room(next, state.stage);»\n" => "make_room(next, state.stage); store(tile, state);";
    "parts/pipeline.rs":
        skipped_rounds_keep_their_parity, gemm::matches::<f16>,
            "parity: «self.parity ^ (rounds & pipeline.wraps)»," => "self.parity";
    "fused/implicit_gemm/product.rs":
        implicit_gemm_k_blocks_begin_without_barrier, implicit_gemm::matches::<F16x2>,
            "            S::Multiplier::<F>::show_halo();\n            «thread::sync_threads();»\n" => "";
        implicit_gemm_tables_are_read_before_they_are_there, implicit_gemm::matches::<F16x2>,
            "    «thread::sync_threads();»\n    let mut multiplier" => "";
        implicit_gemm_stores_the_next_tile_over_the_last, implicit_gemm::matches::<F16x2>,
            "following.store(tiles, «1 - entry»);" => "entry";
    "fused/implicit_gemm/reformat.rs":
        largest_of_warps_are_read_before_they_are_there, implicit_gemm::matches::<F16x2>,
            "    «thread::sync_threads();»\n    let [a, b, c, d]" => "";
    "parts/planes.rs":
        combined_rows_are_read_before_they_are_there, norm::group_norm::<f32>,
            "            «thread::sync_threads();»\n            Some(combined)" => "";
        planes_are_read_before_they_are_staged, norm::group_norm::<f32>,
            "        «thread::sync_threads();»\n        Self {\n            staged," => "";
    "conv/mean.rs":
        sums_of_warps_are_read_before_they_are_there, conv_mean::matches,
            "    «thread::sync_threads();»\n    if thread < taps {" => "";
    "conv/direct.rs":
        direct_convolution_reads_filters_before_they_are_staged, conv::direct::<f32, 2>,
            "staged);\n        «thread::sync_threads();»\n" => "";
    "fused/depthwise/mod.rs":
        depthwise_reads_filters_before_they_are_there, depthwise::matches::<f32>,
            "    «thread::sync_threads();»\n\n    let first = block_in_plane" => "";
}

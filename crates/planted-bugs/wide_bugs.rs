// The mistakes of the product of wide tiles, as `bugs.rs` has those of all else.

bugs! {
    WIDE_BUGS:
    {
        name: wide_ring_comes_round_without_a_new_parity,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/rings.rs",
        right: "parity: «self.parity ^ ring.comes_round»,",
        wrong: "self.parity",
    }
    {
        name: wide_second_output_is_written_over_the_first,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "self.place.z * self.g.outputs_d + «self.output_d()»",
        wrong: "0",
    }
    {
        name: wide_moments_of_both_outputs_have_one_place,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "(self.place.tile * outputs + «self.output_d()») * HALVES + half)",
        wrong: "0",
    }
    {
        name: wide_second_output_is_there_as_often_as_the_first,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "«self.g.outputs_d - 1 - self.output_d()»",
        wrong: "self.g.outputs_d - 1",
    }
    {
        name: wide_limits_of_an_output_that_is_not_there_are_taken,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "if «self.place.z < made.conv.z» {",
        wrong: "true",
    }
    {
        name: wide_filters_of_the_second_output_begin_with_the_first_slice,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/filters.rs",
        right: ".wrapping_sub(«self.behind * conv.r»)",
        wrong: "0",
    }
    {
        name: wide_tiles_of_two_outputs_are_a_slice_apart,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "let z = place.z * «g.slice_stride()»",
        wrong: "conv.stride_d",
    }
    {
        name: wide_slices_of_a_tile_of_two_outputs_are_neighbours,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "position: (d * «outputs_d(g, tile)» * conv.p + h)",
        wrong: "1",
    }
    {
        name: wide_filters_are_overwritten_in_use,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "            ring.free(turn.slot).wait(«turn.parity ^ 1»);\n            let filled",
        wrong: "1",
    }
    {
        name: wide_patch_is_overwritten_in_use,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "    memory.patches().free(turn.slot).wait(«turn.parity ^ 1»);\n    while cell",
        wrong: "1",
    }
    {
        name: wide_filters_are_awaited_as_free_in_the_wrong_round,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "            ring.free(turn.slot).wait(«turn.parity ^ 1»);\n            let filled",
        wrong: "turn.parity",
    }
    {
        name: wide_slot_is_free_before_the_chain_before_is_over,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/format.rs",
        right: "                «sums.wait_for_older::<1>();»",
        wrong: "sums.wait_for_older::<2>();",
    }
    {
        name: wide_slots_of_the_chain_under_way_are_given_back,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "«used.replace(now)»",
        wrong: "Some(now)",
    }
    {
        name: wide_patch_is_given_back_after_each_chain,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "patch: «(step == g.steps).then_some(patch.slot)»,",
        wrong: "Some(patch.slot)",
    }
    {
        name: wide_filters_are_multiplied_before_they_arrive,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "                    «filter_ring.filled(filters.slot).wait(filters.parity);»\n",
        wrong: "",
    }
    {
        name: wide_patch_is_multiplied_before_it_arrives,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "            «patch_ring.filled(patch.slot).wait(patch.parity);»\n",
        wrong: "",
    }
    {
        name: wide_patch_is_announced_before_it_arrives,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "                «cp_async::wait_all();»\n",
        wrong: "",
    }
    {
        name: wide_patch_is_not_shown_to_the_tensor_cores,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "                «async_proxy::fence_shared();»\n",
        wrong: "",
    }
    {
        name: wide_patch_is_announced_by_a_lane_alone,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "                «warp::sync_warp(warp::ALL_LANES);»\n",
        wrong: "",
    }
    {
        name: wide_patches_have_more_warps_than_slots,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "let warps = «PATCH_WARPS.min(ring.slots)»;",
        wrong: "PATCH_WARPS",
    }
    {
        name: wide_patch_has_planes_beyond_the_last,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "let planes = «g.stage_planes.min(g.planes - first_plane)»;",
        wrong: "g.stage_planes",
    }
    {
        name: wide_filters_beyond_the_last_tile_are_read,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "let from = «(work.filter_tile + tile).min(g.filter_tiles - 1)»;",
        wrong: "work.filter_tile + tile",
    }
    {
        name: wide_filters_of_one_tile_are_expected_of_two,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "filled.arrive_expect(«tiles * chain_words * 4»);",
        wrong: "chain_words * 4",
    }
    {
        name: wide_octets_are_eight_cells_apart,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "let octet_units = opaque::to_compiler(«g.octets_in_turn[usize::from(F::IN_TURN)]»);",
        wrong: "8",
    }
    {
        name: wide_warpgroups_share_the_first_tile_of_filters,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "«filter_tile * chain_units»;",
        wrong: "0",
    }
    {
        name: wide_warpgroups_share_the_first_half,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "«first_half * half_units»;",
        wrong: "0",
    }
    {
        name: wide_low_parts_of_filters_are_half_a_step_away,
        check: implicit_gemm::wide::<Split>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "                    low: «STEP_UNITS»,",
        wrong: "STEP_UNITS / 2",
    }
    {
        name: wide_second_half_is_as_far_as_in_other_layouts,
        check: implicit_gemm::wide::<Split>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "    } else {\n        «HALF_OCTETS * to_next»\n    };",
        wrong: "HALF_PIXELS",
    }
    {
        name: wide_moments_are_of_the_first_half,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "self.write_moments(filter, «half», ",
        wrong: "0",
    }
    {
        name: wide_moments_together_leave_out_the_second_row,
        check: wide_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "«both[0] = both[0].and(both[1]);»",
        wrong: "",
    }
    {
        name: wide_moments_together_are_of_every_second_quad,
        check: wide_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "moments.of_lane_behind(4 * «filters»)",
        wrong: "8",
    }
    {
        name: wide_moments_together_are_written_by_every_filter,
        check: wide_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "filter < self.filters && «filter & (together - 1) == 0»",
        wrong: "true",
    }
    {
        name: wide_moments_together_lie_where_each_channel_has_one,
        check: wide_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "let at = «(self.plane(filter) >> shift)» * parts",
        wrong: "self.plane(filter)",
    }
    {
        name: wide_moments_take_unused_pixels,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "let is_whole = «g.tile_pixels() == WIDE.pixels() && is_within(&self.made(), self.place)»;",
        wrong: "is_within(&self.made(), self.place)",
    }
    {
        name: wide_results_are_overwritten_while_they_are_written,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "                // Nobody reads what was there before.\n                «warp::sync_warp(warp::ALL_LANES);»",
        wrong: "",
    }
    {
        name: wide_results_are_read_before_they_are_there,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "                «warp::sync_warp(warp::ALL_LANES);»\n                if piece",
        wrong: "",
    }
    {
        name: wide_second_half_is_the_first_again,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/results.rs",
        right: "sums[at] = sums[(«HALF_SUMS + at») % SUMS];",
        wrong: "at",
    }
    {
        name: wide_rows_of_every_round_are_the_first_ones,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/rows.rs",
        right: "let filter = «round % groups» * TOGETHER",
        wrong: "0",
    }
    {
        name: wide_results_of_filters_that_do_not_exist_are_written,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/rows.rs",
        right: "if filter + i as u32 * step < «self.filters» {",
        wrong: "WARP_FILTERS",
    }
    {
        name: wide_slice_of_the_filter_is_the_first,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: " + «filter_slice * conv.dilation_d»;",
        wrong: "0",
    }
    {
        name: wide_filters_of_all_depths_are_those_of_the_first_slice,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/filters.rs",
        right: "let row = («depth * conv.r + row»)",
        wrong: "row",
    }
    {
        name: wide_strips_have_the_columns_of_the_first,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let column = column + «strip * OCTET_PIXELS»;",
        wrong: "0",
    }
    {
        name: wide_rows_of_a_patch_follow_one_another_in_spite_of_the_stride,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let h = («residue_row * conv.stride_h + residue»).min(g.patch_h - 1);",
        wrong: "residue * g.residue_rows + residue_row",
    }
    {
        name: wide_slices_of_a_tile_are_neighbours_in_spite_of_the_stride,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let d = slice * «conv.stride_d» * outputs_d(g, tile)",
        wrong: "1",
    }
    {
        name: wide_rows_of_the_filter_are_a_row_of_one_octet_apart,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "«(of_residue * g.residue_rows + row) * g.tile_d * g.strips»;",
        wrong: "(of_residue * g.residue_rows + row)",
    }
    {
        name: wide_cells_behind_the_patch_are_not_zeros,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/memory.rs",
        right: "        while cell < «cells * planes» {",
        wrong: "0",
    }
    {
        name: wide_cells_behind_the_patch_are_zeros_in_one_slot,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/memory.rs",
        right: "let planes = («self.rings.patches * g.stage_planes * self.format.parts») >> shift;",
        wrong: "g.stage_planes * self.format.parts",
    }
    {
        name: wide_cells_are_copied_beyond_the_patch,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "                        if (i as u32) < «left» {",
        wrong: "TOGETHER as u32",
    }
    {
        name: wide_tables_are_read_before_they_are_there,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/mod.rs",
        right: "        «thread::sync_threads();»\n    }\n\n    let warp",
        wrong: "",
    }
}

// The mistakes of warp-specialized tiles; `bugs.rs` has those of other kernels.

bugs! {
    WARP_SPECIALIZED_BUGS:
    {
        name: warp_specialized_pipeline_comes_round_without_a_new_parity,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/pipeline.rs",
        right: "parity: «self.parity ^ pipeline.wraps»,",
        wrong: "self.parity",
    }
    {
        name: warp_specialized_second_output_is_written_over_the_first,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "self.place.z * self.g.outputs_d + «self.output_d()»",
        wrong: "0",
    }
    {
        name: warp_specialized_moments_of_both_outputs_have_one_place,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "(self.place.tile * outputs + «self.output_d()») * HALVES + half)",
        wrong: "0",
    }
    {
        name: warp_specialized_second_output_is_there_as_often_as_the_first,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "«self.g.outputs_d - 1 - self.output_d()»",
        wrong: "self.g.outputs_d - 1",
    }
    {
        name: warp_specialized_limits_of_an_output_that_is_not_there_are_taken,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "if «self.place.z < made.conv.z» {",
        wrong: "true",
    }
    {
        name: warp_specialized_filters_of_the_second_output_begin_with_the_first_slice,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/filters.rs",
        right: ".wrapping_sub(«self.behind * conv.r»)",
        wrong: "0",
    }
    {
        name: warp_specialized_tiles_of_two_outputs_are_a_slice_apart,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "let z = place.z * «g.slice_stride()»",
        wrong: "conv.stride_d",
    }
    {
        name: warp_specialized_slices_of_a_tile_of_two_outputs_are_neighbours,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "position: (d * «outputs_d(g, tile)» * conv.p + h)",
        wrong: "1",
    }
    {
        name: warp_specialized_filters_are_overwritten_in_use,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "            pipeline.empty(state.stage).wait(«state.parity ^ 1»);\n            let full",
        wrong: "1",
    }
    {
        name: warp_specialized_halo_is_overwritten_in_use,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "    memory.halos().empty(state.stage).wait(«state.parity ^ 1»);\n    while k_vector",
        wrong: "1",
    }
    {
        name: warp_specialized_filters_are_awaited_as_free_in_the_wrong_round,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "            pipeline.empty(state.stage).wait(«state.parity ^ 1»);\n            let full",
        wrong: "state.parity",
    }
    {
        name: warp_specialized_stage_is_free_before_the_chain_before_is_over,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/format.rs",
        right: "                «sums.wait_for_older::<1>();»",
        wrong: "sums.wait_for_older::<2>();",
    }
    {
        name: warp_specialized_stages_of_the_chain_under_way_are_given_back,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "«used.replace(now)»",
        wrong: "Some(now)",
    }
    {
        name: warp_specialized_halo_is_given_back_after_each_chain,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "halo: «(step == g.mma_steps).then_some(halo.stage)»,",
        wrong: "Some(halo.stage)",
    }
    {
        name: warp_specialized_filters_are_multiplied_before_they_arrive,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "                    «filter_pipeline.full(filters.stage).wait(filters.parity);»\n",
        wrong: "",
    }
    {
        name: warp_specialized_halo_is_multiplied_before_it_arrives,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "            «halo_pipeline.full(halo.stage).wait(halo.parity);»\n",
        wrong: "",
    }
    {
        name: warp_specialized_halo_is_announced_before_it_arrives,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "                «cp_async::wait_all();»\n",
        wrong: "",
    }
    {
        name: warp_specialized_halo_is_not_shown_to_the_tensor_cores,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "                «async_proxy::fence_shared();»\n",
        wrong: "",
    }
    {
        name: warp_specialized_halo_is_announced_by_a_lane_alone,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "                «warp::sync_warp(warp::ALL_LANES);»\n",
        wrong: "",
    }
    {
        name: warp_specialized_halos_have_more_warps_than_stages,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "let warps = «HALO_WARPS.min(pipeline.stages)»;",
        wrong: "HALO_WARPS",
    }
    {
        name: warp_specialized_halo_has_planes_beyond_the_last,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "let planes = «g.k_block_planes.min(g.planes - first_plane)»;",
        wrong: "g.k_block_planes",
    }
    {
        name: warp_specialized_filters_beyond_the_last_tile_are_read,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "let from = «(work.filter_tile + tile).min(g.filter_tiles - 1)»;",
        wrong: "work.filter_tile + tile",
    }
    {
        name: warp_specialized_filters_of_one_tile_are_expected_of_two,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "full.arrive_expect(«tiles * mma_batch_words * 4»);",
        wrong: "mma_batch_words * 4",
    }
    {
        name: warp_specialized_octets_are_eight_k_vectors_apart,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "let octet_units = opaque::to_compiler(«g.interleaved_octets[usize::from(F::INTERLEAVED)]»);",
        wrong: "8",
    }
    {
        name: warp_specialized_warpgroups_share_the_first_tile_of_filters,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "«filter_tile * mma_batch_units»;",
        wrong: "0",
    }
    {
        name: warp_specialized_warpgroups_share_the_first_half,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "«first_half * half_units»;",
        wrong: "0",
    }
    {
        name: warp_specialized_low_parts_of_filters_are_half_a_step_away,
        check: implicit_gemm::warp_specialized::<F16x2>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "                    low: «MMA_STEP_UNITS»,",
        wrong: "MMA_STEP_UNITS / 2",
    }
    {
        name: warp_specialized_second_half_is_as_far_as_in_other_layouts,
        check: implicit_gemm::warp_specialized::<F16x2>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "    } else {\n        «HALF_OCTETS * to_next»\n    };",
        wrong: "HALF_PIXELS",
    }
    {
        name: warp_specialized_moments_are_of_the_first_half,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "self.write_moments(filter, «half», ",
        wrong: "0",
    }
    {
        name: warp_specialized_moments_together_leave_out_the_second_row,
        check: warp_specialized_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "«both[0] = both[0].and(both[1]);»",
        wrong: "",
    }
    {
        name: warp_specialized_moments_together_are_of_every_second_quad,
        check: warp_specialized_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "moments.of_lane_behind(4 * «filters»)",
        wrong: "8",
    }
    {
        name: warp_specialized_moments_together_are_written_by_every_filter,
        check: warp_specialized_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "filter < self.filters && «filter & (together - 1) == 0»",
        wrong: "true",
    }
    {
        name: warp_specialized_moments_together_lie_where_each_channel_has_one,
        check: warp_specialized_tiles::moments_together::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "let at = «(self.plane(filter) >> shift)» * parts",
        wrong: "self.plane(filter)",
    }
    {
        name: warp_specialized_moments_take_unused_pixels,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: r#"let is_whole =
            «g.tile_pixels() == WARP_SPECIALIZED.pixels() && is_within(&self.made(), self.place)»;"#,
        wrong: "is_within(&self.made(), self.place)",
    }
    {
        name: warp_specialized_results_are_overwritten_while_they_are_written,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "                // All lanes have read the previous staged tile.\n                «warp::sync_warp(warp::ALL_LANES);»",
        wrong: "",
    }
    {
        name: warp_specialized_results_are_read_before_they_are_there,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "                «warp::sync_warp(warp::ALL_LANES);»\n                if staged_tile",
        wrong: "",
    }
    {
        name: warp_specialized_second_half_is_the_first_again,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/results.rs",
        right: "sums[at] = sums[(«HALF_SUMS + at») % SUMS];",
        wrong: "at",
    }
    {
        name: warp_specialized_rows_of_every_round_are_the_first_ones,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/rows.rs",
        right: "let filter = «round % groups» * ROWS_IN_FLIGHT",
        wrong: "0",
    }
    {
        name: warp_specialized_results_of_filters_that_do_not_exist_are_written,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/rows.rs",
        right: "if filter + i as u32 * step < «self.filters» {",
        wrong: "WARP_FILTERS",
    }
    {
        name: warp_specialized_slice_of_the_filter_is_the_first,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: " + «filter_slice * conv.dilation_d»;",
        wrong: "0",
    }
    {
        name: warp_specialized_filters_of_all_depths_are_those_of_the_first_slice,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/filters.rs",
        right: "let row = («depth * conv.r + row»)",
        wrong: "row",
    }
    {
        name: warp_specialized_strips_have_the_columns_of_the_first,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let column = column + «strip * OCTET_PIXELS»;",
        wrong: "0",
    }
    {
        name: warp_specialized_rows_of_a_halo_follow_one_another_in_spite_of_the_stride,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let h = («stride_phase_row * conv.stride_h + stride_phase»).min(g.halo_h - 1);",
        wrong: "stride_phase * g.stride_phase_rows + stride_phase_row",
    }
    {
        name: warp_specialized_slices_of_a_tile_are_neighbours_in_spite_of_the_stride,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let d = slice * «conv.stride_d» * outputs_d(g, tile)",
        wrong: "1",
    }
    {
        name: warp_specialized_rows_of_the_filter_are_a_row_of_one_octet_apart,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "«(of_stride_phase * g.stride_phase_rows + row) * g.tile_d * g.strips»;",
        wrong: "(of_stride_phase * g.stride_phase_rows + row)",
    }
    {
        name: warp_specialized_k_vectors_behind_the_halo_are_not_zeros,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/memory.rs",
        right: "        while k_vector < «k_vectors * planes» {",
        wrong: "0",
    }
    {
        name: warp_specialized_k_vectors_behind_the_halo_are_zeros_in_one_stage,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/memory.rs",
        right: "let planes = («self.mainloop.halos * g.k_block_planes * self.format.parts») >> shift;",
        wrong: "g.k_block_planes * self.format.parts",
    }
    {
        name: warp_specialized_k_vectors_are_copied_beyond_the_halo,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "                        if (i as u32) < «left» {",
        wrong: "TOGETHER as u32",
    }
    {
        name: warp_specialized_tables_are_read_before_they_are_there,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/mod.rs",
        right: "        «thread::sync_threads();»\n    }\n\n    let warp",
        wrong: "",
    }
}

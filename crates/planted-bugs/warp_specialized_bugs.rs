// The planted bugs of warp-specialized kernels; `bugs.rs` has those of other kernels.

bugs! {
    WARP_SPECIALIZED_BUGS:
    "parts/pipeline.rs":
        warp_specialized_pipeline_comes_round_without_a_new_parity, implicit_gemm::warp_specialized::<f16>,
            "parity: «self.parity ^ pipeline.wraps»," => "self.parity";
    "fused/implicit_gemm/sm90/scaled.rs":
        warp_specialized_slopes_are_left_out, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if «slope != 1.0» {" => "false";
        warp_specialized_lower_bounds_are_left_out, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if «bounds.min != f32::NEG_INFINITY» {" => "false";
        warp_specialized_upper_bounds_are_left_out, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if «bounds.max != f32::INFINITY» {" => "false";
        warp_specialized_gains_are_left_out, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if is_without_norm::<E>(&self.g) && «self.epilogue().gain_and_shift.is_present()» {" => "false";
    "fused/implicit_gemm/sm90/results.rs":
        warp_specialized_second_output_is_written_over_the_first, warp_specialized_tiles::two_outputs::<f16>,
            "self.place.z * self.g.outputs_d + «self.output_d()»" => "0";
        warp_specialized_moments_of_both_outputs_have_one_place, warp_specialized_tiles::two_outputs::<f16>,
            "(self.place.tile * outputs + «self.output_d()») * HALVES + half)" => "0";
        warp_specialized_second_output_is_there_as_often_as_the_first, warp_specialized_tiles::two_outputs::<f16>,
            "«self.g.outputs_d - 1 - self.output_d()»" => "self.g.outputs_d - 1";
        warp_specialized_limits_of_an_output_that_is_not_there_are_taken, warp_specialized_tiles::two_outputs::<f16>,
            "if «self.place.z < made.conv.z» {" => "true";
        warp_specialized_moments_are_of_the_first_half, implicit_gemm::warp_specialized::<f16>,
            "self.write_moments(filter, «half», " => "0";
        warp_specialized_moments_together_leave_out_the_second_row, warp_specialized_tiles::moments_together::<f16>,
            "«both[0] = both[0].and(both[1]);»" => "";
        warp_specialized_moments_together_are_of_every_second_quad, warp_specialized_tiles::moments_together::<f16>,
            "moments.of_lane_behind(4 * «filters»)" => "8";
        warp_specialized_moments_together_are_written_by_every_filter, warp_specialized_tiles::moments_together::<f16>,
            "filter < self.filters && «filter & (together - 1) == 0»" => "true";
        warp_specialized_moments_together_lie_where_each_channel_has_one, warp_specialized_tiles::moments_together::<f16>,
            "let at = «(self.plane(filter) >> shift)» * parts" => "self.plane(filter)";
        warp_specialized_moments_take_unused_pixels, implicit_gemm::warp_specialized::<f16>,
            "«self.g.tile_pixels() == WARP_SPECIALIZED.pixels() && is_within(&self.made(), self.place)»"
                => "is_within(&self.made(), self.place)";
        warp_specialized_results_are_overwritten_while_they_are_written, implicit_gemm::warp_specialized::<f16>,
            "        // All lanes have read the previous staged tile.\n        «warp::sync_warp(warp::ALL_LANES);»"
                => "";
        warp_specialized_results_are_read_before_they_are_there, implicit_gemm::warp_specialized::<f16>,
            "        «warp::sync_warp(warp::ALL_LANES);»\n        if E::HAS_NORM" => "";
        warp_specialized_second_half_is_the_first_again, implicit_gemm::warp_specialized::<f16>,
            "sums[at] = sums[(«HALF_SUMS + at») % SUMS];" => "at";
    "fused/implicit_gemm/filters.rs":
        warp_specialized_filters_of_the_second_output_begin_with_the_first_slice, warp_specialized_tiles::two_outputs::<f16>,
            ".wrapping_sub(«self.behind * conv.r»)" => "0";
        warp_specialized_filters_of_all_depths_are_those_of_the_first_slice, implicit_gemm::warp_specialized::<f16>,
            "let row = («depth * conv.r + row»)" => "row";
    "fused/implicit_gemm/sm90/produce.rs":
        warp_specialized_tiles_of_two_outputs_are_a_slice_apart, warp_specialized_tiles::two_outputs::<f16>,
            "let z = place.z * «g.slice_stride()»" => "conv.stride_d";
        warp_specialized_filters_are_overwritten_in_use, implicit_gemm::warp_specialized::<f16>,
            "                pipeline.empty(state.stage).wait(«state.parity ^ 1»);\n                let full" => "1";
        warp_specialized_halo_is_overwritten_in_use, implicit_gemm::warp_specialized::<f16>,
            "    memory.halos().empty(state.stage).wait(«state.parity ^ 1»);\n    while k_vector" => "1";
        warp_specialized_filters_are_awaited_as_free_in_the_wrong_round, implicit_gemm::warp_specialized::<f16>,
            "                pipeline.empty(state.stage).wait(«state.parity ^ 1»);\n                let full"
                => "state.parity";
        warp_specialized_halo_is_announced_before_it_arrives, implicit_gemm::warp_specialized::<f16>,
            "                «cp_async::wait_all();»\n" => "";
        warp_specialized_halo_is_not_shown_to_the_tensor_cores, implicit_gemm::warp_specialized::<f16>,
            "                «async_proxy::fence_shared();»\n" => "";
        warp_specialized_halo_is_announced_by_a_lane_alone, implicit_gemm::warp_specialized::<f16>,
            "                «warp::sync_warp(warp::ALL_LANES);»\n" => "";
        warp_specialized_halos_have_more_warps_than_stages, implicit_gemm::warp_specialized::<f16>,
            "let warps = «HALO_WARPS.min(pipeline.stages)»;" => "HALO_WARPS";
        warp_specialized_halo_has_planes_beyond_the_last, implicit_gemm::warp_specialized::<f16>,
            "let planes = «g.k_block_planes.min(g.planes - first_plane)»;" => "g.k_block_planes";
        warp_specialized_filters_beyond_the_last_tile_are_read, implicit_gemm::warp_specialized::<f16>,
            "let from = «(work.filter_tile + tile).min(g.filter_tiles - 1)»;" => "work.filter_tile + tile";
        warp_specialized_filters_of_one_tile_are_expected_of_two, implicit_gemm::warp_specialized::<f16>,
            "full.arrive_expect(«tiles * mma_batch_words * 4»);" => "mma_batch_words * 4";
        warp_specialized_slice_of_the_filter_is_the_first, implicit_gemm::warp_specialized::<f16>,
            " + «filter_slice * conv.dilation_d»;" => "0";
        warp_specialized_k_vectors_are_copied_beyond_the_halo, implicit_gemm::warp_specialized::<f16>,
            "                        if (i as u32) < «left» {" => "TOGETHER as u32";
    "fused/implicit_gemm/tables.rs":
        warp_specialized_slices_of_a_tile_of_two_outputs_are_neighbours, warp_specialized_tiles::two_outputs::<f16>,
            "(d * «outputs_d(g, tile)» * conv.p + h)" => "1";
        warp_specialized_strips_have_the_columns_of_the_first, implicit_gemm::warp_specialized::<f16>,
            "let column = column + «strip * OCTET_PIXELS»;" => "0";
        warp_specialized_rows_of_a_halo_follow_one_another_in_spite_of_the_stride, implicit_gemm::warp_specialized::<f16>,
            "let h = («stride_phase_row * conv.stride_h + stride_phase»).min(g.halo_h - 1);"
                => "stride_phase * g.stride_phase_rows + stride_phase_row";
        warp_specialized_slices_of_a_tile_are_neighbours_in_spite_of_the_stride, implicit_gemm::warp_specialized::<f16>,
            "let d = slice * «conv.stride_d» * outputs_d(g, tile)" => "1";
        warp_specialized_rows_of_the_filter_are_a_row_of_one_octet_apart, implicit_gemm::warp_specialized::<f16>,
            "«(of_stride_phase * g.stride_phase_rows + row) * g.tile_d * g.strips»;"
                => "(of_stride_phase * g.stride_phase_rows + row)";
    "fused/implicit_gemm/sm90/format.rs":
        warp_specialized_stage_is_free_before_the_batch_before_is_over, implicit_gemm::warp_specialized::<f16>,
            "                «sums.wait_for_older::<1>();»" => "sums.wait_for_older::<2>();";
    "fused/implicit_gemm/sm90/consume.rs":
        warp_specialized_halo_is_given_back_after_each_batch, implicit_gemm::warp_specialized::<f16>,
            "halo: «ends_k_block.then_some(halo.stage)»," => "Some(halo.stage)";
        warp_specialized_filters_are_multiplied_before_they_arrive, implicit_gemm::warp_specialized::<f16>,
            "            «filter_pipeline.full(filters.stage).wait(filters.parity);»\n" => "";
        warp_specialized_halo_is_multiplied_before_it_arrives, implicit_gemm::warp_specialized::<f16>,
            "            «halo_pipeline.full(halo.stage).wait(halo.parity);»\n" => "";
        warp_specialized_octets_are_eight_k_vectors_apart, implicit_gemm::warp_specialized::<f16>,
            "let octet_units = opaque::to_compiler(«g.interleaved_octets[usize::from(F::INTERLEAVED)]»);" => "8";
        warp_specialized_warpgroups_share_the_first_tile_of_filters, implicit_gemm::warp_specialized::<f16>,
            "«filter_tile * mma_batch_units»;" => "0";
        warp_specialized_warpgroups_share_the_first_half, implicit_gemm::warp_specialized::<f16>,
            "«first_half * half_units»;" => "0";
        warp_specialized_low_parts_of_filters_are_half_a_step_away, implicit_gemm::warp_specialized::<F16x2>,
            "                low: «MMA_STEP_UNITS»," => "MMA_STEP_UNITS / 2";
        warp_specialized_second_half_is_as_far_as_in_other_layouts, implicit_gemm::warp_specialized::<F16x2>,
            "    } else {\n        «HALF_OCTETS * to_next»\n    };" => "HALF_PIXELS";
    "fused/implicit_gemm/sm90/rows.rs":
        warp_specialized_rows_behind_the_first_are_these_again, implicit_gemm::warp_specialized::<f16>,
            "let row = |i: usize| (ROWS_IN_FLIGHT * «group» + i)" => "(0 * group)";
        warp_specialized_results_of_filters_that_do_not_exist_are_written, implicit_gemm::warp_specialized::<f16>,
            "if filter + row(i) < «filters» {" => "WARP_FILTERS";
    "fused/implicit_gemm/sm90/prepare.rs":
        warp_specialized_k_vectors_behind_the_halo_are_not_zeros, implicit_gemm::warp_specialized::<f16>,
            "        while k_vector < «k_vectors * planes» {" => "0";
        warp_specialized_k_vectors_behind_the_halo_are_zeros_in_one_stage, implicit_gemm::warp_specialized::<f16>,
            "let planes = («self.mainloop.halos * g.k_block_planes * self.format.parts») >> shift;"
                => "g.k_block_planes * self.format.parts";
    "fused/implicit_gemm/sm90/mod.rs":
        warp_specialized_tables_are_read_before_they_are_there, implicit_gemm::warp_specialized::<f16>,
            "        «thread::sync_threads();»\n    }\n\n    if warp_of_block" => "";
}

// The mistakes of results that are written as runs, or shuffled; `bugs.rs` has those of other kernels.

bugs! {
    RUN_BUGS:
    "fused/implicit_gemm/sm90/runs.rs":
        runs_begin_where_their_part_begins, implicit_gemm::warp_specialized::<f16>,
            "let own = «first as u32 % Self::SECTOR»;" => "0";
        runs_begin_with_results_of_other_tiles, implicit_gemm::warp_specialized::<f16>,
            "let begin = «(own + run.begin).saturating_sub(run.first)»;" => "0";
        runs_end_with_whole_sectors, implicit_gemm::warp_specialized::<f16>,
            "            «self.write_ends(run, lane);»" => "";
        runs_leave_the_rest_of_a_part_behind, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "«self.move_rest(run, lane);»" => "";
        runs_have_the_pixels_beside_the_output, implicit_gemm::warp_specialized::<f16>,
            "if «positions[j] < run.all» {" => "true";
    "fused/implicit_gemm/sm90/shuffled.rs":
        shuffled_rows_meet_the_residual_of_the_first, conv_transpose_shuffled::matches::<Bf16x3>,
            "residuals = [«residuals[1]», residuals[2]" => "residuals[0]";
        shuffled_columns_are_all_the_first_of_a_pixel, conv_transpose_shuffled::matches::<Bf16x3>,
            "<< shuffle.shift) + «shuffle.phase(filter)»" => "0";
        shuffled_rows_are_of_the_first_slice_of_a_tile, conv_transpose_shuffled::matches::<Bf16x3>,
            "self.first_slice() + «d * g.outputs_d»" => "0";
        shuffled_channels_beyond_the_last_are_written, conv_transpose_shuffled::matches::<Bf16x3>,
            "if «(i as u32) < left» {" => "true";
    "fused/implicit_gemm/sm90/listed.rs":
        lists_have_the_gain_of_the_filter, conv_transpose_shuffled::matches::<Bf16x3>,
            "let channel = «filter >> shift»;" => "filter";
}

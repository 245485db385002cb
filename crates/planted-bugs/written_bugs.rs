// The planted bugs of shuffled or reduced outputs; `bugs.rs` has those of other kernels.

bugs! {
    WRITTEN_BUGS:
    "fused/implicit_gemm/sm90/shuffled.rs":
        shuffled_columns_are_all_the_first_of_a_pixel, conv_transpose_shuffled::matches::<Bf16x3>,
            "<< shift) + («filter & ((1 << shift) - 1)»);" => "0";
        shuffled_rows_are_of_the_first_slice_of_a_tile, conv_transpose_shuffled::matches::<Bf16x3>,
            "let in_tile = «d * self.g.outputs_d * shuffle.slice» +" => "0";
        shuffled_channels_beyond_the_last_are_written, conv_transpose_shuffled::matches::<Bf16x3>,
            "if «(i as u32) < left» {" => "true";
        shuffled_columns_beyond_the_output_are_written, conv_transpose_shuffled::matches::<Bf16x3>,
            "|| «of_row >= shuffle.columns» {" => "false";
        shuffled_columns_in_pairs_are_those_of_every_second_lane, conv_transpose_shuffled::matches::<Bf16x3>,
            "column = opaque::to_compiler(column + «together * WARP_THREADS»);" => "WARP_THREADS";
    "fused/implicit_gemm/sm90/listed.rs":
        lists_have_the_gain_of_the_filter, conv_transpose_shuffled::matches::<Bf16x3>,
            "let channel = «((self.channel + filter) >> shift)».min(channels - 1);" => "(self.channel + filter)";
        lists_are_applied_to_the_first_lane_alone, conv_transpose_shuffled::matches::<Bf16x3>,
            "of_row + «lane % 2 * VECTOR»;" => "0 * lane";
        lists_leave_out_the_second_values_of_a_row, conv_transpose_shuffled::matches::<f16>,
            "column = opaque::to_compiler(column + «2 * LISTED as u32»);" => "4 * LISTED as u32";
        lists_take_values_that_are_not_there_yet, conv_transpose_shuffled::matches::<f16>,
            "        }\n        «warp::sync_warp(warp::ALL_LANES);»" => "";
        kept_values_are_those_of_the_first_vector, conv_transpose_shuffled::matches::<Bf16x3>,
            "let others = unsafe { self.vector(«v») };" => "0";
        shuffled_rows_meet_the_residual_of_the_first, conv_transpose_shuffled::matches::<Bf16x3>,
            "let plane = «(filter >> shuffle.shift)» as usize * shuffle.plane as usize;" => "0";
        shuffled_vectors_meet_the_residual_of_their_neighbours, conv_transpose_shuffled::matches::<Bf16x3>,
            "let column = column + «2 * VECTOR * v as u32»;" => "VECTOR * v as u32";
        rows_meet_the_residual_of_the_first, implicit_gemm_without_norm::matches::<Bf16x3>,
            "let plane = this.plane(«filter») *" => "0 * filter";
        vectors_meet_the_residual_of_their_neighbours, implicit_gemm_without_norm::matches::<Bf16x3>,
            "let pixel = tile_pixel + column + «2 * VECTOR * v as u32»;" => "VECTOR * v as u32";
        residuals_of_filters_that_do_not_exist_are_loaded, implicit_gemm_without_norm::matches::<Bf16x3>,
            "if «filter >= self.filters» {" => "false";
        residuals_replace_no_values, conv_transpose_shuffled::matches::<Bf16x3>,
            "self.store_vector(v, «&residuals»);" => "&[0.0; LISTED]";
    "fused/implicit_gemm/sm90/reduced.rs":
        reduced_sets_have_filters_beyond_the_last, implicit_gemm_reduced::matches::<ScaledF16>,
            "if «of_set + behind < self.filters» {" => "of_set < self.filters";
        reduced_sums_are_not_divided, implicit_gemm_reduced::matches::<ScaledF16>,
            "1.0 / «reduced.divisor»" => "1.0";
        reduced_windows_are_written_that_the_output_lacks, implicit_gemm_reduced::matches::<ScaledF16>,
            "if of_row >= height || «of_column >= width» {" => "of_column > width";
        reduced_slices_are_the_first_of_a_tile, implicit_gemm_reduced::matches::<ScaledF16>,
            "let z = self.first_slice() + «d * g.outputs_d»;" => "0 * d";
        reduced_windows_of_other_sets_have_the_filters_of_the_first, implicit_gemm_reduced::matches::<ScaledF16>,
            "(mut filter, mut to) = («window.filter», window.to);" => "0 * window.filter";
        reduced_lanes_take_the_windows_of_the_first_again, implicit_gemm_reduced::matches::<ScaledF16>,
            "number = opaque::to_compiler(number + «WARP_THREADS»);\n            if" => "REDUCED_PIXELS";
    "fused/implicit_gemm/sm90/reduced_pixels.rs":
        reduced_windows_have_pixels_beside_the_output, implicit_gemm_reduced::matches::<ScaledF16>,
            "let inside = «self.inside_bits(self.first_half)»;" => "u32::MAX";
        reduced_sets_have_filters_that_do_not_exist, implicit_gemm_reduced::matches::<ScaledF16>,
            "let inside = if «filter < self.filters» { inside } else { 0 };" => "true";
        reduced_sets_lack_half_of_their_filters, implicit_gemm_reduced::matches::<ScaledF16>,
            "let is_one_row = «reduced.log_filters > LOG_ROWS_OF_SET»;" => "false";
        reduced_pixels_beside_the_output_are_those_of_the_octet_before, implicit_gemm_reduced::matches::<ScaledF16>,
            "1 << («2 * n + j») != 0" => "(2 * n + 30 + j) % 32";
        reduced_minima_are_maxima, implicit_gemm_reduced::matches::<ScaledF16>,
            "map(|value| «value * reduced.sign»)" => "value";
        reduced_rows_of_windows_are_side_by_side, implicit_gemm_reduced::matches::<ScaledF16>,
            "<< («log_pitch - LOG_OCTET»);" => "0 * log_pitch";
        reduced_columns_are_those_of_one_lane, implicit_gemm_reduced::matches::<ScaledF16>,
            "if «log_columns > bit as u32 + 1» {" => "log_columns > bit as u32 + 2";
        reduced_columns_are_of_pixels_of_every_lane, implicit_gemm_reduced::matches::<ScaledF16>,
            "if «stores» && !(is_one_row" => "true";
        reduced_windows_are_one_row_apart, implicit_gemm_reduced::matches::<ScaledF16>,
            "(«log_pitch + log_rows») << log_pitch" => "log_pitch";
    "fused/implicit_gemm/sm90/reduced_fixup.rs":
        reduced_windows_are_not_computed_again, implicit_gemm_reduced::matches::<ScaledF16>,
            "&& «y.load(window.to).to_f32().is_nan()»" => "false";
        reduced_windows_behind_the_first_are_not_computed_again, implicit_gemm_reduced::matches::<ScaledF16>,
            "first = opaque::to_compiler(first + «REDUCED_PIXELS»);" => "2 * REDUCED_PIXELS";
        reduced_windows_are_computed_again_with_the_first_column, implicit_gemm_reduced::matches::<ScaledF16>,
            "[z, p + row, «q + column»]," => "q";
        reduced_windows_are_computed_again_with_the_first_filter, implicit_gemm_reduced::matches::<ScaledF16>,
            "(self.place.sample, «self.channel + filter»)," => "self.channel + window.filter";
}

// The mistakes of results that are shuffled or reduced; `bugs.rs` has those of other kernels.

bugs! {
    WRITTEN_BUGS:
    "fused/implicit_gemm/sm90/shuffled.rs":
        shuffled_rows_meet_the_residual_of_the_first, conv_transpose_shuffled::matches::<Bf16x3>,
            "residuals = [«residuals[1]», residuals[2]" => "residuals[0]";
        shuffled_columns_are_all_the_first_of_a_pixel, conv_transpose_shuffled::matches::<Bf16x3>,
            "<< shuffle.shift) + «shuffle.phase(filter)»" => "0";
        shuffled_rows_are_of_the_first_slice_of_a_tile, conv_transpose_shuffled::matches::<Bf16x3>,
            "self.first_slice() + «d * g.outputs_d»" => "0";
        shuffled_channels_beyond_the_last_are_written, conv_transpose_shuffled::matches::<Bf16x3>,
            "if «(i as u32) < left» {" => "true";
        shuffled_columns_beyond_the_output_are_written, conv_transpose_shuffled::matches::<Bf16x3>,
            "|| «of_row >= shuffle.columns» {" => "false";
        shuffled_columns_in_pairs_are_those_of_every_second_lane, conv_transpose_shuffled::matches::<Bf16x3>,
            "column = opaque::to_compiler(column + «together * WARP_THREADS»);" => "WARP_THREADS";
    "fused/implicit_gemm/sm90/listed.rs":
        lists_have_the_gain_of_the_filter, conv_transpose_shuffled::matches::<Bf16x3>,
            "let channel = «filter >> shift»;" => "filter";
    "fused/implicit_gemm/sm90/reduced.rs":
        reduced_windows_have_rows_beside_the_output, implicit_gemm_reduced::matches::<ScaledF16>,
            "«(conv.p - p).min(1 << reduced.log_rows)»," => "1 << reduced.log_rows";
        reduced_windows_have_columns_beside_the_output, implicit_gemm_reduced::matches::<ScaledF16>,
            "«(conv.q - q).min(1 << reduced.log_columns)»," => "1 << reduced.log_columns";
        reduced_sets_have_filters_beyond_the_last, implicit_gemm_reduced::matches::<ScaledF16>,
            "if «filter + i32 * step + of_set < self.filters» {\n                                let from" => "true";
        reduced_minima_are_maxima, implicit_gemm_reduced::matches::<ScaledF16>,
            "of_row.map(|value| «value * sign»)" => "value * sign * sign";
        reduced_sums_are_not_divided, implicit_gemm_reduced::matches::<ScaledF16>,
            "value / «reduced.divisor»" => "1.0";
        reduced_windows_are_written_that_the_output_lacks, implicit_gemm_reduced::matches::<ScaledF16>,
            "if of_row >= height || «of_column >= width» {" => "of_column > width";
        reduced_slices_are_the_first_of_a_tile, implicit_gemm_reduced::matches::<ScaledF16>,
            "let z = self.first_slice() + «d * g.outputs_d»;" => "0 * d";
        reduced_rows_of_windows_are_side_by_side, implicit_gemm_reduced::matches::<ScaledF16>,
            "from = opaque::to_compiler(from + «pitch»);" => "8";
        reduced_windows_of_other_sets_have_the_filters_of_the_first, implicit_gemm_reduced::matches::<ScaledF16>,
            "(mut filter, mut to) = («window.filter», window.to);\n        let mut at" => "0 * window.filter";
        reduced_lanes_take_the_windows_of_the_first_again, implicit_gemm_reduced::matches::<ScaledF16>,
            "number = opaque::to_compiler(number + «WARP_THREADS»);\n            if" => "REDUCED_PIXELS";
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

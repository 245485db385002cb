// The planted bugs of NHWC outputs and of filters read in place; `bugs.rs` has those of other kernels.

bugs! {
    NHWC_BUGS:
    "fused/implicit_gemm/sm90/produce.rs":
        filters_in_place_behind_a_k_block_are_those_of_the_next, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "let exists = plane < «g.k_block_planes»;" => "u32::MAX";
        filters_in_place_of_all_slices_are_those_of_the_first, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "K_VECTOR_VALUES, «depth * g.taps + tap»];" => "tap";
        filters_in_place_of_all_groups_are_those_of_the_first, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "let filter = «work.group * g.conv.group_k» +" => "0";
        filters_in_place_of_all_tiles_are_those_of_the_first, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "+ «tile * WARP_SPECIALIZED.filters()»;" => "0";
        filters_in_place_of_a_batch_are_those_of_its_first_step, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "let [channel, tap] = batch.places[«i»];" => "0";
    "fused/implicit_gemm/fixup.rs":
        filters_in_place_are_dense_in_the_fix_up, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "                        «tap * conv.group_c + c»\n" => "c * conv.taps() + tap";
    "fused/implicit_gemm/sm90/consume.rs":
        filters_have_the_layout_without_a_swizzle, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "MatrixDescriptor::laid_out(first, «FILTER_LAYOUT»)" => "MatrixLayout::apart(1, EIGHT_FILTERS_UNITS)";
    "fused/implicit_gemm/sm90/pixel_rows.rs":
        nhwc_channels_that_do_not_exist_are_written, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "limits: match vector * values < «self.filters» {" => "WARP_FILTERS";
        nhwc_vectors_of_a_pixel_are_the_first, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "opaque::to_compiler(self.channel) + «vector * values»;" => "0";
        nhwc_matrices_of_the_second_pixels_are_those_of_the_first, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "at(8 * («matrix / 2») + row, matrix % 2);" => "0";
        nhwc_vectors_are_swapped_in_stores_alone, implicit_gemm_without_norm::nhwc_and_in_place::<f16>,
            "let row = Pixels::<F::Stored>::at(lane / vectors, «lane % vectors») / of_word;"
                => "(lane % vectors) ^ (lane / vectors / (8 / vectors) % vectors)";
    "norm_nhwc.rs":
        norm_nhwc_takes_moments_of_other_parts_pixels, norm_nhwc::matches::<f32>,
            "let exists = «pixel + i as u32 * g.lanes < place.end»;" => "pixel + i as u32 * g.lanes < g.pixels";
        norm_nhwc_leaves_out_the_last_lanes, norm_nhwc::matches::<f32>,
            "while «lane < end» {" => "lane + step <= end";
        norm_nhwc_gives_lanes_the_weight_of_the_first, norm_nhwc::matches::<f32>,
            "load(counts + «at(lane)»);" => "at(first)";
        norm_nhwc_adds_moments_before_they_are_there, norm_nhwc::matches::<f32>,
            "«thread::sync_threads();»\n\n    // A lane" => "";
        norm_nhwc_adds_moments_of_shares_before_they_are_there, norm_nhwc::matches::<f32>,
            "«thread::sync_threads();»\n        if place.lane < of_share" => "";
        norm_nhwc_takes_parameters_before_they_are_there, norm_nhwc::matches::<f32>,
            "«thread::sync_threads();»\n    if !place.takes_part {" => "";
        norm_nhwc_writes_moments_of_samples_in_one_place, norm_nhwc::matches::<f32>,
            "(plane * g.parts as usize + «place.part as usize») * COUNTED" => "0";
        norm_nhwc_takes_rows_of_the_first_channel, norm_nhwc::matches::<f32>,
            "div_rem(«channel», g.norm.row_channels)" => "place.block_channel";
        norm_nhwc_takes_rows_of_the_first_sample, norm_nhwc::matches::<f32>,
            "let row = «place.sample as u64 * g.groups as u64»;" => "0";
        norm_nhwc_takes_running_statistics_of_the_first_channel, norm_nhwc::of_running_statistics::<f32>,
            "running.folded::<T>(«channel as usize»)" => "0";
        norm_nhwc_adds_the_residual_of_the_first_pixel, norm_nhwc::matches::<f32>,
            "load(residual, pixel, «at», ahead)" => "place.element(g, place.first)";
        norm_nhwc_has_channels_behind_the_last, norm_nhwc::matches::<f32>,
            "lane < g.lanes && «channel < g.norm.channels»," => "true";
    "reduction_nhwc.rs":
        reduction_nhwc_takes_pixels_behind_the_last, reduction_nhwc::matches::<f32>,
            "let is_pixel = «pixel + (i as u32) * g.lanes < end»;" => "true";
        reduction_nhwc_goes_on_behind_the_part, reduction_nhwc::matches::<f32>,
            "let end = «(first + g.part_pixels).min(g.pixels)»;" => "g.pixels";
        reduction_nhwc_leaves_out_the_last_lanes, reduction_nhwc::matches::<f32>,
            "while «lane < g.lanes» {" => "lane + LOADS <= g.lanes";
        reduction_nhwc_takes_lanes_before_they_are_there, reduction_nhwc::matches::<f32>,
            "shared.store_vec(thread * VECTOR_ELEMENTS as u32, all);\n    «thread::sync_threads();»" => "";
        reduction_nhwc_has_channels_behind_the_last, reduction_nhwc::matches::<f32>,
            "if thread >= block_channels || «channel >= g.channels» {" => "false";
        reduction_nhwc_writes_all_parts_to_the_first, reduction_nhwc::matches::<f32>,
            "let row = sample as usize * g.parts as usize + «part as usize»;" => "0";
        reduction_nhwc_finds_samples_in_32_bits, reduction_nhwc::far,
            "let at = «(before + of as usize) * g.channels as usize» + channel as usize;"
                => "(before as u32 + of).wrapping_mul(g.channels) as usize";
    "pool/nhwc.rs":
        columns_in_front_of_the_input_are_those_behind, pool::windows::<f32>,
            "let w = «(first.wrapping_add(i as u32) as i32).max(0) as u32»;" => "first.wrapping_add(i as u32)";
        windows_of_three_columns_have_two, pool::windows::<f32>,
            "if «s < COLUMNS» {" => "s < 2";
        maxima_of_columns_apart_are_taken_without_those_before, pool::windows::<f32>,
            "_ => with_taps(«results», &row, first, g)," => "[[T::NONE; VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD]";
        windows_with_gaps_have_none, pool::windows::<f32>,
            "let columns = «if g.dilation[2] == 1 { g.kernel[2] } else { 0 }»;" => "g.kernel[2]";
    "conv_transpose/nhwc.rs":
        vectors_of_channels_have_one_gain, conv_transpose_epilogue::matches::<f32>,
            "let of_channel = epilogue.of_channel(«k + of_item»);" => "k";
        interleaving_in_nhwc_takes_rows_beyond_the_last_of_a_phase, conv_transpose::matches::<f32>,
            "is_there && «at_row < phase.extents[0]» &&" => "at_row <= phase.extents[0]";
        interleaving_in_nhwc_takes_columns_beyond_the_last_of_a_phase, conv_transpose::matches::<f32>,
            "&& «at < phase.extents[1]» {" => "at <= phase.extents[1]";
        interleaving_in_nhwc_does_not_follow_a_phase_along_rows, conv_transpose::matches::<f32>,
            "at_row = at_row.wrapping_add(«rows.position_step»);" => "rows.step";
        outputs_without_taps_have_the_bias_of_the_first_channel_in_nhwc, conv_transpose::matches::<f32>,
            "results.bias(g, «k + of_item»);" => "of_item";
        lists_leave_vectors_as_they_were_turned, conv_transpose_epilogue::matches::<f32>,
            "else if «channels == VECTOR_ELEMENTS as u32» {\n                [[b, c, d, a]" => "false";
        groups_of_nhwc_results_have_the_phases_of_the_first, conv_transpose::matches::<f32>,
            "(«u64::from(group) * phases» + u64::from(phase))" => "u64::from(group)";
    "conv/nhwc.rs":
        few_filters_are_those_of_dense_ones, conv_nhwc::matches::<f16>,
            "channel * of_channel + «tap * of_tap»;" => "tap";
        few_filters_are_multiplied_before_they_are_there, conv_nhwc::matches::<f16>,
            "staged);\n    «thread::sync_threads();»" => "";
        pixels_of_few_filters_are_of_the_first_sample, conv_nhwc::matches::<f16>,
            "samples[i] = «sample as usize * of_sample»;" => "0";
        few_filters_take_padding_for_input, conv_nhwc::matches::<f16>,
            "if «inside[i]» {" => "true";
        taps_of_few_filters_are_those_of_the_first_row, conv_nhwc::matches::<f16>,
            "let tap = («row * conv.s» + s) * conv.group_c;" => "0";
        zeros_of_few_filters_meet_no_infinity, conv_nhwc::matches::<f16>,
            "sums[i][k] = «math::fma(values[i][of_half + c], weights[c], sums[i][k])»;"
                => "if values[i][of_half + c] == 0.0 { sums[i][k] } else { math::fma(values[i][of_half + c], weights[c], sums[i][k]) }";
        pixels_behind_the_last_are_written, conv_nhwc::matches::<f16>,
            "if «pixel(i) < g.pixels()» {" => "true";
}

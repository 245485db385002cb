// The planted bugs of warp-specialized kernels on channels-last halo tiles, with inputs read in place or
// reformatted; `bugs.rs` has those of other kernels.

bugs! {
    CHANNELS_LAST_BUGS:
    "fused/implicit_gemm/sm90/nhwc_tile.rs":
        nhwc_halo_is_overwritten_in_use, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "pipeline.empty(state.stage).wait(«state.parity ^ 1»);" => "1";
        nhwc_boxes_are_expected_of_one_box, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let bytes = «own» * g.staged_tiles.bytes;" => "1";
        nhwc_boxes_are_expected_of_a_warp_that_has_fewer, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "div_rem(«g.staged_tiles.of_k_block + step - 1 - first», step)"
                => "g.staged_tiles.of_k_block + step - 1";
        nhwc_tiles_of_all_planes_are_those_of_the_first, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let channel = «span_of_k_block» * (K_VECTOR_VALUES" => "0";
        nhwc_tiles_of_all_planes_go_to_those_of_the_first, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let line = «span_of_k_block * g.halo_k_vectors»" => "0";
        nhwc_tiles_of_groups_are_those_of_the_first, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let channel = («work.group * g.planes» + first_plane)" => "0";
        nhwc_tiles_of_a_slice_of_the_filter_are_the_first_ones, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "(place.z * g.slice_stride() + «filter_slice * conv.dilation_d») as i32" => "0";
        nhwc_tiles_start_behind_the_padding, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "as i32 - «conv.pad_w as i32»;" => "0";
        nhwc_tiles_of_all_strips_are_the_first_ones, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let w = «strip * OCTET_PIXELS * conv.stride_w»" => "0";
        nhwc_tiles_of_all_stride_phases_of_a_column_are_the_first_ones, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            " + «stride_phase»;\n        let [of_box" => "0";
        nhwc_tiles_of_all_stride_phases_of_a_row_are_the_first_ones, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let h = row * conv.stride_h + «row_stride_phase»;" => "0";
        nhwc_tiles_have_slices_and_rows_in_one_order, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "    if «g.strips == 0» {\n        [rows, slices]" => "false";
        conversion_has_all_staged_tiles_of_a_box_in_one_place, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "+ «(third * second_extent + second) * columns»;" => "0";
        conversion_has_all_staged_tiles_of_a_box_from_one_place, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "of_box + «second * second_step»," => "0";
        conversion_goes_beyond_the_box, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "* third_lines.min(«third_extent - third»);" => "third_lines";
    "fused/implicit_gemm/tables.rs":
        nhwc_tiles_of_a_tap_are_those_of_a_halo_of_planes, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "        if «has_nhwc_tile::<F>(g, tile)» {\n            let [rows, slices]" => "false";
        nhwc_tiles_have_all_planes_where_the_first_one_is, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "(in_halo << shift) + «of_line»" => "0";
        k_blocks_of_a_slice_have_the_first_ones_planes, implicit_gemm::warp_specialized::<f16>,
            "let plane = group * g.slice_planes + «(of_group & shift) * g.k_block_planes»;" => "0";
    "fused/implicit_gemm/sm90/prepare.rs":
        nhwc_tiles_leave_the_end_behind_boxes_uninitialised, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let lines = «staged_tiles * of_each» + g.halo_k_vectors - all;" => "0";
    "fused/implicit_gemm/sm90/format.rs":
        odd_octets_are_those_of_even_ones, implicit_gemm::warp_specialized::<f16>,
            "let odd = $pixels.offset(«$second»);" => "0";
    "fused/implicit_gemm/reformat.rs":
        nhwc_tiles_are_reformatted_without_regard_to_planes_of_others, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let of_pixel = («2 * pair» + odd) as usize;" => "0";
        nhwc_tiles_of_two_lanes_are_written_in_one_place, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "reformatted.store_vec(at(«of_even + 2»), second);" => "of_even";
        nhwc_tiles_have_halves_of_two_pixels, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            "let given = if «odd == 0» { words[4 + i] }" => "odd != 0";
    "fused/implicit_gemm/fixup.rs":
        channels_last_results_are_computed_again_from_a_dense_input, implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
            r#"let is_channels_last = WARP_SPECIALIZED
        && «opaque::to_compiler(g.k_vectors.loader.code()) == Loader::CHANNELS_LAST.code()»;"#
                => "false";
    "fused/implicit_gemm/sm90/staged_f32.rs":
        conversion_overwrites_a_halo_in_use, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "pipeline.empty(halo.stage).wait(«halo.parity ^ 1»);" => "1";
        conversion_does_not_wait_for_its_staged_tile, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "memory.staged_full(stage).wait(«parity»);" => "parity ^ 1";
        conversion_takes_the_optimistic_scale_for_all_samples, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "let scale = «reciprocal(scales.descale(place.sample))»;" => "512.0";
        conversion_counts_infinities_among_magnitudes, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "if «magnitude(largest) == bits» {" => "true";
        conversion_records_the_magnitudes_of_one_warp, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            ".store(«warp as usize», largest);" => "0";
        conversion_leaves_exchanges_out, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "if i % 2 == 0 { 0 } else { «self.exchanged» };" => "0";
        conversion_hides_its_stores_from_the_products, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«async_proxy::fence_shared()»;" => "()";
        conversion_says_that_it_is_done_before_all_lanes_are, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«warp::sync_warp(warp::ALL_LANES)»;" => "()";
    "fused/implicit_gemm/sm90/consume.rs":
        conversion_overwrites_operands_in_use, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«F::settle(&sums)»;" => "()";
    "fused/implicit_gemm/sm90/scales.rs":
        conversion_undoes_the_optimistic_scale_of_all_samples, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "            «self.descales.load_readonly(sample as usize)»\n        } else {" => "OPTIMISTIC_DESCALE";
        conversion_is_never_done_again, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«!warp::warp_vote_any(warp::ALL_LANES, others)»" => "true";
        conversion_records_the_magnitudes_of_one_block, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«thread::block_idx_x() - work.first_work_tile * (recorded / HALO_WARPS)»;" => "0";
    "fused/implicit_gemm/sm90/dense_f32.rs":
        dense_tiles_have_the_rows_of_the_first, implicit_gemm_channels_last::dense_has_same_bits,
            "store_vec(entry, [0, «row», d," => "0";
        dense_tiles_have_the_channels_of_the_first_plane, implicit_gemm_channels_last::dense_has_same_bits,
            "«plane * g.k_vector_channels»]);" => "0";
        dense_tiles_are_in_the_place_of_the_first_plane, implicit_gemm_channels_last::dense_has_same_bits,
            "let k_vector = «plane * g.halo_k_vectors»" => "0";
        dense_tiles_go_beyond_the_slice, implicit_gemm_channels_last::dense_has_same_bits,
            "let k_vectors = «rows.min(g.slice_rows() - row)» * of_slice_row;" => "rows";
        dense_strips_have_the_same_columns, implicit_gemm_channels_last::dense_has_same_bits,
            "let column = («strip * OCTET_PIXELS + column»)" => "column";
        dense_columns_ignore_the_stride_phase, implicit_gemm_channels_last::dense_has_same_bits,
            "* g.conv.stride_w + «stride_phase»;" => "0";
        dense_k_vectors_hold_one_column, implicit_gemm_channels_last::dense_has_same_bits,
            "+ «column * g.conv.dilation_w»;" => "0";
        dense_groups_read_the_channels_of_the_first, implicit_gemm_channels_last::dense_has_same_bits,
            "let channel = «work.group * conv.group_c» + first_plane" => "0";
        dense_largest_magnitudes_are_not_found, implicit_gemm_channels_last::dense_has_same_bits,
            "largest = «largest.max(math::abs(low)).max(math::abs(high))»;" => "largest";
    "fused/implicit_gemm/sm90/results.rs":
        dense_nan_is_left_to_a_launch_that_does_not_come, implicit_gemm_channels_last::dense_has_same_bits,
            "«self.output.scales.are_exceeded(&work, work_tile)»" => "true";
    "fused/implicit_gemm/sm90/memory.rs":
        tiles_have_the_coordinates_of_any_other, implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
            "«(number & (TILE_COORDS - 1)) * TILE_COORD_WORDS»" => "0";
}

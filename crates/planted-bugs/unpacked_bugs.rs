// The mistakes of wide tiles on patches of lines, of inputs that are cells as they lie or packed likewise, as `bugs.rs` has those of all else.

bugs! {
    UNPACKED_BUGS:
    {
        name: lines_patch_is_overwritten_in_use,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "ring.free(turn.slot).wait(«turn.parity ^ 1»);",
        wrong: "1",
    }
    {
        name: lines_are_expected_of_one_box,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let bytes = «own» * g.pieces.bytes;",
        wrong: "1",
    }
    {
        name: lines_are_expected_of_a_warp_that_has_fewer,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "div_rem(«g.pieces.of_stage + step - 1 - first», step)",
        wrong: "g.pieces.of_stage + step - 1",
    }
    {
        name: lines_of_all_planes_are_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let channel = «line_of_stage» * (CELL_VALUES",
        wrong: "0",
    }
    {
        name: lines_of_all_planes_go_to_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let line = «line_of_stage * g.patch_cells»",
        wrong: "0",
    }
    {
        name: lines_of_groups_are_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let channel = («work.group * g.planes» + first_plane)",
        wrong: "0",
    }
    {
        name: lines_of_a_slice_of_the_filter_are_the_first_ones,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "(place.z * g.slice_stride() + «filter_slice * conv.dilation_d») as i32",
        wrong: "0",
    }
    {
        name: lines_start_behind_the_padding,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "as i32 - «conv.pad_w as i32»;",
        wrong: "0",
    }
    {
        name: lines_of_all_strips_are_the_first_ones,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let w = «strip * OCTET_PIXELS * conv.stride_w»",
        wrong: "0",
    }
    {
        name: lines_of_all_residues_of_a_column_are_the_first_ones,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: " + «residue»;\n        let [of_box",
        wrong: "0",
    }
    {
        name: lines_of_all_residues_of_a_row_are_the_first_ones,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let h = row * conv.stride_h + «row_residue»;",
        wrong: "0",
    }
    {
        name: lines_have_slices_and_rows_in_one_order,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "    if «g.strips == 0» {\n        [rows, slices]",
        wrong: "false",
    }
    {
        name: lines_of_a_tap_are_those_of_a_patch_of_planes,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "        if «has_lines::<F>(g, tile)» {\n            let [rows, slices]",
        wrong: "false",
    }
    {
        name: lines_have_all_planes_where_the_first_one_is,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "(in_patch << shift) + «of_line»",
        wrong: "0",
    }
    {
        name: lines_leave_what_is_behind_boxes_to_chance,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/memory.rs",
        right: "let lines = «pieces * of_each» + g.patch_cells - all;",
        wrong: "0",
    }
    {
        name: odd_octets_are_those_of_even_ones,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/format.rs",
        right: "let odd = $pixels.offset(«$second»);",
        wrong: "0",
    }
    {
        name: lines_are_packed_without_regard_to_planes_of_others,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/pack.rs",
        right: "let of_pixel = («2 * pair» + odd) as usize;",
        wrong: "0",
    }
    {
        name: lines_of_two_lanes_are_written_in_one_place,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/pack.rs",
        right: "packed.store_vec(at(«of_even + 2»), second);",
        wrong: "of_even",
    }
    {
        name: lines_have_halves_of_two_pixels,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/pack.rs",
        right: "let given = if «odd == 0» { words[4 + i] }",
        wrong: "odd != 0",
    }
    {
        name: stages_of_a_slice_have_the_first_ones_planes,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let plane = group * g.slice_planes + «(of_group & shift) * g.stage_planes»;",
        wrong: "0",
    }
    {
        name: unpacked_results_are_computed_again_from_a_dense_input,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/again.rs",
        right: "let is_unpacked = WIDE && «opaque::to_compiler(g.cells.is_unpacked) != 0»;",
        wrong: "false",
    }
    {
        name: rounding_overwrites_a_patch_in_use,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "ring.free(patch.slot).wait(«patch.parity ^ 1»);",
        wrong: "1",
    }
    {
        name: rounding_does_not_wait_for_its_piece,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "memory.has_come(slot).wait(«parity»);",
        wrong: "parity ^ 1",
    }
    {
        name: rounding_takes_the_usual_scale_for_all_samples,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "let scale = «reciprocal(scales.descale(sample))»;",
        wrong: "512.0",
    }
    {
        name: rounding_undoes_the_usual_scale_of_all_samples,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "            «self.descales.load_readonly(sample as usize)»\n        } else {",
        wrong: "USUAL_DESCALE",
    }
    {
        name: rounding_is_never_done_again,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "«!warp::warp_vote_any(warp::ALL_LANES, others)»",
        wrong: "true",
    }
    {
        name: rounding_counts_infinities_among_magnitudes,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "if «magnitude(largest) == bits» {",
        wrong: "true",
    }
    {
        name: rounding_notes_the_magnitudes_of_one_warp,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "block * PATCH_WARPS + «warp»;",
        wrong: "0",
    }
    {
        name: rounding_notes_the_magnitudes_of_one_block,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "«thread::block_idx_x() - work.first_item * (noted / PATCH_WARPS)»;",
        wrong: "0",
    }
    {
        name: rounding_leaves_exchanges_out,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "if i % 2 == 0 { 0 } else { «self.exchanged» };",
        wrong: "0",
    }
    {
        name: rounding_hides_its_stores_from_the_products,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "«async_proxy::fence_shared()»;",
        wrong: "()",
    }
    {
        name: rounding_says_that_it_is_done_before_all_lanes_are,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/pieces.rs",
        right: "«warp::sync_warp(warp::ALL_LANES)»;",
        wrong: "()",
    }
    {
        name: rounding_has_all_pieces_of_a_box_in_one_place,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "+ «(third * second_extent + second) * columns»;",
        wrong: "0",
    }
    {
        name: rounding_has_all_pieces_of_a_box_from_one_place,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "of_box + «second * second_step»,",
        wrong: "0",
    }
    {
        name: rounding_goes_beyond_the_box,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "* third_lines.min(«third_extent - third»);",
        wrong: "third_lines",
    }
    {
        name: rounding_overwrites_what_products_read,
        check: implicit_gemm_unpacked::same_bits_as_packed::<Rounded>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "«F::settle(&sums)»;",
        wrong: "()",
    }
}

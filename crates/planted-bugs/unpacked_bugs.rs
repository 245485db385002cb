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
        name: lines_are_expected_of_one_plane,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "«g.stage_planes» * CELL_BYTES;",
        wrong: "1",
    }
    {
        name: lines_of_gaps_are_expected,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "own_boxes * «g.box_used()»",
        wrong: "g.box_lines()",
    }
    {
        name: lines_of_all_planes_are_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let channel = (first_channel + «plane * CELL_VALUES») as i32;",
        wrong: "0",
    }
    {
        name: lines_of_all_planes_go_to_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "to_planes += «g.patch_cells * line_words»;",
        wrong: "0",
    }
    {
        name: lines_of_groups_are_those_of_the_first,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/lines.rs",
        right: "let first_channel = («work.group * g.planes» + first_plane)",
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
        right: " + «residue»;\n        sources",
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
        right: "    if «g.strips == 0» {\n        [channel, w, h, d, sample]",
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
        file: "fused/implicit_gemm/wide/mod.rs",
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
}

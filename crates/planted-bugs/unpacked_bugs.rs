// The mistakes of wide tiles on inputs that are cells as they lie, as `bugs.rs` has those of all else.

bugs! {
    UNPACKED_BUGS:
    {
        name: unpacked_padding_is_read_from_memory,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "let is_there = «source != NOWHERE»;",
        wrong: "true",
    }
    {
        name: unpacked_patch_is_overwritten_in_use,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "memory.patches().free(turn.slot).wait(«turn.parity ^ 1»);",
        wrong: "1",
    }
    {
        name: unpacked_cells_behind_the_last_are_looked_up,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "let of_patch = (cell + i as u32 * lanes_cells).min(«cells - 1»);",
        wrong: "u32::MAX",
    }
    {
        name: unpacked_patches_in_the_padding_alone_have_a_cell,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "first[axis] = if «end == 0» {",
        wrong: "false",
    }
    {
        name: unpacked_planes_go_on_beyond_the_last,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "let plane = first_of_group + «(first_plane + local).min(g.planes - 1)»;",
        wrong: "(first_plane + local)",
    }
    {
        name: unpacked_groups_have_the_first_ones_planes,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "let first_of_group = «work.group * g.planes»;",
        wrong: "0",
    }
    {
        name: unpacked_slices_of_the_filter_read_the_same,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "place.z * g.slice_stride() + «filter_slice * conv.dilation_d»,",
        wrong: "0",
    }
    {
        name: unpacked_planes_side_by_side_are_not_swizzled,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "«wgmma::swizzled(target)»",
        wrong: "target",
    }
    {
        name: unpacked_planes_side_by_side_are_exchanged,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/unpacked.rs",
        right: "let (plane, of_pair) = (local >> joined, «local & joined»);",
        wrong: "(joined - (local & joined))",
    }
    {
        name: unpacked_taps_are_as_far_apart_as_in_packed_planes,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "2 * plane * of_plane + («in_patch << joined::<F>(g, tile)»)",
        wrong: "in_patch",
    }
    {
        name: unpacked_octets_are_as_far_apart_as_in_packed_planes,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "MatrixLayout::swizzled(«octet_units»)",
        wrong: "g.octet_cells",
    }
    {
        name: unpacked_cells_behind_the_patch_are_left_to_chance,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/wide/mod.rs",
        right: "let behind = («g.patch_cells - brought») << joined;",
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

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
        name: unpacked_results_are_computed_again_from_a_dense_input,
        check: implicit_gemm_unpacked::same_bits_as_packed::<f16>,
        file: "fused/implicit_gemm/again.rs",
        right: "let is_unpacked = WIDE && «opaque::to_compiler(g.cells.is_unpacked) != 0»;",
        wrong: "false",
    }
}

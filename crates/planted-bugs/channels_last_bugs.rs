// The mistakes of warp-specialized tiles on channels-last halo tiles, of inputs read in place or reformatted;
// `bugs.rs` has those of other kernels.

bugs! {
    CHANNELS_LAST_BUGS:
    {
        name: nhwc_halo_is_overwritten_in_use,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "pipeline.empty(state.stage).wait(«state.parity ^ 1»);",
        wrong: "1",
    }
    {
        name: nhwc_boxes_are_expected_of_one_box,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let bytes = «own» * g.staged_tiles.bytes;",
        wrong: "1",
    }
    {
        name: nhwc_boxes_are_expected_of_a_warp_that_has_fewer,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "div_rem(«g.staged_tiles.of_k_block + step - 1 - first», step)",
        wrong: "g.staged_tiles.of_k_block + step - 1",
    }
    {
        name: nhwc_tiles_of_all_planes_are_those_of_the_first,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let channel = «span_of_k_block» * (K_VECTOR_VALUES",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_all_planes_go_to_those_of_the_first,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let line = «span_of_k_block * g.halo_k_vectors»",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_groups_are_those_of_the_first,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let channel = («work.group * g.planes» + first_plane)",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_a_slice_of_the_filter_are_the_first_ones,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "(place.z * g.slice_stride() + «filter_slice * conv.dilation_d») as i32",
        wrong: "0",
    }
    {
        name: nhwc_tiles_start_behind_the_padding,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "as i32 - «conv.pad_w as i32»;",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_all_strips_are_the_first_ones,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let w = «strip * OCTET_PIXELS * conv.stride_w»",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_all_stride_phases_of_a_column_are_the_first_ones,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: " + «stride_phase»;\n        let [of_box",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_all_stride_phases_of_a_row_are_the_first_ones,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "let h = row * conv.stride_h + «row_stride_phase»;",
        wrong: "0",
    }
    {
        name: nhwc_tiles_have_slices_and_rows_in_one_order,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "    if «g.strips == 0» {\n        [rows, slices]",
        wrong: "false",
    }
    {
        name: nhwc_tiles_of_a_tap_are_those_of_a_halo_of_planes,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "        if «has_nhwc_tile::<F>(g, tile)» {\n            let [rows, slices]",
        wrong: "false",
    }
    {
        name: nhwc_tiles_have_all_planes_where_the_first_one_is,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "(in_halo << shift) + «of_line»",
        wrong: "0",
    }
    {
        name: nhwc_tiles_leave_the_end_behind_boxes_uninitialised,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/sm90/memory.rs",
        right: "let lines = «staged_tiles * of_each» + g.halo_k_vectors - all;",
        wrong: "0",
    }
    {
        name: odd_octets_are_those_of_even_ones,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/format.rs",
        right: "let odd = $pixels.offset(«$second»);",
        wrong: "0",
    }
    {
        name: nhwc_tiles_are_reformatted_without_regard_to_planes_of_others,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "let of_pixel = («2 * pair» + odd) as usize;",
        wrong: "0",
    }
    {
        name: nhwc_tiles_of_two_lanes_are_written_in_one_place,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "reformatted.store_vec(at(«of_even + 2»), second);",
        wrong: "of_even",
    }
    {
        name: nhwc_tiles_have_halves_of_two_pixels,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "let given = if «odd == 0» { words[4 + i] }",
        wrong: "odd != 0",
    }
    {
        name: k_blocks_of_a_slice_have_the_first_ones_planes,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/tables.rs",
        right: "let plane = group * g.slice_planes + «(of_group & shift) * g.k_block_planes»;",
        wrong: "0",
    }
    {
        name: channels_last_results_are_computed_again_from_a_dense_input,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<f16>,
        file: "fused/implicit_gemm/fixup.rs",
        right: r#"let is_channels_last =
        WARP_SPECIALIZED && «opaque::to_compiler(g.k_vectors.is_channels_last) != 0»;"#,
        wrong: "false",
    }
    {
        name: conversion_overwrites_a_halo_in_use,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "pipeline.empty(halo.stage).wait(«halo.parity ^ 1»);",
        wrong: "1",
    }
    {
        name: conversion_does_not_wait_for_its_staged_tile,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "memory.staged_full(stage).wait(«parity»);",
        wrong: "parity ^ 1",
    }
    {
        name: conversion_takes_the_optimistic_scale_for_all_samples,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "let scale = «reciprocal(scales.descale(sample))»;",
        wrong: "512.0",
    }
    {
        name: conversion_undoes_the_optimistic_scale_of_all_samples,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "            «self.descales.load_readonly(sample as usize)»\n        } else {",
        wrong: "OPTIMISTIC_DESCALE",
    }
    {
        name: conversion_is_never_done_again,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "«!warp::warp_vote_any(warp::ALL_LANES, others)»",
        wrong: "true",
    }
    {
        name: conversion_counts_infinities_among_magnitudes,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "if «magnitude(largest) == bits» {",
        wrong: "true",
    }
    {
        name: conversion_records_the_magnitudes_of_one_warp,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "block * HALO_WARPS + «warp»;",
        wrong: "0",
    }
    {
        name: conversion_records_the_magnitudes_of_one_block,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "«thread::block_idx_x() - work.first_work_tile * (recorded / HALO_WARPS)»;",
        wrong: "0",
    }
    {
        name: conversion_leaves_exchanges_out,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "if i % 2 == 0 { 0 } else { «self.exchanged» };",
        wrong: "0",
    }
    {
        name: conversion_hides_its_stores_from_the_products,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "«async_proxy::fence_shared()»;",
        wrong: "()",
    }
    {
        name: conversion_says_that_it_is_done_before_all_lanes_are,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/staged_f32.rs",
        right: "«warp::sync_warp(warp::ALL_LANES)»;",
        wrong: "()",
    }
    {
        name: conversion_has_all_staged_tiles_of_a_box_in_one_place,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "+ «(third * second_extent + second) * columns»;",
        wrong: "0",
    }
    {
        name: conversion_has_all_staged_tiles_of_a_box_from_one_place,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "of_box + «second * second_step»,",
        wrong: "0",
    }
    {
        name: conversion_goes_beyond_the_box,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/nhwc_tile.rs",
        right: "* third_lines.min(«third_extent - third»);",
        wrong: "third_lines",
    }
    {
        name: conversion_overwrites_operands_in_use,
        check: implicit_gemm_channels_last::same_bits_as_reformatted::<ScaledF16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "«F::settle(&sums)»;",
        wrong: "()",
    }
}

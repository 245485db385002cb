// The mistakes of NHWC outputs and of filters that are read in place; `bugs.rs` has those of other kernels.

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
}

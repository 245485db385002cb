// The planted bugs about hardware rules: registers, missing barrier fences, `wgmma` without a wait, and
// 32-bit indices into larger tensors. `bugs.rs` has the others.

bugs! {
    HARDWARE_BUGS:
    "fused/implicit_gemm/sm90/mod.rs":
        registers_are_taken_that_nobody_gives_back, implicit_gemm::warp_specialized::<f16>,
            "        «registers::decrease::<PRODUCER_REGISTERS>();»\n" => "";
        more_registers_are_taken_than_there_are, implicit_gemm::warp_specialized::<f16>,
            "    «registers::increase::<CONSUMER_REGISTERS>();»\n" => "registers::increase::<232>();";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/mod.rs":
        registers_are_given_back_by_one_warp, conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
            "        «F::give_registers();»\n" => "if thread / WARP_THREADS == 0 { F::give_registers(); }";
        barriers_of_a_cluster_are_not_shown_to_other_blocks, conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
            "        «cluster::fence_barriers();»\n" => "";
    "fused/implicit_gemm/sm90/cluster_reduce.rs":
        barriers_of_a_split_are_not_shown_to_other_blocks, implicit_gemm::split::<f16>,
            "        «cluster::fence_barriers();»\n" => "";
    "fused/implicit_gemm/sm90/format.rs":
        last_batch_is_not_waited_for, implicit_gemm::warp_specialized::<f16>,
            "                «sums.wait::<0>()»\n" => "sums.wait::<1>()";
    "parts/elementwise.rs":
        blocks_are_counted_in_32_bits, far::elementwise,
            "    «thread::block_idx_x() as u64 * BLOCK_ELEMENTS as u64»\n"
                => "thread::block_idx_x().wrapping_mul(BLOCK_ELEMENTS as u32) as u64";
    "fused/group_norm_scale_pointwise.rs":
        normalised_elements_are_counted_in_32_bits, far::elementwise,
            "    let y = GlobalMut::new(y, g.elements as usize).slice(«start as usize», left as usize);"
                => "start as u32 as usize";
    "group_norm.rs":
        short_rows_start_in_32_bits, far_norms::statistics::<f32>,
            "        let start = «row.min(g.rows) * g.row_elements»;"
                => "(row.min(g.rows) * g.row_elements) as u32 as u64";
        rows_start_in_32_bits, far_norms::statistics::<f32>,
            "        let row_start = «row as u64 * g.row_elements»;"
                => "(row as u64 * g.row_elements) as u32 as u64";
    "fused/group_norm_scale_resident.rs":
        resident_rows_start_in_32_bits, far_norms::resident::<f32>,
            "    let start = «thread::block_idx_x() as usize * g.row_elements as usize»;"
                => "thread::block_idx_x().wrapping_mul(g.row_elements as u32) as usize";
    "conv/pad.rs":
        planes_inside_a_pad_start_in_32_bits, far::moved,
            "x.load(«plane * inner» + " => "(plane as u32).wrapping_mul(inner as u32) as usize";
    "copy_strided.rs":
        strided_memory_is_counted_in_32_bits, far::moved,
            "                values[n] = x.load(«(source as i64 + walk.global) as usize»);"
                => "(source as i64 + walk.global) as u32 as usize";
    "parts/pool.rs":
        pooled_planes_start_in_32_bits, far_pools::images,
            "        plane: «(segments.first as usize + plane as usize) * plane_elements»,"
                => "(segments.first as u32 + plane).wrapping_mul(plane_elements as u32) as usize";
        pooled_outputs_start_in_32_bits, far_pools::images,
            "        let plane = «(segments.first as usize + plane as usize) * plane_outputs»;"
                => "(segments.first as u32 + plane).wrapping_mul(plane_outputs as u32) as usize";
    "pool.rs":
        pooled_volumes_start_in_32_bits, far_pools::volumes,
            "            plane: «(segments.first as usize + plane as usize) * plane_elements»,"
                => "(segments.first as u32 + plane).wrapping_mul(plane_elements as u32) as usize";
    "pool/overlapping.rs":
        planes_of_lines_start_in_32_bits, far_pools::overlapping,
            "        x: x.slice(«plane * plane_elements», plane_elements),"
                => "(plane as u32).wrapping_mul(plane_elements as u32) as usize";
        lines_start_in_32_bits, far_pools::overlapping,
            "at[i] = «row as usize * g.input[2] as usize» + column;"
                => "row.wrapping_mul(g.input[2]) as usize";
    "pool/rows.rs":
        rows_of_segments_start_in_32_bits, far_pools::overlapping,
            "x.wrapping_add(«row as usize * columns as usize»)" => "row.wrapping_mul(columns) as usize";
    "parts/series.rs":
        series_start_in_32_bits, softmax::far,
            "let first = «outer * g.count as u64 * inner as u64 + position»;"
                => "(outer * g.count as u64 * inner as u64 + position) as u32 as u64";
    "reduction.rs":
        rows_start_in_32_bits, far_pools::rows,
            "        let first = «(row * g.elements + before) as usize»;"
                => "(row * g.elements + before) as u32 as usize";
    "parts/channel_reduce.rs":
        channels_start_in_32_bits, far_pools::channels,
            "        let plane = «(sample as usize * g.channels as usize + first as usize) * spatial»;"
                => "(sample * g.channels + first).wrapping_mul(spatial as u32) as usize";
        maxima_start_in_32_bits, far_pools::channels,
            "        plane: «sample as usize * spatial»,"
                => "sample.wrapping_mul(spatial as u32) as usize";
    "conv/direct.rs":
        convolved_planes_start_in_32_bits, far_products::on_cores,
            "                    let plane = «(first_plane + channel as usize) * input_pixels»;"
                => "(first_plane as u32 + channel).wrapping_mul(input_pixels as u32) as usize";
        convolutions_are_written_in_32_bits, far_products::on_cores,
            "                    let plane = «(tile.sample * filters + filter) * output_pixels as usize»;"
                => "((tile.sample * filters + filter) as u32).wrapping_mul(output_pixels) as usize";
    "fused/depthwise/mod.rs":
        stencils_are_written_in_32_bits, far_products::depthwise,
            "GlobalMut::new(y, planes * outputs).slice(«plane * outputs», outputs);"
                => "(plane as u32).wrapping_mul(outputs as u32) as usize";
        depthwise_is_read_in_32_bits, far_products::depthwise,
            "Global::new(x, planes * inputs).slice(«plane * inputs», inputs);"
                => "(plane as u32).wrapping_mul(inputs as u32) as usize";
    "parts/nhwc.rs":
        nhwc_rows_are_found_in_32_bits, far_products_nhwc::depthwise,
            "[«row * elements» + channel, " => "(row as u32).wrapping_mul(elements as u32) as usize";
    "fused/depthwise/rolling.rs":
        rolling_reads_in_32_bits, far_products_nhwc::depthwise,
            "let offset = «pixel.wrapping_mul(conv.groups as usize)»;"
                => "(pixel as u32).wrapping_mul(conv.groups) as usize";
        rolling_writes_in_32_bits, far_products_nhwc::depthwise,
            "        «pixel * conv.groups as usize» + self.channel as usize"
                => "(pixel as u32).wrapping_mul(conv.groups) as usize";
    "conv/nhwc.rs":
        pixels_of_few_filters_are_found_in_32_bits, far_products_nhwc::few_filters,
            "under[i] = «(samples[i] + element.unwrap_or(0) as usize) * channels»;"
                => "(samples[i] as u32 + element.unwrap_or(0)).wrapping_mul(channels as u32) as usize";
    "fused/gemm/sm90/pad_channels.rs":
        pixels_of_few_channels_are_found_in_32_bits, far_products_nhwc::gemm,
            "x.load_readonly(«start + of_slice as usize»);"
                => "(start as u32).wrapping_add(of_slice) as usize";
    "norm_nhwc.rs":
        pixels_of_nhwc_norms_are_found_in_32_bits, far_norms::channels_last::<f16>,
            "        «pixel * g.norm.channels as usize» + self"
                => "(pixel as u32).wrapping_mul(g.norm.channels) as usize";
    "fused/implicit_gemm/reformat.rs":
        k_vectors_are_reformatted_from_32_bits, far_products::warp_specialized::<f16>,
            "            .slice(«first_plane * plane_elements», channels * plane_elements);"
                => "(first_plane * plane_elements) as u32 as usize";
        k_vectors_are_reformatted_to_32_bits, far_products::warp_specialized::<f16>,
            "            let at = «first_k_vector + k_vector as usize»;"
                => "(first_k_vector + k_vector as usize) as u32 as usize";
    "fused/implicit_gemm/sm90/produce.rs":
        halos_of_warp_specialized_tiles_start_in_32_bits, far_products::warp_specialized::<f16>,
            "        let mut from = «part * plane_words» + first;"
                => "(part as u32).wrapping_mul(plane_words as u32) as usize";
    "fused/implicit_gemm/sm90/rows.rs":
        warp_specialized_tiles_are_written_in_32_bits, far_products::warp_specialized::<f16>,
            "let to = «self.plane(filter) * spatial as usize + position as usize»;"
                => "(self.plane(filter) as u32).wrapping_mul(spatial).wrapping_add(position) as usize";
    "fused/implicit_gemm/halo.rs":
        halos_start_in_32_bits, far_products::narrow::<F16x2>,
            "        let from = «part * plane_k_vectors» + first as usize;"
                => "(part as u32).wrapping_mul(plane_k_vectors as u32) as usize";
    "fused/implicit_gemm/results/rows.rs":
        tiles_are_written_in_32_bits, far_products::narrow::<F16x2>,
            "        let mut plane = «(self.first_plane(place, filters) + warp as usize) * spatial»;"
                => "((self.first_plane(place, filters) + warp as usize) as u32).wrapping_mul(spatial as u32) as usize";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs":
        samples_start_in_32_bits, conv2d_group_norm_scale_max_pool_clamp::far::<f16>,
            "            let at = «next.sample as usize * IN_CHANNELS as usize * plane» + in_plane as usize;"
                => "next.sample.wrapping_mul(IN_CHANNELS as u32 * plane as u32) as usize";
    "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs":
        samples_are_written_in_32_bits, conv2d_group_norm_scale_max_pool_clamp::far::<f16>,
            "        let to = «(sample as usize * OUT_CHANNELS as usize + k as usize) * of_channel» + first;"
                => "((sample as usize * OUT_CHANNELS as usize + k as usize) * of_channel) as u32 as usize";
    "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/mod.rs":
        volumes_start_in_32_bits, conv3d_multiply_instance_norm_clamp_multiply_max::far::<F16x2>,
            "Global::new(x, g.input_elements()).slice(«sample * g.sample_elements()», g.sample_elements());"
                => "(sample * g.sample_elements()) as u32 as usize";
    "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/warpgroup/mod.rs":
        volumes_of_warpgroups_are_written_in_32_bits, conv3d_multiply_instance_norm_clamp_multiply_max::far_on_warpgroups::<f16>,
            "        .slice(«sample * out_words», out_words);" => "(sample * out_words) as u32 as usize";
}

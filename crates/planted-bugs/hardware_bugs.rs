// Mistakes about the hardware's rules: registers, missing fences of barriers, `wgmma` that nobody waits for,
// and indices in 32 bits of tensors that need more. `bugs.rs` has the others.

bugs! {
    HARDWARE_BUGS:
    {
        name: registers_are_taken_that_nobody_gives_back,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/mod.rs",
        right: "        «registers::decrease::<PRODUCER_REGISTERS>();»\n",
        wrong: "",
    }
    {
        name: more_registers_are_taken_than_there_are,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/mod.rs",
        right: "    «registers::increase::<CONSUMER_REGISTERS>();»\n",
        wrong: "registers::increase::<232>();",
    }
    {
        name: registers_are_given_back_by_one_warp,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/mod.rs",
        right: "        «F::give_registers();»\n",
        wrong: "if thread / WARP_THREADS == 0 { F::give_registers(); }",
    }
    {
        name: barriers_of_a_split_are_not_shown_to_other_blocks,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "        «cluster::fence_barriers();»\n",
        wrong: "",
    }
    {
        name: barriers_of_a_cluster_are_not_shown_to_other_blocks,
        check: conv2d_group_norm_scale_max_pool_clamp::matches::<F16x2>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/mod.rs",
        right: "        «cluster::fence_barriers();»\n",
        wrong: "",
    }
    {
        name: last_chain_is_not_waited_for,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/format.rs",
        right: "                «sums.wait::<0>()»\n",
        wrong: "sums.wait::<1>()",
    }
    {
        name: blocks_are_counted_in_32_bits,
        check: far::elementwise,
        file: "parts/elementwise.rs",
        right: "    «thread::block_idx_x() as u64 * BLOCK_ELEMENTS as u64»\n",
        wrong: "thread::block_idx_x().wrapping_mul(BLOCK_ELEMENTS as u32) as u64",
    }
    {
        name: normalised_elements_are_counted_in_32_bits,
        check: far::elementwise,
        file: "fused/group_norm_scale_pointwise.rs",
        right: "    let y = GlobalMut::new(y, g.elements as usize).slice(«start as usize», left as usize);",
        wrong: "start as u32 as usize",
    }
    {
        name: short_rows_start_in_32_bits,
        check: far_norms::statistics::<f32>,
        file: "group_norm.rs",
        right: "        let start = «row.min(g.rows) * g.row_elements»;",
        wrong: "(row.min(g.rows) * g.row_elements) as u32 as u64",
    }
    {
        name: rows_start_in_32_bits,
        check: far_norms::statistics::<f32>,
        file: "group_norm.rs",
        right: "        let row_start = «row as u64 * g.row_elements»;",
        wrong: "(row as u64 * g.row_elements) as u32 as u64",
    }
    {
        name: resident_rows_start_in_32_bits,
        check: far_norms::resident::<f32>,
        file: "fused/group_norm_scale_resident.rs",
        right: "    let start = «thread::block_idx_x() as usize * g.row_elements as usize»;",
        wrong: "thread::block_idx_x().wrapping_mul(g.row_elements as u32) as usize",
    }
    {
        name: planes_inside_a_pad_start_in_32_bits,
        check: far::moved,
        file: "conv/pad.rs",
        right: "x.load(«plane * inner» + ",
        wrong: "(plane as u32).wrapping_mul(inner as u32) as usize",
    }
    {
        name: strided_memory_is_counted_in_32_bits,
        check: far::moved,
        file: "copy_strided.rs",
        right: "                values[n] = x.load(«(source as i64 + walk.global) as usize»);",
        wrong: "(source as i64 + walk.global) as u32 as usize",
    }
    {
        name: pooled_planes_start_in_32_bits,
        check: far_pools::images,
        file: "parts/pool.rs",
        right: "        plane: «(segments.first as usize + plane as usize) * plane_elements»,",
        wrong: "(segments.first as u32 + plane).wrapping_mul(plane_elements as u32) as usize",
    }
    {
        name: pooled_outputs_start_in_32_bits,
        check: far_pools::images,
        file: "parts/pool.rs",
        right: "        let plane = «(segments.first as usize + plane as usize) * plane_outputs»;",
        wrong: "(segments.first as u32 + plane).wrapping_mul(plane_outputs as u32) as usize",
    }
    {
        name: pooled_volumes_start_in_32_bits,
        check: far_pools::volumes,
        file: "pool.rs",
        right: "            plane: «(segments.first as usize + plane as usize) * plane_elements»,",
        wrong: "(segments.first as u32 + plane).wrapping_mul(plane_elements as u32) as usize",
    }
    {
        name: averaged_planes_start_in_32_bits,
        check: far_pools::planes,
        file: "pool.rs",
        right: "    let first = «(plane * g.elements + before) as usize»;",
        wrong: "(plane * g.elements + before) as u32 as usize",
    }
    {
        name: sums_of_parts_start_in_32_bits,
        check: far_pools::planes,
        file: "pool.rs",
        right: "of_lane += sums.load(«(plane * g.parts + part) as usize»);",
        wrong: "(plane * g.parts + part) as u32 as usize",
    }
    {
        name: channels_start_in_32_bits,
        check: far_pools::channels,
        file: "parts/channel_reduce.rs",
        right: "        let plane = «(sample as usize * g.channels as usize + first as usize) * spatial»;",
        wrong: "(sample * g.channels + first).wrapping_mul(spatial as u32) as usize",
    }
    {
        name: maxima_start_in_32_bits,
        check: far_pools::channels,
        file: "parts/channel_reduce.rs",
        right: "    let plane = «sample as usize * spatial»;\n    let stored",
        wrong: "sample.wrapping_mul(spatial as u32) as usize",
    }
    {
        name: convolved_planes_start_in_32_bits,
        check: far_products::on_cores,
        file: "conv/direct.rs",
        right: "                    let plane = «(first_plane + channel as usize) * input_pixels»;",
        wrong: "(first_plane as u32 + channel).wrapping_mul(input_pixels as u32) as usize",
    }
    {
        name: convolutions_are_written_in_32_bits,
        check: far_products::on_cores,
        file: "conv/direct.rs",
        right: "                    let plane = «(tile.sample * filters + filter) * output_pixels as usize»;",
        wrong: "((tile.sample * filters + filter) as u32).wrapping_mul(output_pixels) as usize",
    }
    {
        name: stencils_are_written_in_32_bits,
        check: far_products::depthwise,
        file: "fused/depthwise/mod.rs",
        right: "GlobalMut::new(y, planes * outputs).slice(«plane * outputs», outputs);",
        wrong: "(plane as u32).wrapping_mul(outputs as u32) as usize",
    }
    {
        name: depthwise_is_read_in_32_bits,
        check: far_products::depthwise,
        file: "fused/depthwise/mod.rs",
        right: "Global::new(x, planes * inputs).slice(«plane * inputs», inputs);",
        wrong: "(plane as u32).wrapping_mul(inputs as u32) as usize",
    }
    {
        name: k_vectors_are_reformatted_from_32_bits,
        check: far_products::warp_specialized::<f16>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "            .slice(«first_plane * plane_elements», channels * plane_elements);",
        wrong: "(first_plane * plane_elements) as u32 as usize",
    }
    {
        name: k_vectors_are_reformatted_to_32_bits,
        check: far_products::warp_specialized::<f16>,
        file: "fused/implicit_gemm/reformat.rs",
        right: "            let at = «first_k_vector + k_vector as usize»;",
        wrong: "(first_k_vector + k_vector as usize) as u32 as usize",
    }
    {
        name: halos_of_warp_specialized_tiles_start_in_32_bits,
        check: far_products::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "        let mut from = «part * plane_words» + first;",
        wrong: "(part as u32).wrapping_mul(plane_words as u32) as usize",
    }
    {
        name: warp_specialized_tiles_are_written_in_32_bits,
        check: far_products::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/rows.rs",
        right: "                let to = «self.plane(filter) * spatial + position as usize»;",
        wrong: "(self.plane(filter) * spatial + position as usize) as u32 as usize",
    }
    {
        name: halos_start_in_32_bits,
        check: far_products::narrow::<F16x2>,
        file: "fused/implicit_gemm/halo.rs",
        right: "        let from = «part * plane_k_vectors» + first as usize;",
        wrong: "(part as u32).wrapping_mul(plane_k_vectors as u32) as usize",
    }
    {
        name: tiles_are_written_in_32_bits,
        check: far_products::narrow::<F16x2>,
        file: "fused/implicit_gemm/results/rows.rs",
        right: "        let mut plane = «(self.first_plane(place, filters) + warp as usize) * spatial»;",
        wrong: "((self.first_plane(place, filters) + warp as usize) as u32).wrapping_mul(spatial as u32) as usize",
    }
    {
        name: samples_start_in_32_bits,
        check: conv2d_group_norm_scale_max_pool_clamp::far::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "            let at = «next.sample as usize * IN_CHANNELS as usize * plane» + in_plane as usize;",
        wrong: "next.sample.wrapping_mul(IN_CHANNELS as u32 * plane as u32) as usize",
    }
    {
        name: samples_are_written_in_32_bits,
        check: conv2d_group_norm_scale_max_pool_clamp::far::<f16>,
        file: "one_launch/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "        let to = «(sample as usize * OUT_CHANNELS as usize + k as usize) * of_channel» + first;",
        wrong: "((sample as usize * OUT_CHANNELS as usize + k as usize) * of_channel) as u32 as usize",
    }
    {
        name: volumes_start_in_32_bits,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::far::<F16x2>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/mod.rs",
        right: "Global::new(x, g.input_elements()).slice(«sample * g.sample_elements()», g.sample_elements());",
        wrong: "(sample * g.sample_elements()) as u32 as usize",
    }
    {
        name: volumes_of_warpgroups_are_written_in_32_bits,
        check: conv3d_multiply_instance_norm_clamp_multiply_max::far_on_warpgroups::<f16>,
        file: "one_launch/conv3d_multiply_instance_norm_clamp_multiply_max/warpgroup/mod.rs",
        right: "        .slice(«sample * out_words», out_words);",
        wrong: "(sample * out_words) as u32 as usize",
    }
}

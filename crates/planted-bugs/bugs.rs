// The mistakes. Included by the build script, which makes them, and by the test, which expects
// them to be noticed.

/// A mistake in a copy of the kernels.
#[allow(dead_code)] // The test reads the names only.
struct Bug {
    /// What is wrong, as the name of a test.
    name: &'static str,
    /// The copy that it is in. Bugs of one copy are in kernels that share nothing, or ask for the mode
    /// of theirs.
    copy: &'static str,
    /// The file that it is in.
    file: &'static str,
    /// What stands there, once in the file.
    right: &'static str,
    /// What stands there instead.
    wrong: &'static str,
}

const BUGS: &[Bug] = &[
    Bug {
        name: "block_statistics_without_barrier",
        copy: "first",
        file: "parts/moments.rs",
        right: "        thread::sync_threads();\n        let mut all = Self::EMPTY;",
        wrong: "        let mut all = Self::EMPTY;",
    },
    Bug {
        name: "direct_convolution_stages_over_rows_in_use",
        copy: "first",
        file: "conv/direct.rs",
        right: "        thread::sync_threads();\n        stage_filter(",
        wrong: "        stage_filter(",
    },
    Bug {
        name: "gemm_without_barrier_between_steps",
        copy: "first",
        file: "conv/gemm.rs",
        right: "        thread::sync_threads();\n        row += TILE_REDUCTION;",
        wrong: "        row += TILE_REDUCTION;",
    },
    Bug {
        name: "pool_reads_a_row_too_many",
        copy: "first",
        file: "parts/pool.rs",
        right: "h < g.h && w < g.w",
        wrong: "h <= g.h && w < g.w",
    },
    Bug {
        name: "elementwise_writes_past_the_end",
        copy: "fifth",
        file: "parts/elementwise.rs",
        right: "left.min(local + VECTOR_ELEMENTS)",
        wrong: "local + VECTOR_ELEMENTS",
    },
    Bug {
        name: "channel_max_drops_nan",
        copy: "first",
        file: "parts/channel_reduce.rs",
        right: "            let params = map.params(first, channel);\n            unroll!(4, |i| {\n                let mapped = map.apply(params, values[i].to_f32());\n                maxima[i] = math::max_nan(maxima[i], mapped);",
        wrong: "            let params = map.params(first, channel);\n            unroll!(4, |i| {\n                let mapped = map.apply(params, values[i].to_f32());\n                maxima[i] = math::max(maxima[i], mapped);",
    },
    Bug {
        name: "statistics_of_splits_with_lanes_missing",
        copy: "second",
        file: "parts/moments.rs",
        right: "        let all = all.of_warp();\n        if lane == 0 {",
        wrong: "        let all = if lane < g.splits { all.of_warp() } else { all };\n        if lane == 0 {",
    },
    Bug {
        name: "convolution_swaps_rows_and_columns",
        copy: "second",
        file: "conv/window.rs",
        right: "row.wrapping_mul(g.w)",
        wrong: "row.wrapping_mul(g.h)",
    },
    Bug {
        name: "padding_wins_in_a_pool",
        copy: "second",
        file: "parts/pool.rs",
        right: "[f32::NEG_INFINITY; OUTPUTS_PER_THREAD]",
        wrong: "[0.0; OUTPUTS_PER_THREAD]",
    },
    Bug {
        name: "channel_slices_meet_without_barrier",
        copy: "second",
        file: "parts/channel_reduce.rs",
        right: "        thread::sync_threads();\n        if slice > 0 {",
        wrong: "        if slice > 0 {",
    },
    Bug {
        name: "channels_of_short_planes_do_not_wrap",
        copy: "third",
        file: "parts/index.rs",
        right: "if channel < self.channels {",
        wrong: "if channel <= self.channels {",
    },
    Bug {
        name: "statistics_drop_an_element",
        copy: "fifth",
        file: "parts/moments.rs",
        right: "thread < before + after",
        wrong: "thread + 1 < before + after",
    },
    Bug {
        name: "gemm_swaps_rows_and_columns_of_threads",
        copy: "third",
        file: "conv/gemm.rs",
        right: "let filters_at = r as u32 * S::TILE.filter_pitch() + thread_row * VECTOR;",
        wrong: "let filters_at = r as u32 * S::TILE.filter_pitch() + thread_column % S::TILE.thread_rows * VECTOR;",
    },
    Bug {
        name: "direct_convolution_adds_the_bias_of_another_group",
        copy: "third",
        file: "conv/direct.rs",
        right: "bias.load_readonly(filter).to_f32()",
        wrong: "bias.load_readonly(k).to_f32()",
    },
    Bug {
        name: "variance_with_the_other_divisor",
        copy: "fourth",
        file: "parts/moments.rs",
        right: "self.m2 / self.count",
        wrong: "self.m2 / (self.count - 1.0)",
    },
    Bug {
        name: "volume_steps_by_the_wrong_dilation",
        copy: "fourth",
        file: "conv/window.rs",
        right: "t * g.dilation_d",
        wrong: "t * g.dilation_h",
    },
    Bug {
        name: "cluster_starts_before_its_barriers_are_known",
        copy: "first",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/mod.rs",
        right: "    cluster::sync();\n",
        wrong: "    if M::SCALED {\n        cluster::sync();\n    } else {\n        thread::sync_threads();\n    }\n",
    },
    Bug {
        name: "rows_are_rescaled_while_products_read_them",
        copy: "first",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                    if step >= 2 {\n",
        wrong: "                    if step >= 2 && M::TILES.parts == 2 {\n",
    },
    Bug {
        name: "filled_slots_are_not_shown_to_the_tensor_cores",
        copy: "first",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                async_proxy::fence_shared();\n",
        wrong: "                if M::TILES.parts == 1 {\n                    async_proxy::fence_shared();\n                }\n",
    },
    Bug {
        name: "statistics_of_the_other_block_are_not_awaited",
        copy: "second",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    cluster::wait(exchanged, phase);\n",
        wrong: "    if warpgroups == 2 {\n        cluster::wait(exchanged, phase);\n    }\n",
    },
    Bug {
        name: "channels_are_written_before_their_factors_are_known",
        copy: "second",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    barrier::sync(MULTIPLIERS, threads);\n    write::<M>(",
        wrong: "    if !M::SCALED {\n        barrier::sync(MULTIPLIERS, threads);\n    }\n    write::<M>(",
    },
    Bug {
        name: "statistics_of_the_other_block_are_awaited_as_the_own",
        copy: "third",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    cluster::wait(exchanged, phase);\n",
        wrong: "    if warpgroups == 2 {\n        exchanged.wait(phase);\n    } else {\n        cluster::wait(exchanged, phase);\n    }\n",
    },
    Bug {
        name: "slots_are_freed_before_their_last_product",
        copy: "third",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/consume.rs",
        right: "            let mut d = if y + 1 == STEP_ROWS {",
        wrong: "            if y + 1 == self.rows && !M::SCALED {\n                unit_freed(memory, self.slot, place.lane);\n            }\n            let mut d = if y + 1 == STEP_ROWS {",
    },
    Bug {
        name: "other_block_announces_too_few_bytes",
        copy: "fourth",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/consume.rs",
        right: ".arrive_expect(EXCHANGED_BYTES);",
        wrong: ".arrive_expect(if M::SCALED { EXCHANGED_BYTES } else { 504 });",
    },
    Bug {
        name: "maxima_of_the_next_sample_come_too_early",
        copy: "fourth",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    // The next sample's maxima come where these were.\n    barrier::sync(MULTIPLIERS, threads);\n",
        wrong: "    if !M::SCALED {\n        barrier::sync(MULTIPLIERS, threads);\n    }\n",
    },
    Bug {
        name: "one_barrier_for_the_statistics_of_all_samples",
        copy: "fifth",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/statistics.rs",
        right: "    cluster::store_async(partner.addr(0), exchanged, 1 - rank, sent);\n",
        wrong: "    let exchanged = if warpgroups == 2 { Barrier::at(memory.exchanged, 0) } else { exchanged };\n    cluster::store_async(partner.addr(0), exchanged, 1 - rank, sent);\n",
    },
    Bug {
        name: "slots_are_filled_while_products_read_them",
        copy: "fifth",
        file: "fused/conv2d_group_norm_scale_max_pool_clamp/produce.rs",
        right: "                if count >= slots {\n",
        wrong: "                if count >= slots && M::SCALED {\n",
    },
];

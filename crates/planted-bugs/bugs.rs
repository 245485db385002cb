// The mistakes. Included by the build script, which makes them, and by the test, which expects
// them to be noticed.

/// A mistake in a copy of the kernels.
#[allow(dead_code)] // The test reads the names only.
struct Bug {
    /// What is wrong, as the name of a test.
    name: &'static str,
    /// The copy that it is in. Bugs of one copy are in kernels that share nothing.
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
];

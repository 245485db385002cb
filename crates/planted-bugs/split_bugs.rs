// The mistakes of split-K over the blocks of a cluster; `bugs.rs` has those of other kernels.

bugs! {
    SPLIT_BUGS:
    {
        name: split_blocks_send_before_all_have_begun,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/mod.rs",
        right: "        «cluster::sync();»\n    } else {",
        wrong: "thread::sync_threads();",
    }
    {
        name: split_blocks_that_may_have_ended_hear_that_sums_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "    if «more» && lane == 0 {",
        wrong: "true",
    }
    {
        name: split_sums_are_added_before_they_come,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "    «cluster::wait(memory.exchange_full(warp), parity);»\n",
        wrong: "",
    }
    {
        name: split_sums_are_overwritten_before_they_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "        «cluster::wait(memory.exchange_empty(warp), parity ^ 1);»\n",
        wrong: "",
    }
    {
        name: split_sums_are_announced_by_a_lane_alone,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "        «warp::sync_warp(warp::ALL_LANES);»\n        if lane == 0 {\n            cluster::arrive_at(memory.exchange_full",
        wrong: "",
    }
    {
        name: split_sums_are_taken_by_a_lane_alone,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "    «warp::sync_warp(warp::ALL_LANES);»\n    if ",
        wrong: "",
    }
    {
        name: split_sums_of_one_block_are_awaited,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "self.exchange_full(warp).init(«self.mainloop.split_k - 1»);",
        wrong: "1",
    }
    {
        name: split_blocks_send_to_one_place,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "«(rank ^ owner) - 1»;",
        wrong: "0",
    }
    {
        name: split_sums_of_the_other_pair_are_forgotten,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "    if «mainloop.split_k == 4» {",
        wrong: "false",
    }
    {
        name: split_partners_alone_hear_that_sums_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/cluster_reduce.rs",
        right: "            if «other != owner» {",
        wrong: "other == owner ^ 1",
    }
    {
        name: split_tiles_all_have_the_first_parity,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "let parity = «opaque::to_compiler(round) & 1»;",
        wrong: "0",
    }
    {
        name: split_halos_are_of_the_first_k_blocks,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "start_halo(work, memory, reformatted, &place, «k_block», state);",
        wrong: "k_block - work.k_blocks()[0]",
    }
    {
        name: split_filters_are_of_the_first_k_blocks,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "let at = («from * all_mma_steps + step») * parts",
        wrong: "from * all_mma_steps + step - work.k_blocks()[0] * g.mma_steps",
    }
}

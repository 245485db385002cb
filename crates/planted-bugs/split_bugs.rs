// The mistakes of wide tiles whose sums the blocks of a cluster split, as `bugs.rs` has those of all else.

bugs! {
    SPLIT_BUGS:
    {
        name: split_blocks_send_before_all_have_begun,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/mod.rs",
        right: "        «cluster::sync();»\n    } else {",
        wrong: "thread::sync_threads();",
    }
    {
        name: split_blocks_that_may_have_ended_hear_that_sums_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "    if «more» && lane == 0 {",
        wrong: "true",
    }
    {
        name: split_sums_are_added_before_they_come,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "    «cluster::wait(memory.come(warp), parity);»\n",
        wrong: "",
    }
    {
        name: split_sums_are_overwritten_before_they_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "        «cluster::wait(memory.taken(warp), parity ^ 1);»\n",
        wrong: "",
    }
    {
        name: split_sums_are_announced_by_a_lane_alone,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "        «warp::sync_warp(warp::ALL_LANES);»\n        if lane == 0 {\n            cluster::arrive_at(memory.come",
        wrong: "",
    }
    {
        name: split_sums_are_taken_by_a_lane_alone,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "    «warp::sync_warp(warp::ALL_LANES);»\n    if ",
        wrong: "",
    }
    {
        name: split_sums_of_one_block_are_awaited,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "self.come(warp).init(«self.rings.splits - 1»);",
        wrong: "1",
    }
    {
        name: split_blocks_send_to_one_place,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "«(rank ^ owner) - 1»;",
        wrong: "0",
    }
    {
        name: split_sums_of_the_other_pair_are_forgotten,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "    if «rings.splits == 4» {",
        wrong: "false",
    }
    {
        name: split_partners_alone_hear_that_sums_are_taken,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/exchange.rs",
        right: "            if «other != owner» {",
        wrong: "other == owner ^ 1",
    }
    {
        name: split_tiles_all_have_the_first_parity,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "let parity = «opaque::to_compiler(round) & 1»;",
        wrong: "0",
    }
    {
        name: split_patches_are_of_the_first_stages,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "start_patch(work, memory, packed, &place, «stage», turn);",
        wrong: "stage - work.stages()[0]",
    }
    {
        name: split_filters_are_of_the_first_stages,
        check: implicit_gemm::split::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "let at = («from * all_steps + step») * parts",
        wrong: "from * all_steps + step - work.stages()[0] * g.steps",
    }
}

// The planted bugs of split-K over the blocks of a cluster; `bugs.rs` has those of other kernels.

bugs! {
    SPLIT_BUGS:
    "fused/implicit_gemm/sm90/mod.rs":
        split_blocks_send_before_all_have_begun, implicit_gemm::split::<f16>,
            "        «cluster::sync();»\n    } else {" => "thread::sync_threads();";
    "fused/implicit_gemm/sm90/cluster_reduce.rs":
        split_blocks_that_may_have_ended_hear_that_sums_are_taken, implicit_gemm::split::<f16>,
            "    if lane == 0 && «memory.has_tile(number + 1)» {" => "true";
        split_sums_are_added_before_they_come, implicit_gemm::split::<f16>,
            "    «cluster::wait(memory.exchange_full(warp), parity);»\n" => "";
        split_sums_are_overwritten_before_they_are_taken, implicit_gemm::split::<f16>,
            "        «cluster::wait(memory.exchange_empty(warp), parity ^ 1);»\n" => "";
        split_sums_are_announced_by_a_lane_alone, implicit_gemm::split::<f16>,
            "        «warp::sync_warp(warp::ALL_LANES);»\n        if lane == 0 {\n            cluster::arrive_at(memory.exchange_full"
                => "";
        split_sums_are_taken_by_a_lane_alone, implicit_gemm::split::<f16>,
            "    «warp::sync_warp(warp::ALL_LANES);»\n    let warp" => "";
        split_sums_of_one_block_are_awaited, implicit_gemm::split::<f16>,
            "self.exchange_full(warp).init(«self.mainloop.split_k - 1»);" => "1";
        split_blocks_send_to_one_place, implicit_gemm::split::<f16>,
            "«(rank ^ owner) - 1»;" => "0";
        split_sums_of_the_other_pair_are_forgotten, implicit_gemm::split::<f16>,
            "    if «mainloop.split_k == 4» {" => "false";
        split_partners_alone_hear_that_sums_are_taken, implicit_gemm::split::<f16>,
            "            if «other != owner» {" => "other == owner ^ 1";
    "fused/implicit_gemm/sm90/consume.rs":
        split_tiles_all_have_the_first_parity, implicit_gemm::split::<f16>,
            "let parity = «round & 1»;" => "0";
    "fused/implicit_gemm/sm90/produce.rs":
        split_halos_are_of_the_first_k_blocks, implicit_gemm::split::<f16>,
            "start_halo(work, memory, reformatted, &place, «k_block», state);" => "k_block - work.k_blocks()[0]";
        split_filters_are_of_the_first_k_blocks, implicit_gemm::split::<f16>,
            "let at = («tile * all_mma_steps + batch.step») * parts"
                => "tile * all_mma_steps + batch.step - work.k_blocks()[0] * g.mma_steps";
}

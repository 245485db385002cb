// The mistakes of warp-specialized tiles with resident filters, and of the ping-pong schedule; `bugs.rs` has
// those of other kernels.

bugs! {
    PING_PONG_BUGS:
    {
        name: warp_specialized_resident_filters_are_reloaded_while_in_use,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/produce.rs",
        right: "        «if pipeline.wraps == 0 {\n            break;\n        }»\n",
        wrong: "",
    }
    {
        name: warp_specialized_resident_filters_are_not_awaited,
        check: warp_specialized_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "if «round == 0» ||",
        wrong: "false",
    }
    {
        name: warp_specialized_filters_are_awaited_in_the_first_round_alone,
        check: implicit_gemm::warp_specialized::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "|| «filter_pipeline.wraps == 1» {",
        wrong: "false",
    }
    {
        name: ping_pong_begin_before_the_other_has_waited,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "            «memory.may_begin(warpgroup).wait(parity ^ 1 ^ warpgroup);»\n",
        wrong: "",
    }
    {
        name: ping_pong_begin_with_the_second,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: ".wait(«parity ^ 1 ^ warpgroup»);",
        wrong: "parity ^ warpgroup",
    }
    {
        name: ping_pong_are_not_given_to_the_other,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "release(memory.may_begin(«1 - warpgroup()»));",
        wrong: "warpgroup()",
    }
    {
        name: ping_pong_are_given_by_one_warp,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/memory.rs",
        right: "self.may_begin(1).init(«WARPGROUP_WARPS»);",
        wrong: "1",
    }
    {
        name: ping_pong_take_the_halos_of_the_other,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "            halo = halo.skip(«g.k_blocks», &halo_pipeline);",
        wrong: "0",
    }
    {
        name: ping_pong_take_the_filters_of_the_other,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "            filters = filters.skip(«mma_batches(g)», &filter_pipeline);",
        wrong: "0",
    }
    {
        name: ping_pong_begin_with_the_first_halo_twice,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "        halo = halo.skip(«rounds.behind() * g.k_blocks», &halo_pipeline);",
        wrong: "0",
    }
    {
        name: ping_pong_leave_out_rounds_without_a_new_parity,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/pipeline.rs",
        right: "parity: «self.parity ^ (rounds & pipeline.wraps)»,",
        wrong: "self.parity",
    }
    {
        name: ping_pong_gives_resident_filters_a_new_parity,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/pipeline.rs",
        right: "(«rounds & pipeline.wraps»)",
        wrong: "rounds & 1",
    }
    {
        name: ping_pong_wait_for_all_warps_to_free_a_stage,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/memory.rs",
        right: "let consumer_warps = «self.mainloop.consumer_warps()»;",
        wrong: "WARPS",
    }
    {
        name: ping_pong_have_the_same_tiles,
        check: warp_specialized_tiles::ping_pong::<f16>,
        file: "fused/implicit_gemm/sm90/consume.rs",
        right: "<< self.ping_pong) + «self.behind()»;",
        wrong: "0",
    }
}

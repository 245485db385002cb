// The planted bugs of warp-specialized kernels with resident filters, and of the ping-pong schedule;
// `bugs.rs` has those of other kernels.

bugs! {
    PING_PONG_BUGS:
    "fused/implicit_gemm/sm90/produce.rs":
        warp_specialized_resident_filters_are_reloaded_while_in_use, warp_specialized_tiles::two_outputs::<f16>,
            "        «if pipeline.wraps == 0 {\n            break;\n        }»\n" => "";
    "fused/implicit_gemm/sm90/consume.rs":
        warp_specialized_resident_filters_are_not_awaited, warp_specialized_tiles::two_outputs::<f16>,
            "F::LEAVES_IN_FLIGHT && «round > 0»" => "true";
        warp_specialized_filters_are_awaited_in_the_first_round_alone, implicit_gemm::warp_specialized::<f16>,
            " && «filter_pipeline.wraps == 0»;" => "true";
        ping_pong_begin_before_the_other_has_waited, warp_specialized_tiles::ping_pong::<f16>,
            "            «memory.order_barrier(warpgroup).wait(parity ^ 1 ^ warpgroup);»\n" => "";
        ping_pong_begin_with_the_second, warp_specialized_tiles::ping_pong::<f16>,
            ".wait(«parity ^ 1 ^ warpgroup»);" => "parity ^ warpgroup";
        ping_pong_are_not_given_to_the_other, warp_specialized_tiles::ping_pong::<f16>,
            "release(memory.order_barrier(«1 - warpgroup()»));" => "warpgroup()";
        ping_pong_take_the_halos_of_the_other, warp_specialized_tiles::ping_pong::<f16>,
            "            halo = halo.skip(«memory.mainloop.halo_skip», &halo_pipeline);"
                => "launch_config::pipeline::Skip::NONE";
        ping_pong_take_the_filters_of_the_other, warp_specialized_tiles::ping_pong::<f16>,
            "            filters = filters.skip(«memory.mainloop.filter_skip», &filter_pipeline);"
                => "launch_config::pipeline::Skip::NONE";
        ping_pong_begin_with_the_first_halo_twice, warp_specialized_tiles::ping_pong::<f16>,
            "{\n        halo = halo.skip(«memory.mainloop.halo_skip», &halo_pipeline);"
                => "launch_config::pipeline::Skip::NONE";
        ping_pong_have_the_same_tiles, warp_specialized_tiles::ping_pong::<f16>,
            "let mut number = «ping_pong * warpgroup()»;" => "0";
    "fused/implicit_gemm/sm90/prepare.rs":
        ping_pong_are_given_by_one_warp, warp_specialized_tiles::ping_pong::<f16>,
            "self.order_barrier(1).init(«WARPGROUP_WARPS»);" => "1";
        ping_pong_wait_for_all_warps_to_free_a_stage, warp_specialized_tiles::ping_pong::<f16>,
            "let consumer_warps = «self.mainloop.consumer_warps()»;"
                => "launch_config::implicit_gemm::sm90::WARPS";
    "parts/pipeline.rs":
        ping_pong_leave_out_rounds_without_a_new_parity, warp_specialized_tiles::ping_pong::<f16>,
            "parity: «self.parity ^ (rounds & pipeline.wraps)»," => "self.parity";
        ping_pong_gives_resident_filters_a_new_parity, warp_specialized_tiles::ping_pong::<f16>,
            "(«rounds & pipeline.wraps»)" => "rounds & 1";
}

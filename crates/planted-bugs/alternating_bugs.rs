// The mistakes of wide tiles whose filters stay, and of those whose warpgroups alternate, as `bugs.rs` has those of all else.

bugs! {
    ALTERNATING_BUGS:
    {
        name: wide_filters_that_stay_come_again_while_they_are_used,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/produce.rs",
        right: "        «if ring.comes_round == 0 {\n            break;\n        }»\n",
        wrong: "",
    }
    {
        name: wide_filters_that_stay_are_not_awaited,
        check: wide_tiles::two_outputs::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "if «round == 0» ||",
        wrong: "false",
    }
    {
        name: wide_filters_are_awaited_in_the_first_round_alone,
        check: implicit_gemm::wide::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "|| «filter_ring.comes_round == 1» {",
        wrong: "false",
    }
    {
        name: alternating_begin_before_the_other_has_waited,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "            «memory.may_begin(warpgroup).wait(parity ^ 1 ^ warpgroup);»\n",
        wrong: "",
    }
    {
        name: alternating_begin_with_the_second,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: ".wait(«parity ^ 1 ^ warpgroup»);",
        wrong: "parity ^ warpgroup",
    }
    {
        name: alternating_are_not_given_to_the_other,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "give_back(memory.may_begin(«1 - warpgroup()»));",
        wrong: "warpgroup()",
    }
    {
        name: alternating_are_given_by_one_warp,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/memory.rs",
        right: "self.may_begin(1).init(«WARPGROUP_WARPS»);",
        wrong: "1",
    }
    {
        name: alternating_take_the_patches_of_the_other,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "            patch = patch.skip(«g.stages», &patch_ring);",
        wrong: "0",
    }
    {
        name: alternating_take_the_filters_of_the_other,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "            filters = filters.skip(«chains(g)», &filter_ring);",
        wrong: "0",
    }
    {
        name: alternating_begin_with_the_first_patch_twice,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "        patch = patch.skip(«rounds.behind() * g.stages», &patch_ring);",
        wrong: "0",
    }
    {
        name: alternating_leave_out_rounds_without_a_new_parity,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/rings.rs",
        right: "parity: «self.parity ^ (rounds & ring.comes_round)»,",
        wrong: "self.parity",
    }
    {
        name: alternating_give_filters_that_stay_a_new_parity,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/rings.rs",
        right: "(«rounds & ring.comes_round»)",
        wrong: "rounds & 1",
    }
    {
        name: alternating_wait_for_all_warps_to_free_a_slot,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/memory.rs",
        right: "let readers = «self.rings.readers()»;",
        wrong: "WARPS",
    }
    {
        name: alternating_have_the_same_tiles,
        check: wide_tiles::alternating::<f16>,
        file: "fused/implicit_gemm/wide/consume.rs",
        right: "<< self.alternate) + «self.behind()»;",
        wrong: "0",
    }
}

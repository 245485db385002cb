//! Registers that warpgroups give back and take.

use crate::support::{assert_kind, run_clean, run_faulty, shape};
use cuda_std::emulator::{Device, FaultKind};
use cuda_std::prelude::*;
use cuda_std::registers;

/// What three warpgroups, of 168 registers for each thread, may do.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Trade {
    /// The first gives back what the others take.
    Fair,
    /// It gives back less, or nothing.
    TooLittle,
    Nothing,
    /// Two of its warps give back.
    TwoWarps,
    /// Its warps disagree.
    Disagree,
}

#[kernel(max_threads = 384, min_blocks = 1)]
unsafe fn trade(how: Trade) {
    let (warp, group) = (thread::thread_idx_x() / 32, thread::thread_idx_x() / 128);
    if group > 0 {
        registers::increase::<232>();
        return;
    }
    match how {
        Trade::Fair => registers::decrease::<40>(),
        Trade::TooLittle => registers::decrease::<48>(),
        Trade::Nothing => {}
        Trade::TwoWarps if warp < 2 => registers::decrease::<40>(),
        Trade::TwoWarps => {}
        Trade::Disagree if warp == 3 => registers::decrease::<32>(),
        Trade::Disagree => registers::decrease::<40>(),
    }
}

#[test]
fn registers_go_from_one_warpgroup_to_others() {
    run_clean::<trade>(&Device::new(), &shape(2, 384), (Trade::Fair,));
}

#[test]
fn registers_that_nobody_gives_back_are_waited_for_in_vain() {
    let fault = |how| run_faulty::<trade>(&Device::new(), &shape(1, 384), (how,));
    for (how, free) in [(Trade::TooLittle, 15360 - 8192), (Trade::Nothing, 0)] {
        let FaultKind::Deadlock { what, detail } = fault(how).kind else {
            panic!("no deadlock")
        };
        assert_eq!(what, "setmaxnreg.inc 232");
        let said = format!("has 168 registers for each thread, and its block {free} that nobody");
        assert!(detail.contains(&said), "{detail}");
    }
    assert_kind!(fault(Trade::TwoWarps), FaultKind::Deadlock { .. });
    let text = fault(Trade::Disagree).to_string();
    assert!(text.contains("threads of one warpgroup disagree"), "{text}");
}

/// A block of one warpgroup, with 128 registers for each thread.
#[kernel(max_threads = 128, min_blocks = 4)]
unsafe fn alone(how: u32) {
    match how {
        0 => {
            registers::decrease::<24>();
            thread::sync_threads();
            registers::increase::<128>();
        }
        1 => registers::increase::<136>(),
        2 => registers::increase::<120>(),
        _ => registers::decrease::<136>(),
    }
}

#[test]
fn a_request_that_cannot_be_met_or_turns_around_is_refused() {
    let device = Device::new();
    run_clean::<alone>(&device, &shape(3, 128), (0,));
    for (how, said) in [
        (1, "setmaxnreg.inc 136: never met: the block has 16384"),
        (2, "setmaxnreg.inc 120: the warpgroup's threads have 128"),
        (3, "setmaxnreg.dec 136: the warpgroup's threads have 128"),
    ] {
        let text = run_faulty::<alone>(&device, &shape(1, 128), (how,)).to_string();
        assert!(text.contains(said), "{text}");
    }
    let text = run_faulty::<alone>(&device, &shape(1, 96), (0,)).to_string();
    assert!(text.contains("belongs to no whole warpgroup"), "{text}");
}

/// Says nothing of its blocks on a multiprocessor.
#[kernel(max_threads = 128)]
unsafe fn undeclared() {
    registers::decrease::<40>();
}

#[test]
fn a_kernel_without_bounds_moves_no_registers() {
    let text = run_faulty::<undeclared>(&Device::new(), &shape(1, 128), ()).to_string();
    assert!(text.contains("the assembler ignores it"), "{text}");
}

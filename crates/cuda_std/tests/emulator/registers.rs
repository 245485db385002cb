//! Registers that warpgroups release and request.

use crate::support::{faults, run_clean, run_faulty, shape};
use cuda_std::emulator::Device;
use cuda_std::prelude::*;
use cuda_std::registers;

/// The behaviour of three warpgroups with 168 registers for each thread.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Trade {
    /// The first warpgroup releases the registers that the others request.
    Fair,
    /// The first warpgroup releases fewer registers, or none.
    TooLittle,
    Nothing,
    /// Only two warps of the first warpgroup release registers.
    TwoWarps,
    /// The warps of the first warpgroup disagree.
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
fn registers_go_from_one_warpgroup_to_others_which_wait_for_them() {
    run_clean::<trade>(&Device::new(), &shape(2, 384), (Trade::Fair,));
    let fault = |how| run_faulty::<trade>(&Device::new(), &shape(1, 384), (how,));
    for (how, free) in [(Trade::TooLittle, 15360 - 8192), (Trade::Nothing, 0)] {
        let said = format!("has 168 registers for each thread, and its block {free} that nobody");
        faults! { fault(how) => Deadlock, "setmaxnreg.inc 232 never completes", &said; }
    }
    faults! {
        fault(Trade::TwoWarps) => Deadlock;
        fault(Trade::Disagree) => "threads of one warpgroup disagree";
    }
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

/// A kernel without the minimum number of blocks on a multiprocessor.
#[kernel(max_threads = 128)]
unsafe fn undeclared() {
    registers::decrease::<40>();
}

#[test]
fn a_request_that_cannot_be_met_or_turns_around_is_refused() {
    let device = Device::new();
    run_clean::<alone>(&device, &shape(3, 128), (0,));
    let fault = |threads, how| run_faulty::<alone>(&device, &shape(1, threads), (how,));
    faults! {
        fault(128, 1) => "setmaxnreg.inc 136: never met: the block has 16384";
        fault(128, 2) => "setmaxnreg.inc 120: the warpgroup's threads have 128";
        fault(128, 3) => "setmaxnreg.dec 136: the warpgroup's threads have 128";
        fault(96, 0) => "belongs to no whole warpgroup";
        run_faulty::<undeclared>(&device, &shape(1, 128), ()) => "the assembler ignores it";
    }
}

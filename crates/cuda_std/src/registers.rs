//! Moving registers between the warpgroups of a block.
//!
//! `setmaxnreg` (sm_90a): a block that starts with the same number of registers for each thread can give some
//! of a producer's to the consumers. The kernel must declare `max_threads` and `min_blocks`, or the assembler
//! does not know where it starts from and ignores these calls.
//!
//! **Emulator**: a block starts with what the kernel's bounds leave to each thread, and what one warpgroup
//! gives back another may take. Threads of a warpgroup that do not all come, or disagree, a number of
//! registers on the wrong side of those that there are, requests that are never met, and kernels without the
//! bounds are reported. The number itself is checked when compiling.

use crate::backend;

const fn check(registers: u32) {
    assert!(
        registers.is_multiple_of(8) && registers >= 24 && registers <= 256,
        "a register count is a multiple of 8 from 24 to 256"
    );
}

device_functions! {
    /// Takes registers until each thread of the warpgroup has `REGISTERS`, waiting until they are free.
    /// `setmaxnreg.inc.sync.aligned.u32`.
    ///
    /// All threads of the warpgroup make this call.
    fn increase[const REGISTERS: u32]() = {
        const { check(REGISTERS) };
        backend::increase_registers::<REGISTERS>()
    };

    /// Gives registers back until each thread of the warpgroup has `REGISTERS`.
    /// `setmaxnreg.dec.sync.aligned.u32`.
    ///
    /// All threads of the warpgroup make this call.
    fn decrease[const REGISTERS: u32]() = {
        const { check(REGISTERS) };
        backend::decrease_registers::<REGISTERS>()
    };
}

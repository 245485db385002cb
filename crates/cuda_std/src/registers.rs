//! Moving registers between the warpgroups of a block.
//!
//! `setmaxnreg` (sm_90a): all threads of a block start with the same number of registers. Producer warps
//! can then release registers, and consumer warpgroups take them. The kernel must declare `max_threads` and
//! `min_blocks`. Without them the assembler does not know the initial number of registers and ignores these
//! calls.
//!
//! **Emulator**: a block starts with the registers that the kernel's launch bounds determine for each
//! thread. A warpgroup may take the registers that another one has released. It reports:
//! - threads of a warpgroup that do not arrive, or disagree;
//! - increases below the current number of registers, and decreases above it;
//! - requests that are never met;
//! - kernels without launch bounds.
//!
//! The number itself is checked at compile time.

use crate::backend;

const fn check(registers: u32) {
    assert!(
        registers.is_multiple_of(8) && registers >= 24 && registers <= 256,
        "a register count is a multiple of 8 from 24 to 256"
    );
}

device_functions! {
    /// Requests registers until each thread of the warpgroup has `REGISTERS`, and waits until they are
    /// free. `setmaxnreg.inc.sync.aligned.u32`.
    ///
    /// All threads of the warpgroup make this call.
    fn increase[const REGISTERS: u32]() = {
        const { check(REGISTERS) };
        backend::increase_registers::<REGISTERS>()
    };

    /// Releases registers until each thread of the warpgroup has `REGISTERS`.
    /// `setmaxnreg.dec.sync.aligned.u32`.
    ///
    /// All threads of the warpgroup make this call.
    fn decrease[const REGISTERS: u32]() = {
        const { check(REGISTERS) };
        backend::decrease_registers::<REGISTERS>()
    };
}

//! Register counts, and values that are hidden from the compiler.

use core::arch::asm;

#[inline(always)]
pub(crate) fn increase_registers<const N: u32>() {
    // SAFETY: the assembler allots registers accordingly.
    unsafe {
        asm!("setmaxnreg.inc.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags))
    }
}

#[inline(always)]
pub(crate) fn decrease_registers<const N: u32>() {
    // SAFETY: the assembler allots registers accordingly.
    unsafe {
        asm!("setmaxnreg.dec.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags))
    }
}

#[inline(always)]
pub(crate) fn opaque_to_compiler(value: u32) -> u32 {
    let same;
    // Not `pure`, because the compiler could hoist it out of a loop.
    // SAFETY: copies a register.
    unsafe {
        asm!("mov.b32 {same}, {value};", same = lateout(reg32) same, value = in(reg32) value, options(nomem, nostack, preserves_flags));
    }
    same
}

#[inline(always)]
pub(crate) fn opaque_wide_product(a: u32, b: u32) -> u64 {
    let product;
    // Not `pure`, as above.
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("mul.wide.u32 {0}, {1}, {2};", lateout(reg64) product, in(reg32) a, in(reg32) b, options(nomem, nostack, preserves_flags));
    }
    product
}

instructions! {
    /// A directive for the assembler; it executes nothing.
    [nomem] fn not_unrolled() = ".pragma \"nounroll\";";
}

//! Values that are hidden from the optimisers of a kernel.
//!
//! A kernel has two optimisers: the compiler (LLVM) and the assembler (`ptxas`). Both hoist loop-invariant
//! computations out of loops, and keep equal values in one register. That is a loss where registers are
//! short. A hoisted value occupies a register during the whole loop. A value that two instructions need in
//! different registers, such as operands of tensor cores, is copied in each iteration. An opaque value is
//! computed, or loaded, where the kernel says. Both optimisers also unroll loops; [`not_unrolled`] forbids
//! it to the assembler.
//!
//! | | instruction | hides a value from | costs |
//! |---|---|---|---|
//! | [`to_compiler`] | `mov.b32` | the compiler; the assembler sees through the copy | at most a move |
//! | [`to_assembler`] | `shfl.sync.bfly.b32` with XOR mask 0 | both | a shuffle by the warp |
//! | [`uniform`] | `shfl.sync.idx.b32` from lane 0 | both, but not its uniformity | a shuffle by the warp |
//! | [`load`] | `ld.volatile.shared.b32` | both, for an element that was loaded before | a load |
//!
//! **Emulator**: the values are returned unchanged. [`to_assembler`] and [`uniform`] are checked as
//! shuffles, [`load`] as a load.

use crate::backend;
use crate::element::Element;
use crate::shared::Shared;
use crate::warp;

plain_functions! {
    /// Returns `value`, opaque to the compiler. Computations that depend on it stay behind this call, and
    /// in each iteration of a loop that contains it. `mov.b32`.
    #[must_use]
    fn to_compiler(value: u32) -> u32 = backend::opaque_to_compiler(value);

    /// Returns `a * b`, computed behind this call, and in each iteration of a loop that contains it.
    /// `mul.wide.u32`.
    ///
    /// With an addition behind it, the product becomes one instruction. Without this function the compiler
    /// makes several instructions if it does not see that the upper halves are zero.
    #[must_use]
    fn wide_product(a: u32, b: u32) -> u64 = backend::opaque_wide_product(a, b);

    /// Tells the assembler not to unroll the loop whose body starts with this call. `.pragma "nounroll"`.
    ///
    /// The assembler unrolls short loops four times, even a loop that the compiler was kept from unrolling.
    /// The pragma has no effect elsewhere in the loop, in front of an instruction, as machine code shows.
    fn not_unrolled() = backend::not_unrolled();
}

device_functions! {
    /// Returns `value`, opaque to the compiler and to the assembler, so that it has a register of its own.
    /// `shfl.sync.bfly.b32`.
    ///
    /// # Safety
    /// All 32 lanes of the warp make this call.
    #[must_use]
    unsafe fn to_assembler(value: u32) -> u32 = warp::warp_shuffle_xor(warp::ALL_LANES, value, 0, 32).0;

    /// Returns lane 0's `value`, which compiler and assembler know to be equal in all lanes. They compute
    /// addresses and conditions that depend on it once for the warp. `shfl.sync.idx.b32`.
    ///
    /// # Safety
    /// All 32 lanes of the warp make this call.
    #[must_use]
    unsafe fn uniform(value: u32) -> u32 = warp::warp_shuffle_idx(warp::ALL_LANES, value, 0, 32).0;

    /// Loads the 32-bit element `i`, even if it was loaded before. Loading a value where it is needed is
    /// cheaper than copying it to another register. `ld.volatile.shared.b32`.
    ///
    /// # Safety
    /// As for [`Shared::load`].
    #[must_use]
    unsafe fn load[T: Element](shared: Shared<T>, i: u32) -> T = {
        const { assert!(size_of::<T>() == 4, "a load of its own is 4 bytes wide") };
        shared.view.load_opaque::<T>(i)
    };
}

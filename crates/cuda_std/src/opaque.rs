//! Values that are the same as before, but not to those who optimise the kernel.
//!
//! Two do: the compiler (LLVM), and after it the assembler (`ptxas`). Both compute early, in front of a loop,
//! what does not change in it, and keep one register for what they know to be equal. That is right until
//! registers are short: what was computed early takes registers from the whole loop, and a value that two
//! instructions want in different registers, as tensor cores do with their operands, is moved from one to the
//! other in each turn. A value that is opaque is computed, or loaded, where the kernel says. Both unroll
//! loops as well, which [`not_unrolled`] keeps the assembler from.
//!
//! | | instruction | hides a value from | costs |
//! |---|---|---|---|
//! | [`to_compiler`] | `mov.b32` | the compiler; to the assembler it is a copy, of which it sees what it is a copy of | at most a move |
//! | [`to_assembler`] | `shfl.sync.bfly.b32` by no lanes | both | a shuffle, by the whole warp |
//! | [`uniform`] | `shfl.sync.idx.b32` from lane 0 | both, but for its being the same in all lanes | a shuffle, by the whole warp |
//! | [`load`] | `ld.volatile.shared.b32` | both: an element that was loaded before | a load |
//!
//! **Emulator**: values are returned as they are; [`to_assembler`] and [`uniform`] are shuffles and [`load`]
//! a load, with their checks.

use crate::backend;
use crate::element::Element;
use crate::shared::Shared;
use crate::warp;

plain_functions! {
    /// `value`, opaque to the compiler: what depends on it is computed behind this call, and in each turn of
    /// a loop that contains it. `mov.b32`.
    #[must_use]
    fn to_compiler(value: u32) -> u32 = backend::opaque_to_compiler(value);

    /// `a * b`, computed behind this call, and in each turn of a loop that contains it. With a sum behind it,
    /// it is one instruction, of which the compiler makes several where it does not see that upper halves are
    /// zero. `mul.wide.u32`.
    #[must_use]
    fn wide_product(a: u32, b: u32) -> u64 = backend::opaque_wide_product(a, b);

    /// Tells the assembler to leave a loop as it is, at the start of whose body this stands: it unrolls short
    /// ones four times, whatever a loop is that the compiler was kept from unrolling. `.pragma "nounroll"`.
    ///
    /// In front of an instruction of the loop it is without effect, which machine code shows.
    fn not_unrolled() = backend::not_unrolled();
}

device_functions! {
    /// `value`, opaque to the compiler and the assembler, which then have a register for it of its own.
    /// `shfl.sync.bfly.b32`.
    ///
    /// # Safety
    /// All 32 lanes of the warp make this call.
    #[must_use]
    unsafe fn to_assembler(value: u32) -> u32 = warp::warp_shuffle_xor(warp::ALL_LANES, value, 0, 32).0;

    /// The `value` of lane 0, which compiler and assembler then know to be the same in all lanes: addresses
    /// and conditions that depend on it are computed once for the warp. `shfl.sync.idx.b32`.
    ///
    /// # Safety
    /// All 32 lanes of the warp make this call.
    #[must_use]
    unsafe fn uniform(value: u32) -> u32 = warp::warp_shuffle_idx(warp::ALL_LANES, value, 0, 32).0;

    /// Element `i`, a 32-bit one, by a load of its own, although it may have been loaded before. Loading a
    /// value where it is needed is cheaper than copying it there. `ld.volatile.shared.b32`.
    ///
    /// # Safety
    /// As for [`Shared::load`].
    #[must_use]
    unsafe fn load[T: Element](shared: Shared<T>, i: u32) -> T = {
        const { assert!(size_of::<T>() == 4, "a load of its own is 4 bytes wide") };
        shared.view.load_opaque::<T>(i)
    };
}

//! The backend of a host without the emulator: kernels compile but cannot run.
//!
//! A [`Family`](crate::Family) still has names, labels and launch bounds, which suffice to launch on a GPU.
//! Arithmetic functions are the emulator's, which need no launch.

#![allow(
    clippy::extra_unused_type_parameters,
    reason = "the signatures are those of the other backends"
)]

use crate::common::{Element, WarpReductionOp, WarpShuffleMode};

#[path = "emulator/math.rs"]
mod math;

pub(crate) use math::*;

/// The body of a device function in this backend.
#[cold]
pub(crate) fn absent() -> ! {
    panic!("kernels run on a GPU, or on the CPU with cuda_std's feature `emulator`")
}

backend_functions! {
    unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: u32, b: u32, width: u32) -> (u32, bool) = absent();
    unsafe fn match_any_32(mask: u32, value: u32) -> u32 = absent();
    unsafe fn match_any_64(mask: u32, value: u64) -> u32 = absent();
    unsafe fn match_all_32(mask: u32, value: u32) -> bool = absent();
    unsafe fn match_all_64(mask: u32, value: u64) -> bool = absent();
    unsafe fn reduce(mask: u32, value: u32, op: WarpReductionOp, signed: bool) -> u32 = absent();
}

/// The identity of an MMA batch, which only the emulator needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchNumber;

/// A view of global memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalView;

/// A view of shared memory.
#[derive(Debug, Clone, Copy)]
pub struct SharedView;

/// A static shared array's declaration.
#[derive(Debug)]
pub struct SharedSymbol;

impl SharedSymbol {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(_: &'static str, _: u32, _: u32) -> Self {
        SharedSymbol
    }

    #[doc(hidden)]
    pub fn view(&'static self) -> SharedView {
        absent()
    }
}

/// An element type that can be added to.
pub trait AtomicAdd: Element {}

/// An integer element type.
pub trait AtomicInteger: Element {}

macro_rules! atomics {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}
atomics!(AtomicAdd: u32, i32, u64, f32, f64);
atomics!(AtomicInteger: u32, i32, u64);

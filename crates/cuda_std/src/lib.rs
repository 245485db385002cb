//! Device library for GPU kernels in Rust, and a CPU emulator that runs the same kernels unchanged.
//!
//! A kernel is an `unsafe fn` with [`#[kernel]`](macro@kernel). Compiled for `nvptx64-nvidia-cuda`, each
//! function of this crate becomes the PTX instruction that its documentation names. Compiled for any other
//! target, with the feature `emulator`, the same kernel runs under `emulator`. The emulator executes grids,
//! blocks, warps and barriers on the CPU, and reports undefined behaviour of a GPU: accesses out of bounds,
//! reads of uninitialised memory, data races, and barriers that not all threads reach.
//!
//! Names and signatures follow Rust-CUDA's `cuda_std` wherever it has the function. `COVERAGE.md` beside
//! this crate's manifest lists the supported functions, the differences, and the additions.
//!
//! # For users of the device target
//! The target needs unstable features. This crate enables its own; a kernel crate declares
//! ```ignore
//! #![no_std]
//! #![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
//! ```
//! and is compiled by `cuda_builder`, which makes a stable compiler accept them.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        asm_experimental_arch,
        core_intrinsics,
        link_llvm_intrinsics,
        stdarch_nvptx
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
#![cfg_attr(
    not(any(feature = "emulator", target_arch = "nvptx64")),
    allow(dead_code, unused_imports, unused_unsafe, unused_variables),
    allow(clippy::extra_unused_type_parameters)
)]

#[macro_use]
mod functions;

pub mod async_proxy;
pub mod barrier;
pub mod cluster;
mod common;
pub mod cp_async;
pub mod element;
pub mod global;
pub mod math;
pub mod mbarrier;
pub mod mma;
pub mod opaque;
pub mod packed;
pub mod registers;
pub mod shared;
pub mod storage;
pub mod tensor_map;
pub mod thread;
mod views;
pub mod warp;
pub mod wgmma;

#[cfg(all(not(feature = "emulator"), not(target_arch = "nvptx64")))]
mod absent;
#[cfg(all(feature = "emulator", not(target_arch = "nvptx64")))]
pub mod emulator;
#[cfg(not(target_arch = "nvptx64"))]
mod family;
#[cfg(not(target_arch = "nvptx64"))]
mod launchable;
mod map_modes;
#[cfg(target_arch = "nvptx64")]
mod nvptx;

#[cfg(all(not(feature = "emulator"), not(target_arch = "nvptx64")))]
use absent as backend;
#[cfg(all(feature = "emulator", not(target_arch = "nvptx64")))]
use emulator::backend;
#[cfg(target_arch = "nvptx64")]
use nvptx as backend;

pub use cuda_std_macros::kernel;
#[cfg(not(target_arch = "nvptx64"))]
pub use family::{Family, Instance, NoInstance};
pub use half::{bf16, f16};
#[cfg(not(target_arch = "nvptx64"))]
pub use launchable::{Kernel, KernelArgs, Label, LaunchBounds};
pub use math::GpuFloat;
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use nvptx::begin_kernel;
pub use storage::Storage;

/// Items of a kernel that only the emulator needs.
#[cfg(feature = "emulator")]
#[doc(hidden)]
#[macro_export]
macro_rules! emulated {
    ($($item:tt)*) => { $($item)* };
}

/// Items of a kernel that only the emulator needs.
#[cfg(not(feature = "emulator"))]
#[doc(hidden)]
#[macro_export]
macro_rules! emulated {
    ($($item:tt)*) => {};
}

/// The items that most kernels import.
pub mod prelude {
    pub use crate::global::{Global, GlobalMut};
    pub use crate::math::GpuFloat;
    pub use crate::shared::Shared;
    pub use crate::storage::Storage;
    pub use crate::{bf16, f16, kernel, shared_array, thread, warp};
}

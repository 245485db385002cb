//! Compiles a GPU kernel crate to PTX with stock rustc.
//!
//! rustc has a PTX backend: the target `nvptx64-nvidia-cuda`. An ordinary installation lacks a compiled
//! `core` for it, and a stable compiler refuses the necessary unstable features. This crate solves both
//! problems, and completes the compiler's output:
//!
//! 1. It finds a compiler whose sources of `core` are installed ([`Toolchain::find`]).
//! 2. It builds `core` and the kernel crate with fat link-time optimisation, so that the assembly
//!    of the last crate is the whole PTX module, and no linker is needed.
//! 3. It adds to the module the properties that Rust cannot express: launch bounds
//!    ([`apply_launch_bounds`]) and the alignment of tensor maps ([`align_tensor_maps`]).
//!
//! The builder has the names of Rust-CUDA's `cuda_builder`, so build scripts for that crate need few
//! changes. Options that do not apply to stock rustc (libnvvm options, optix) are absent.
//!
//! For crates that ship compiled PTX, [`KernelSet`] decides between the shipped PTX and compiling: it uses
//! the shipped PTX until the kernels' sources change. It stores each kernel as a module of its own
//! ([`split`]) in archives (the crate `kernel-archive`), with its machine code beside the PTX.
//!
//! # Examples
//!
//! In a build script:
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! CudaBuilder::new("../kernels")
//!     .arch(Arch::Sm80)
//!     .copy_to("kernels.ptx")
//!     .build()?;
//! # Ok::<(), cuda_builder::Error>(())
//! ```
//!
//! # Environment
//!
//! `CUDA_BUILDER_RUSTC` names the compiler for devices; `none` disables it. If it names a compiler,
//! [`KernelSet::resolve`] returns kernels of that compiler.

mod arch;
mod builder;
mod cargo;
mod error;
mod kernel_set;
mod launch_bounds;
mod origin;
mod shipped;
mod source_hash;
mod split;
mod tensor_maps;
mod toolchain;
mod verdict;

pub use arch::Arch;
pub use builder::{CudaBuilder, Module};
pub use error::{Error, Result};
pub use kernel_set::{KernelFiles, KernelSet, Shipment};
pub use launch_bounds::apply_launch_bounds;
pub use origin::Origin;
pub use shipped::{MachineCode, ShippedHeader, machine_code_archive, ptx_archive};
pub use source_hash::source_hash;
pub use split::{KernelModule, split};
pub use tensor_maps::align_tensor_maps;
pub use toolchain::Toolchain;
pub use verdict::{Rejected, Verdict};

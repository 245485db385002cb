//! Compiles a GPU kernel crate to PTX with stock rustc.
//!
//! rustc has had a PTX backend for years: the target `nvptx64-nvidia-cuda`. What an ordinary
//! installation lacks is a `core` for it, and a stable compiler refuses the features around it. This
//! crate sees to both, and does what the compiler leaves undone:
//!
//! 1. It finds a compiler whose sources of `core` are installed ([`Toolchain::find`]).
//! 2. It builds `core` and the kernel crate with fat link-time optimisation, so that the assembly
//!    of the last crate is the whole PTX module, and no linker is needed.
//! 3. It writes into the module what Rust cannot say: launch bounds ([`apply_launch_bounds`]), and on what
//!    tensor maps lie ([`align_tensor_maps`]).
//!
//! The builder has the names of Rust-CUDA's `cuda_builder`, so a build script written for that one
//! needs little change. What does not apply to stock rustc (libnvvm options, optix) is not there.
//!
//! For crates that carry compiled PTX, [`KernelSet`] decides between that and compiling: it takes what is
//! carried along until the kernels' sources change. It keeps kernels one by one ([`split`]), in archives (the
//! crate `kernel-archive`), and their machine code beside the PTX.
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
//! `CUDA_BUILDER_RUSTC` names the compiler to use for devices, or is `none`: then none is used. A name asks
//! [`KernelSet::resolve`] for kernels of that compiler.

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
pub use toolchain::{Rejected, Toolchain, Verdict};

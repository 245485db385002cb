//! The GPU kernels of convfuse.
//!
//! One file per operator, and [`fused`] for kernels that do several operators' work. The same
//! source runs on GPUs and in the emulator of `cuda_std`. What a kernel and its launch must agree
//! on, tiles and geometries, is in `launch_config`.
//!
//! Kernels are generic over the type that tensors are stored in (f32, f16, bf16), some over tiles and ways to
//! multiply as well; arithmetic is f32. `#[kernel]` names the instances of each, and nothing else does: hosts
//! pick one from the kernel's family by its labels.
//!
//! | file | what it holds |
//! |---|---|
//! | `conv/`, `conv_transpose`, `group_norm`, `norm_nhwc`, `layer_norm`, `batch_norm`, `arithmetic`, `scale`, `max_pool2d`, `pool`, `pointwise`, `channel_reduction`, `reduction`, `reduction_nhwc`, `softmax`, `upsample`, `gate` | the operators |
//! | `fused/` | their fusions |
//! | `one_launch/` | problems 85 and 79 of KernelBench in one launch each |
//! | `copy_strided`, `copy_rows` | arrays with any strides, made dense; parts of rows |
//! | `peak/` | no operators: what the device can do at most, for benchmarks |
//! | `parts/`: `elementwise`, `normalise`, `pool`, `channel_reduce` | the loops that operators and fusions share |
//! | `parts/`: `map`, `planes`, `reduction_operations` | what these loops do with an element |
//! | `parts/`: `pointwise`, `exponential` | lists of pointwise functions, and what these are made of |
//! | `parts/`: `moments` | statistics |
//! | `parts/`: `series` | values along an axis, in registers of several threads |
//! | `parts/`: `nhwc`, `pair` | runs of outputs, and pairs of channels, of channels-last tensors |
//! | `parts/`: `lanes`, `prescale` | what lanes of a warp combine; how f32 comes into f16's range |
//! | `parts/`: `index`, `unroll` | arithmetic of positions, and loops that are written out |
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// A kernel is unsafe from its first line to its last: it reads and writes through pointers that its
// launch vouches for. Each kernel's `# Safety` section says what it relies on, for all of its body.
#![allow(unsafe_op_in_unsafe_fn)]
// A kernel takes each tensor as a pointer, and its body takes what the kernel takes.
#![allow(clippy::too_many_arguments)]

pub mod arithmetic;
pub mod batch_norm;
pub mod channel_reduction;
pub mod conv;
pub mod conv_transpose;
pub mod copy_rows;
pub mod copy_strided;
pub mod fused;
pub mod gate;
pub mod group_norm;
pub mod instance_norm;
pub mod layer_norm;
pub mod max_pool2d;
pub mod norm_nhwc;
pub mod one_launch;
pub mod peak;
pub mod pointwise;
pub mod pool;
pub mod prelu;
pub mod reduction;
pub mod reduction_nhwc;
pub mod scale;
pub mod softmax;
pub mod upsample;

mod parts;

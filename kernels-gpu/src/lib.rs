//! The GPU kernels of convfuse.
//!
//! The crate has one file per operator, and [`fused`] for kernels that compute several operators. The same
//! source runs on GPUs and in the emulator of `cuda_std`. `launch_config` defines the tiles and geometries
//! that a kernel shares with its launch.
//!
//! Kernels are generic over the storage type of tensors (f32, f16, bf16), and some over tiles and math modes.
//! Arithmetic is f32. Only the attribute `#[kernel]` names a kernel's instances. Hosts pick an instance from
//! the kernel's family by its labels.
//!
//! | file | contents |
//! |---|---|
//! | `conv/`, `conv_transpose`, `max_pool2d`, `pool`, `upsample` | convolutions, pools, upsampling |
//! | `group_norm`, `instance_norm`, `norm_nhwc`, `layer_norm`, `batch_norm`, `softmax` | norms and softmax |
//! | `arithmetic`, `scale`, `prelu`, `pointwise`, `gate` | elementwise operators |
//! | `channel_reduction`, `reduction`, `reduction_nhwc` | reductions |
//! | `fused/` | fusions of these operators |
//! | `one_launch/` | problems 85 and 79 of KernelBench in one launch each |
//! | `copy_strided`, `copy_rows` | copies of strided arrays to dense ones, and of parts of rows |
//! | `peak/` | peak throughput of the device, for benchmarks |
//! | `parts/`: `elementwise`, `pool`, `channel_reduce` | the loops that operators and fusions share |
//! | `parts/`: `map`, `planes`, `reduction_operations` | the functions that these loops apply to elements |
//! | `parts/`: `pointwise`, `exponential`, `coarse` | lists of pointwise functions, and the exponentials in them |
//! | `parts/`: `moments`, `batch_norm`, `extrema` | statistics, folded batch norms, pooling before a norm |
//! | `parts/`: `series` | values along an axis, in registers of several threads |
//! | `parts/`: `store` | epilogues of convolutions without a norm |
//! | `parts/`: `pipeline` | pipeline stages in shared memory and their barriers |
//! | `parts/`: `nhwc`, `pair` | runs of outputs, and pairs of channels, of channels-last tensors |
//! | `parts/`: `lanes`, `prescale` | reductions over the lanes of a warp; scaling of f32 into f16's range |
//! | `parts/`: `index`, `unroll` | index arithmetic; unrolled loops |
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// A kernel's whole body is unsafe: it reads and writes through pointers that its launch guarantees. Each
// kernel's `# Safety` section states the preconditions of the whole body.
#![allow(unsafe_op_in_unsafe_fn)]
// A kernel takes each tensor as a pointer, and its body function takes the same arguments.
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

//! The tests of launch configurations, in one binary.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::GemmDevice;
use launch_config::{Arch, KernelGeometry};
use op_spec::Conv3dSpec;

/// A device with warp MMA alone.
const AMPERE: GemmDevice = GemmDevice {
    multiprocessors: 132,
    shared_bytes: 227 * 1024,
    arch: Arch::Sm80,
    tensor_rates: None,
};

/// The same device with warpgroup MMA.
const HOPPER: GemmDevice = GemmDevice {
    arch: Arch::Sm90,
    ..AMPERE
};

/// Returns a convolution from its input's shape, filter's shape and attributes.
fn conv(input: [usize; 5], weight: [usize; 5], spec: Conv3dSpec) -> ConvGeometry {
    let problem = spec
        .problem(&input, &weight, None)
        .expect("a sound problem");
    problem.geometry().expect("a small problem")
}

mod channels_last;
mod dense_f32;
mod gemm;
mod implicit_gemm;
mod launch;
mod limits;
mod split_k;
mod warp_specialized_choice;
mod warp_specialized_tiles;
mod without_norm;

//! Sets `cfg(hopper)` where kernels are compiled that only Hopper can run: in the module for it, and on
//! hosts, whose emulator has all that it has.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // From the flag by which `cuda_builder` tells all crates what they are compiled for.
    let device = env::var("CARGO_CFG_CUDA_ARCH").unwrap_or_default();
    if target != "nvptx64" || device == "sm_90a" {
        println!("cargo::rustc-cfg=hopper");
    }
}

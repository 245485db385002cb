//! Gives the linker an empty `libcuda.so`, so that this crate builds without a CUDA SDK.
//!
//! `cust`'s build script asks for `-lcuda`. With a CUDA SDK, it also gives the folder of the SDK's library.
//! Without one, this script gives the folder of the empty library.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("no-sdk/lib64");
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
}

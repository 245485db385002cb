//! Gives the linker a `libcuda.so` that adds nothing, wherever this crate is built.
//!
//! `cust`'s build script asks for `-lcuda`. Where a CUDA SDK is installed it says where that is; where none
//! is, this does.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("no-sdk/lib64");
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
}

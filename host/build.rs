//! Build script of the `convfuse` package: gives it the kernels.
//!
//! They are those in host/ptx, which `cargo xtask ptx` made. Where the kernels' sources are there and have
//! changed since, or `CUDA_BUILDER_RUSTC` names a compiler for devices, PTX is compiled now
//! (crates/cuda_builder says what that takes). One line says which kernels the build has. Machine code is
//! always that of host/ptx; the library leaves out what was made of other PTX. It finds them in these
//! variables, at compile time:
//!
//! | variable | value |
//! |---|---|
//! | `CONVFUSE_PTX` | path of the archive with PTX |
//! | `CONVFUSE_MACHINE_CODE` | path of the archive with machine code |
//! | `CONVFUSE_PTX_ORIGIN` | where the PTX comes from, as a sentence |

#[path = "ptx/kernel_set.rs"]
mod kernel_set;

use std::env;
use std::error::Error;
use std::path::PathBuf;

use cuda_builder::KernelFiles;

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);

    let kernels = kernel_set::kernel_set(&package);
    for file in kernels.watched_files()? {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    for file in ["build.rs", "ptx/kernel_set.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=CUDA_BUILDER_RUSTC");

    let KernelFiles {
        ptx,
        machine_code,
        origin,
    } = kernels.resolve(&out_dir)?;
    println!("cargo::rustc-env=CONVFUSE_PTX={}", ptx.display());
    println!(
        "cargo::rustc-env=CONVFUSE_MACHINE_CODE={}",
        machine_code.display()
    );
    println!("cargo::rustc-env=CONVFUSE_PTX_ORIGIN={origin}");
    // Of a build script's lines Cargo shows warnings alone. Any other line is in the script's output, the
    // file `build/convfuse-*/output` of the target folder.
    match origin.notice() {
        Some(notice) => println!("cargo::warning={notice}"),
        None => println!("kernels: {origin}"),
    }
    Ok(())
}

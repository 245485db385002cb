//! Build script of the `convfuse` package: gives it the kernels.
//!
//! Where a compiler for devices is installed (crates/cuda_builder says what that takes), the kernels are
//! compiled now; elsewhere, and where that very compiler has made it, the PTX in host/ptx is used, which
//! `cargo xtask ptx` made from the same sources. Machine code is always that of host/ptx; the library leaves
//! out what was made of other PTX. It finds them in these variables, at compile time:
//!
//! | variable | value |
//! |---|---|
//! | `CONVFUSE_PTX` | path of the archive with PTX |
//! | `CONVFUSE_MACHINE_CODE` | path of the archive with machine code |
//! | `CONVFUSE_PTX_ORIGIN` | where the PTX comes from, as a sentence |

#[path = "host/ptx/kernel_set.rs"]
mod kernel_set;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use cuda_builder::{KernelFiles, Origin};

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = package.parent().unwrap_or(Path::new("."));
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);

    let kernels = kernel_set::kernel_set(root);
    for file in kernels.watched_files()? {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!(
        "cargo::rerun-if-changed={}",
        root.join("build.rs").display()
    );
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
    println!("cargo::rustc-env=CONVFUSE_PTX_ORIGIN={}", describe(&origin));
    Ok(())
}

/// Says where the PTX comes from, and warns of what the user may want to know.
fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Compiled(toolchain) => format!("compiled with {toolchain}"),
        Origin::Unchanged(header) => format!("shipped, compiled with {}", header.compiler),
        Origin::Shipped {
            header,
            stale,
            reason,
        } => {
            let has_toolchain = !matches!(
                reason,
                cuda_builder::Error::NoToolchain(_) | cuda_builder::Error::ToolchainDisabled
            );
            if *stale {
                println!("cargo::warning=using shipped kernels of older kernel sources: {reason}");
            } else if has_toolchain {
                println!("cargo::warning=using shipped kernels: {reason}");
            }
            format!("shipped, compiled with {}", header.compiler)
        }
    }
}

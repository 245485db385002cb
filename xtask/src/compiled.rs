//! The kernels, freshly compiled.

use std::fs;
use std::path::Path;

use anyhow::Result;
use cuda_builder::{Arch, KernelSet, Module, ShippedHeader, Toolchain};

use crate::kernel_set::kernel_set;
use crate::paths::target_dir;

/// Freshly compiled kernels.
pub(crate) struct Compiled {
    pub(crate) set: KernelSet,
    pub(crate) toolchain: Toolchain,
    pub(crate) modules: Vec<(Arch, Module)>,
}

/// Compiles the kernels from source.
pub(crate) fn compile(root: &Path) -> Result<Compiled> {
    let mut set = kernel_set(&root.join("host"));
    // The build script's target folder, so that `core` is compiled only once.
    set.target_dir = Some(target_dir(root).join("cuda_builder"));
    let toolchain = toolchain_of_shipped(&set)?;
    let folder = target_dir(root).join("xtask-ptx");
    fs::create_dir_all(&folder)?;
    eprintln!("compiling the kernels with {toolchain}");
    let modules = set.compile(&toolchain, &folder).inspect_err(|error| {
        if let cuda_builder::Error::Compile { output, .. } = error {
            eprintln!("{output}");
        }
    })?;
    Ok(Compiled {
        set,
        toolchain,
        modules,
    })
}

/// The compiler of the shipped kernels, whose PTX text is comparable. If it is not installed, the first
/// compiler found.
fn toolchain_of_shipped(set: &KernelSet) -> cuda_builder::Result<Toolchain> {
    let mut installed = Toolchain::find_all()?;
    let header = ShippedHeader::read(&set.header_path()).ok();
    let same = installed.iter().position(|toolchain| {
        header
            .as_ref()
            .is_some_and(|header| header.compiler == toolchain.to_string())
    });
    Ok(installed.swap_remove(same.unwrap_or(0)))
}

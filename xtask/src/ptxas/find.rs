//! Finding the assembler: named by `PTXAS`, on the `PATH`, or from NVIDIA's package on PyPI.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::cmd;

use crate::paths::{shell, target_dir};

/// The package with `ptxas`, in the version of the oldest driver for CUDA 13. Shipped machine code is
/// compared with the output of this version.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.88";

/// The path of `ptxas`, which is fetched into the target folder if necessary.
pub(super) fn ptxas(root: &Path) -> Result<PathBuf> {
    if let Some(named) = env::var_os("PTXAS").filter(|value| !value.is_empty()) {
        return Ok(named.into());
    }
    let search = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&search).map(|folder| folder.join("ptxas"));
    if let Some(found) = on_path.into_iter().find(|path| path.is_file()) {
        return Ok(found);
    }
    let folder = target_dir(root).join("ptxas");
    if let Some(found) = in_package(&folder) {
        return Ok(found);
    }
    eprintln!("fetching ptxas ({PACKAGE}) from PyPI");
    let shell = shell(root)?;
    cmd!(
        shell,
        "python3 -m pip install --quiet --no-deps --target {folder} {PACKAGE}"
    )
    .quiet()
    .run()
    .context("set PTXAS to the assembler of a CUDA SDK")?;
    in_package(&folder).with_context(|| format!("{PACKAGE} in {} has no ptxas", folder.display()))
}

/// The package keeps its programs in `nvidia/cu13/bin`.
fn in_package(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder.join("nvidia")).ok()?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/ptxas")))
        .find(|path| path.is_file())
}

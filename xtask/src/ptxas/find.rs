//! Finding the assembler: named by `PTXAS`, on the `PATH`, or from NVIDIA's package on PyPI.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that has `ptxas`, at the version of the oldest driver with CUDA 13. Shipped machine code is
/// compared with what this one makes.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.88";

/// The path of `ptxas`, which is fetched into the target folder if need be.
pub(super) fn ptxas(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(named) = env::var_os("PTXAS").filter(|value| !value.is_empty()) {
        return Ok(named.into());
    }
    let search = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&search).map(|folder| folder.join("ptxas"));
    if let Some(found) = on_path.into_iter().find(|path| path.is_file()) {
        return Ok(found);
    }
    let folder = crate::ptx::target_dir(root).join("ptxas");
    if let Some(found) = in_package(&folder) {
        return Ok(found);
    }
    eprintln!("fetching ptxas ({PACKAGE}) from PyPI");
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&folder)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => in_package(&folder)
            .ok_or_else(|| format!("{PACKAGE} in {} has no ptxas", folder.display()).into()),
        Ok(status) => Err(format!("pip: {status}; {}", what_to_do()).into()),
        Err(error) => Err(format!("python3: {error}; {}", what_to_do()).into()),
    }
}

fn what_to_do() -> &'static str {
    "set PTXAS to the assembler of a CUDA SDK"
}

/// The package keeps its programs in `nvidia/cu13/bin`.
fn in_package(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder.join("nvidia")).ok()?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/ptxas")))
        .find(|path| path.is_file())
}

//! The builder, which turns settings into a PTX module.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{Compilation, Names};
use crate::{Arch, Error, Result, Toolchain, align_tensor_maps, apply_launch_bounds};

/// Compiles one kernel crate to one PTX module.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    crate_path: PathBuf,
    arch: Arch,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    toolchain: Option<Toolchain>,
}

/// A compiled module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// The path of the module: the path given to [`CudaBuilder::copy_to`], if any.
    pub path: PathBuf,
    /// The PTX.
    pub ptx: String,
    /// The compiler that made the module.
    pub toolchain: Toolchain,
}

impl CudaBuilder {
    /// Builds the kernel crate in this folder, for [`Arch::Sm80`], in release mode.
    pub fn new(crate_path: impl AsRef<Path>) -> Self {
        Self {
            crate_path: crate_path.as_ref().into(),
            arch: Arch::Sm80,
            copy_to: None,
            target_dir: None,
            toolchain: None,
        }
    }

    /// Sets the target architecture. The crates of the device build see it as `cfg(cuda_arch = "sm_90a")`.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Copies the module to this file.
    #[must_use]
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().into());
        self
    }

    /// Sets the folder for intermediate results. By default the build scripts of a workspace share one, so
    /// that `core` is compiled once for all profiles.
    #[must_use]
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().into());
        self
    }

    /// Sets the compiler. By default [`Toolchain::find`] chooses it.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Compiles the crate.
    ///
    /// # Errors
    ///
    /// If there is no device toolchain or no crate, if the crate does not compile, if launch bounds are
    /// wrong, or if a file cannot be written.
    pub fn build(self) -> Result<Module> {
        let crate_path = fs::canonicalize(&self.crate_path)
            .map_err(|_| Error::CrateNotFound(self.crate_path.clone()))?;
        let names = Names::read(&crate_path)?;
        let toolchain = self.toolchain.map_or_else(Toolchain::find, Ok)?;
        let target_dir = self
            .target_dir
            .unwrap_or_else(|| default_target_dir(&crate_path));
        fs::create_dir_all(&target_dir).map_err(Error::io("creating", &target_dir))?;
        let target_dir =
            fs::canonicalize(&target_dir).map_err(Error::io("finding", &target_dir))?;

        let compilation = Compilation {
            toolchain: &toolchain,
            crate_path: &crate_path,
            names: &names,
            arch: self.arch,
            target_dir: &target_dir,
        };
        compilation.run()?;

        let assembly = compilation.assembly();
        let text = fs::read_to_string(&assembly).map_err(Error::io("reading", &assembly))?;
        let ptx = without_comments(&align_tensor_maps(&apply_launch_bounds(&text)?)?);
        let path = self
            .copy_to
            .unwrap_or_else(|| assembly.with_extension("ptx"));
        write_if_changed(&path, &ptx)?;
        Ok(Module {
            path,
            ptx,
            toolchain,
        })
    }
}

/// Removes comment lines and empty lines. Comments are a third of the compiler's lines in kernels with
/// `asm!`.
fn without_comments(ptx: &str) -> String {
    let code = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    };
    ptx.lines()
        .filter(code)
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Returns `<target>/cuda_builder`. In a build script, `<target>` is the outer build's target folder
/// (`OUT_DIR` is `<target>/<profile>/build/<package>/out`), else the crate's own.
///
/// The result is never the outer build's folder itself, because cargo holds a lock on it.
fn default_target_dir(crate_path: &Path) -> PathBuf {
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from);
    let outer = out_dir.as_deref().and_then(|path| path.ancestors().nth(4));
    match outer {
        Some(target) => target.join("cuda_builder"),
        None => crate_path.join("target/cuda_builder"),
    }
}

/// Writes a file, unless it already has these bytes. An unchanged file keeps its dependents fresh.
pub(crate) fn write_if_changed(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let bytes = bytes.as_ref();
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(Error::io("writing", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_crate_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = CudaBuilder::new(root.path()).build().unwrap_err();
        assert!(matches!(error, Error::CrateNotFound(_)), "{error}");
        let error = CudaBuilder::new(root.path().join("absent"))
            .build()
            .unwrap_err();
        assert!(matches!(error, Error::CrateNotFound(_)), "{error}");
    }

    #[test]
    fn comments_and_empty_lines_are_left_out() {
        let ptx = "//\n\n.version 8.0\n\t// begin inline asm\n\tret; // done\n";
        assert_eq!(without_comments(ptx), ".version 8.0\n\tret; // done\n");
    }
}

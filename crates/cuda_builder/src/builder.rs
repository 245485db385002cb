//! The builder: settings in, PTX module out.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::Compilation;
use crate::{Arch, Error, PtxVersion, Result, Toolchain, align_tensor_maps, apply_launch_bounds};

/// The PTX version of modules unless told otherwise: what the drivers of CUDA 12.0 read.
const DEFAULT_PTX_VERSION: PtxVersion = PtxVersion::new(8, 0);

/// The same for Hopper alone, whose stores to other blocks of a cluster came with CUDA 12.1.
const HOPPER_PTX_VERSION: PtxVersion = PtxVersion::new(8, 1);

/// Compiles one kernel crate to one PTX module.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    crate_path: PathBuf,
    arch: Arch,
    ptx_version: Option<PtxVersion>,
    release: bool,
    debug: bool,
    emit_llvm_ir: bool,
    copy_to: Option<PathBuf>,
    final_module_path: Option<PathBuf>,
    build_args: Vec<String>,
    target_dir: Option<PathBuf>,
    toolchain: Option<Toolchain>,
}

/// A compiled module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// Where the module lies: the path given to [`CudaBuilder::copy_to`] if any.
    pub path: PathBuf,
    /// The PTX.
    pub ptx: String,
    /// The compiler that it is from.
    pub toolchain: Toolchain,
}

impl CudaBuilder {
    /// Builds the kernel crate in this folder, for [`Arch::Sm80`], in release mode.
    pub fn new(crate_path: impl AsRef<Path>) -> Self {
        Self {
            crate_path: crate_path.as_ref().into(),
            arch: Arch::Sm80,
            ptx_version: None,
            release: true,
            debug: false,
            emit_llvm_ir: false,
            copy_to: None,
            final_module_path: None,
            build_args: Vec::new(),
            target_dir: None,
            toolchain: None,
        }
    }

    /// The architecture to build for. The crates of the device build see it as
    /// `cfg(cuda_arch = "sm_90a")`.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// The PTX version to write; by default 8.0, 8.1 for `sm_90a`, or the first that knows a newer
    /// architecture.
    #[must_use]
    pub fn ptx_version(mut self, version: PtxVersion) -> Self {
        self.ptx_version = Some(version);
        self
    }

    /// Whether to optimise fully (the default) or a little, for reading the PTX.
    #[must_use]
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Whether the module names the source line of each instruction, for profilers and
    /// `compute-sanitizer`.
    #[must_use]
    pub fn debug(mut self, line_info: bool) -> Self {
        self.debug = line_info;
        self
    }

    /// Whether the compiler writes its intermediate representation beside the module, as `.ll`.
    #[must_use]
    pub fn emit_llvm_ir(mut self, emit: bool) -> Self {
        self.emit_llvm_ir = emit;
        self
    }

    /// Copies the module to this file.
    #[must_use]
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().into());
        self
    }

    /// Copies the intermediate representation to this file; implies
    /// [`emit_llvm_ir`](Self::emit_llvm_ir).
    #[must_use]
    pub fn final_module_path(mut self, path: impl AsRef<Path>) -> Self {
        self.final_module_path = Some(path.as_ref().into());
        self.emit_llvm_ir(true)
    }

    /// More arguments for cargo, such as `--features=x`.
    #[must_use]
    pub fn build_args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.build_args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The folder for intermediate results; by default one that the build scripts of a workspace
    /// share, so that `core` is compiled once for all profiles.
    #[must_use]
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().into());
        self
    }

    /// The compiler to use; by default [`Toolchain::find`] decides.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Compiles the crate.
    ///
    /// # Errors
    ///
    /// Without a device toolchain or the crate, if the crate does not compile, if launch bounds are
    /// wrong, or if a file cannot be written.
    pub fn build(self) -> Result<Module> {
        let crate_path = fs::canonicalize(&self.crate_path)
            .map_err(|_| Error::CrateNotFound(self.crate_path.clone()))?;
        let package = package_name(&crate_path)?;
        let ptx_version = self.checked_ptx_version()?;
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
            package: &package,
            arch: self.arch,
            ptx_version,
            opt_level: if self.release { 3 } else { 1 },
            line_info: self.debug,
            emit_llvm_ir: self.emit_llvm_ir,
            target_dir: &target_dir,
            build_args: &self.build_args,
        };
        compilation.run()?;

        let assembly = compilation.assembly();
        let text = fs::read_to_string(&assembly).map_err(Error::io("reading", &assembly))?;
        let ptx = without_comments(&align_tensor_maps(&apply_launch_bounds(&text)?)?);
        let path = self
            .copy_to
            .unwrap_or_else(|| assembly.with_extension("ptx"));
        write_if_changed(&path, &ptx)?;
        if let Some(copy) = self.final_module_path {
            let ir = compilation.llvm_ir();
            fs::copy(&ir, &copy).map_err(Error::io("copying to", &copy))?;
        }
        Ok(Module {
            path,
            ptx,
            toolchain,
        })
    }

    fn checked_ptx_version(&self) -> Result<PtxVersion> {
        let first = self.arch.first_ptx_version();
        match self.ptx_version {
            Some(asked) if asked < first => Err(Error::PtxVersionTooOld {
                arch: self.arch,
                asked,
                first,
            }),
            Some(asked) => Ok(asked),
            None if self.arch == Arch::Sm90a => Ok(HOPPER_PTX_VERSION),
            None => Ok(first.max(DEFAULT_PTX_VERSION)),
        }
    }
}

/// Leaves out the lines that are comments, a third of the compiler's lines where kernels use `asm!`,
/// and empty ones.
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

/// The value of `name` in the `[package]` section of a crate's manifest.
fn package_name(crate_path: &Path) -> Result<String> {
    let manifest = crate_path.join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).map_err(|_| Error::CrateNotFound(crate_path.to_owned()))?;
    let mut lines = text.lines().map(str::trim);
    lines.find(|&line| line == "[package]");
    lines
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| {
            let (key, value) = line.split_once('=')?;
            let value = value.trim().strip_prefix('"')?;
            (key.trim() == "name").then_some(value.split('"').next()?.to_owned())
        })
        .ok_or(Error::NoPackageName(manifest))
}

/// `<target>/cuda_builder`, where `<target>` is the outer build's if this runs in a build script
/// (`OUT_DIR` is `<target>/<profile>/build/<package>/out`), else the crate's own.
///
/// It is never the outer build's folder itself: cargo holds a lock on that one.
fn default_target_dir(crate_path: &Path) -> PathBuf {
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from);
    let outer = out_dir.as_deref().and_then(|path| path.ancestors().nth(4));
    match outer {
        Some(target) => target.join("cuda_builder"),
        None => crate_path.join("target/cuda_builder"),
    }
}

/// Writes a file unless it has this text already, so that what depends on it stays fresh.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

/// Writes a file unless it has these bytes already, so that what depends on it stays fresh.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
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
    fn the_package_is_named_by_its_own_section() {
        let root = tempfile::tempdir().unwrap();
        let manifest = root.path().join("Cargo.toml");
        fs::write(
            &manifest,
            "[lib]\nname = \"x\"\n[package]\nname = \"kernels\" # y\n",
        )
        .unwrap();
        assert_eq!(package_name(root.path()).unwrap(), "kernels");
        fs::write(&manifest, "[package]\n[lib]\nname = \"x\"\n").unwrap();
        assert!(matches!(
            package_name(root.path()).unwrap_err(),
            Error::NoPackageName(_)
        ));
    }

    #[test]
    fn comments_and_empty_lines_are_left_out() {
        let ptx = "//\n\n.version 8.0\n\t// begin inline asm\n\tret; // done\n";
        assert_eq!(without_comments(ptx), ".version 8.0\n\tret; // done\n");
    }

    #[test]
    fn ptx_versions_that_do_not_know_the_architecture_are_refused() {
        let builder = CudaBuilder::new(".").arch(Arch::Sm100a);
        assert_eq!(
            builder.checked_ptx_version().unwrap(),
            PtxVersion::new(8, 6)
        );
        let error = builder.ptx_version(PtxVersion::new(8, 0));
        let error = error.checked_ptx_version().unwrap_err().to_string();
        assert_eq!(
            error,
            "PTX version: 8.0 does not know sm_100a, the first that does is 8.6"
        );
        let sm_80 = CudaBuilder::new(".").checked_ptx_version().unwrap();
        assert_eq!(sm_80, DEFAULT_PTX_VERSION);
    }
}

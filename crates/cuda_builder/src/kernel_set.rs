//! PTX that travels with a crate: compiled afresh where possible, else as it was shipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::builder::write_if_changed;
use crate::source_hash::source_files;
use crate::{Arch, CudaBuilder, Error, Module, PtxVersion, Result, Toolchain, source_hash};

/// A kernel crate, the architectures to build it for, and the folder with its shipped PTX.
#[derive(Clone, Debug)]
pub struct KernelSet {
    /// The stem of the PTX files: `kernels` gives `kernels_sm_80.ptx`.
    pub name: String,
    /// The kernel crate.
    pub crate_path: PathBuf,
    /// The crates whose sources decide what the PTX is, the kernel crate among them.
    pub sources: Vec<PathBuf>,
    /// One module is built for each.
    pub archs: Vec<Arch>,
    /// The folder with the shipped PTX.
    pub shipped: PathBuf,
    /// The folder for intermediate results, if not the default of
    /// [`CudaBuilder::target_dir`].
    pub target_dir: Option<PathBuf>,
}

/// Where modules come from.
#[derive(Debug)]
pub enum Origin {
    /// They were compiled just now.
    Compiled(Toolchain),
    /// They are the shipped ones.
    Shipped {
        /// Their header.
        header: ShippedHeader,
        /// Whether the sources have changed since.
        stale: bool,
        /// Why they were not compiled.
        reason: Error,
    },
}

/// The modules of a set, in the order of its architectures.
#[derive(Debug)]
pub struct KernelModules {
    /// The PTX file of each architecture.
    pub modules: Vec<(Arch, PathBuf)>,
    /// Where they come from.
    pub origin: Origin,
}

/// The comment at the head of a shipped module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShippedHeader {
    /// [`source_hash`] of what it was compiled from.
    pub sources: String,
    /// The compiler.
    pub compiler: String,
}

const SOURCES_LABEL: &str = "// sources: sha256 ";
const COMPILER_LABEL: &str = "// compiler: ";

impl ShippedHeader {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("reading", path))?;
        Self::parse(&text).ok_or_else(|| Error::NoHeader(path.into()))
    }

    /// The header of a shipped module's text.
    pub fn parse(text: &str) -> Option<Self> {
        let field = |label| {
            text.lines()
                .take(5)
                .find_map(|line| line.strip_prefix(label))
        };
        Some(Self {
            sources: field(SOURCES_LABEL)?.trim().to_owned(),
            compiler: field(COMPILER_LABEL)?.trim().to_owned(),
        })
    }

    /// The text of a shipped module.
    fn with_module(&self, arch: Arch, ptx: &str) -> String {
        format!(
            "// Compiled for {arch} from the kernel sources; not to be edited.\n\
             {SOURCES_LABEL}{}\n{COMPILER_LABEL}{}\n{ptx}",
            self.sources, self.compiler
        )
    }
}

impl KernelSet {
    /// The files that a build script should watch.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be listed.
    pub fn watched_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = source_files(&self.sources)?;
        files.extend(self.archs.iter().map(|&arch| self.shipped_path(arch)));
        // New files show as changes of their folder.
        files.extend(self.sources.iter().map(|path| path.join("src")));
        Ok(files)
    }

    /// The shipped module for an architecture.
    pub fn shipped_path(&self, arch: Arch) -> PathBuf {
        self.shipped.join(self.file_name(arch))
    }

    fn file_name(&self, arch: Arch) -> String {
        format!("{}_{arch}.ptx", self.name)
    }

    /// Compiles all modules, the architectures side by side.
    ///
    /// # Errors
    ///
    /// Those of [`CudaBuilder::build`], of the first architecture that fails.
    pub fn compile(&self, toolchain: &Toolchain, folder: &Path) -> Result<Vec<(Arch, Module)>> {
        let compile_one = |arch: Arch| {
            let mut builder = CudaBuilder::new(&self.crate_path)
                .arch(arch)
                .toolchain(toolchain.clone())
                .copy_to(folder.join(self.file_name(arch)));
            if arch == Arch::Sm90a {
                // The first version that has `st.async`; it came with CUDA 12.1.
                builder = builder.ptx_version(PtxVersion::new(8, 1));
            }
            if let Some(target_dir) = &self.target_dir {
                builder = builder.target_dir(target_dir);
            }
            builder.build()
        };
        thread::scope(|scope| {
            let running: Vec<_> = self
                .archs
                .iter()
                .map(|&arch| (arch, scope.spawn(move || compile_one(arch))))
                .collect();
            let finish = |(arch, thread): (Arch, thread::ScopedJoinHandle<'_, Result<Module>>)| {
                let module = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok((arch, module?))
            };
            running.into_iter().map(finish).collect()
        })
    }

    /// Compiles the modules into `folder` if a device toolchain is there and takes them, and
    /// otherwise settles for the shipped ones.
    ///
    /// # Errors
    ///
    /// Only if the shipped modules cannot be used either.
    pub fn resolve(&self, folder: &Path) -> Result<KernelModules> {
        let compiled = Toolchain::find().and_then(|toolchain| {
            let modules = self.compile(&toolchain, folder)?;
            Ok((modules, toolchain))
        });
        match compiled {
            Ok((modules, toolchain)) => Ok(KernelModules {
                modules: modules
                    .into_iter()
                    .map(|(arch, module)| (arch, module.path))
                    .collect(),
                origin: Origin::Compiled(toolchain),
            }),
            Err(reason) => self.shipped_modules(reason),
        }
    }

    fn shipped_modules(&self, reason: Error) -> Result<KernelModules> {
        let sources = source_hash(&self.sources)?;
        let paths: Vec<_> = self
            .archs
            .iter()
            .map(|&arch| (arch, self.shipped_path(arch)))
            .collect();
        let headers = paths
            .iter()
            .map(|(_, path)| ShippedHeader::read(path))
            .collect::<Result<Vec<_>>>()?;
        let stale = headers.iter().any(|header| header.sources != sources);
        let header = headers
            .into_iter()
            .next()
            .ok_or(Error::NoHeader(self.shipped.clone()))?;
        Ok(KernelModules {
            modules: paths,
            origin: Origin::Shipped {
                header,
                stale,
                reason,
            },
        })
    }

    /// The text of the shipped modules as they should be, from freshly compiled ones.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read.
    pub fn shipped_texts(
        &self,
        toolchain: &Toolchain,
        modules: &[(Arch, Module)],
    ) -> Result<Vec<(PathBuf, String)>> {
        let header = ShippedHeader {
            sources: source_hash(&self.sources)?,
            compiler: toolchain.to_string(),
        };
        let text = |(arch, module): &(Arch, Module)| {
            (
                self.shipped_path(*arch),
                header.with_module(*arch, &module.ptx),
            )
        };
        Ok(modules.iter().map(text).collect())
    }

    /// Writes freshly compiled modules to the shipped folder.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read or the modules cannot be written.
    pub fn ship(&self, toolchain: &Toolchain, modules: &[(Arch, Module)]) -> Result<()> {
        fs::create_dir_all(&self.shipped).map_err(Error::io("creating", &self.shipped))?;
        for (path, text) in self.shipped_texts(toolchain, modules)? {
            write_if_changed(&path, &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_in(root: &Path) -> KernelSet {
        let crate_path = root.join("kernels");
        fs::create_dir_all(crate_path.join("src")).unwrap();
        fs::create_dir_all(root.join("ptx")).unwrap();
        fs::write(
            crate_path.join("Cargo.toml"),
            "[package]\nname = \"kernels\"\n",
        )
        .unwrap();
        fs::write(crate_path.join("src/lib.rs"), "#![no_std]\n").unwrap();
        KernelSet {
            name: "kernels".into(),
            sources: vec![crate_path.clone()],
            crate_path,
            archs: vec![Arch::Sm80],
            shipped: root.join("ptx"),
            target_dir: None,
        }
    }

    fn ship(set: &KernelSet) {
        let toolchain = Toolchain {
            rustc: "/rustc".into(),
            version: "rustc 1.96.0 (abc)".into(),
            llvm_version: "22.1.8".into(),
        };
        let module = Module {
            path: PathBuf::new(),
            ptx: ".version 8.0\n".into(),
            toolchain: toolchain.clone(),
        };
        set.ship(&toolchain, &[(Arch::Sm80, module)]).unwrap();
    }

    #[test]
    fn shipped_modules_are_fresh_until_a_source_changes() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        ship(&set);
        let stale = || match set
            .shipped_modules(Error::ToolchainDisabled)
            .unwrap()
            .origin
        {
            Origin::Shipped { header, stale, .. } => {
                assert_eq!(header.compiler, "rustc 1.96.0 (abc), LLVM 22.1.8");
                stale
            }
            Origin::Compiled(_) => unreachable!("nothing was compiled"),
        };
        assert!(!stale());
        fs::write(set.crate_path.join("src/lib.rs"), "#![no_std] // new\n").unwrap();
        assert!(stale());
    }

    #[test]
    fn missing_and_foreign_shipped_modules_are_errors() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        let error = set.shipped_modules(Error::ToolchainDisabled).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        fs::write(set.shipped_path(Arch::Sm80), ".version 8.0\n").unwrap();
        let error = set.shipped_modules(Error::ToolchainDisabled).unwrap_err();
        assert!(matches!(error, Error::NoHeader(_)), "{error}");
    }
}

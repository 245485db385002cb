//! PTX that travels with a crate: compiled afresh where possible, else as it was shipped.
//!
//! Modules travel compressed (xz), to a tenth of their size and less. Beside them lies a text file, the [`ShippedHeader`],
//! that says what they were compiled from and by which compiler.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

use lzma_rust2::{XzOptions, XzReader, XzWriter};

use crate::builder::write_if_changed;
use crate::source_hash::source_files;
use crate::{Arch, CudaBuilder, Error, Module, PtxVersion, Result, Toolchain, source_hash};

/// A kernel crate, the architectures to build it for, and the folder with its shipped PTX.
#[derive(Clone, Debug)]
pub struct KernelSet {
    /// The stem of the files: `kernels` gives `kernels_sm_80.ptx.xz` and `kernels.txt`.
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
    /// The compressed PTX of each architecture, see [`decompress`].
    pub modules: Vec<(Arch, PathBuf)>,
    /// Where they come from.
    pub origin: Origin,
}

/// What is said of shipped modules in the text file beside them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShippedHeader {
    /// [`source_hash`] of what it was compiled from.
    pub sources: String,
    /// The compiler.
    pub compiler: String,
}

const SOURCES_LABEL: &str = "sources: sha256 ";
const COMPILER_LABEL: &str = "compiler: ";

impl ShippedHeader {
    /// The header in a file that [`KernelSet::ship`] wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is no such file, [`Error::NoHeader`] if it says something else.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("reading", path))?;
        Self::parse(&text).ok_or_else(|| Error::NoHeader(path.into()))
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |label| text.lines().find_map(|line| line.strip_prefix(label));
        Some(Self {
            sources: field(SOURCES_LABEL)?.trim().to_owned(),
            compiler: field(COMPILER_LABEL)?.trim().to_owned(),
        })
    }

    fn to_text(&self) -> String {
        format!(
            "The PTX beside this file, not to be edited.\n{SOURCES_LABEL}{}\n{COMPILER_LABEL}{}\n",
            self.sources, self.compiler
        )
    }
}

/// The text of a compressed module.
///
/// # Errors
///
/// [`Error::Io`] if there is no such file, or it is not what [`KernelSet::ship`] wrote.
pub fn decompress(path: &Path) -> Result<String> {
    let file = fs::read(path).map_err(Error::io("reading", path))?;
    let mut text = String::new();
    XzReader::new(file.as_slice(), false)
        .read_to_string(&mut text)
        .map_err(Error::io("decompressing", path))?;
    Ok(text)
}

/// Writes a module's text, compressed, unless the file has it already.
fn write_compressed(path: &Path, text: &str) -> Result<()> {
    const PRESET: u32 = 6;
    if decompress(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    let compress = || -> std::io::Result<Vec<u8>> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(PRESET))?;
        writer.write_all(text.as_bytes())?;
        writer.finish()
    };
    let bytes = compress().map_err(Error::io("compressing", path))?;
    fs::write(path, bytes).map_err(Error::io("writing", path))
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
        files.push(self.header_path());
        // New files show as changes of their folder.
        files.extend(self.sources.iter().map(|path| path.join("src")));
        Ok(files)
    }

    /// The shipped module for an architecture, compressed.
    pub fn shipped_path(&self, arch: Arch) -> PathBuf {
        self.compressed_path(&self.shipped, arch)
    }

    /// The file that says what the shipped modules were compiled from.
    pub fn header_path(&self) -> PathBuf {
        self.shipped.join(format!("{}.txt", self.name))
    }

    fn compressed_path(&self, folder: &Path, arch: Arch) -> PathBuf {
        folder.join(format!("{}_{arch}.ptx.xz", self.name))
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
                .copy_to(folder.join(format!("{}_{arch}.ptx", self.name)));
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
            Ok((modules, toolchain)) => {
                let compress = |(arch, module): (Arch, Module)| {
                    let path = self.compressed_path(folder, arch);
                    write_compressed(&path, &module.ptx)?;
                    Ok((arch, path))
                };
                Ok(KernelModules {
                    modules: modules.into_iter().map(compress).collect::<Result<_>>()?,
                    origin: Origin::Compiled(toolchain),
                })
            }
            Err(reason) => self.shipped_modules(reason),
        }
    }

    fn shipped_modules(&self, reason: Error) -> Result<KernelModules> {
        let header = ShippedHeader::read(&self.header_path())?;
        let module = |arch: Arch| {
            let path = self.shipped_path(arch);
            fs::metadata(&path).map_err(Error::io("reading", &path))?;
            Ok((arch, path))
        };
        Ok(KernelModules {
            modules: self
                .archs
                .iter()
                .copied()
                .map(module)
                .collect::<Result<_>>()?,
            origin: Origin::Shipped {
                stale: header.sources != source_hash(&self.sources)?,
                header,
                reason,
            },
        })
    }

    /// What the shipped folder should say of modules that `toolchain` compiles now.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read.
    pub fn header(&self, toolchain: &Toolchain) -> Result<ShippedHeader> {
        Ok(ShippedHeader {
            sources: source_hash(&self.sources)?,
            compiler: toolchain.to_string(),
        })
    }

    /// Writes freshly compiled modules to the shipped folder.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read or the modules cannot be written.
    pub fn ship(&self, toolchain: &Toolchain, modules: &[(Arch, Module)]) -> Result<()> {
        fs::create_dir_all(&self.shipped).map_err(Error::io("creating", &self.shipped))?;
        for (arch, module) in modules {
            write_compressed(&self.shipped_path(*arch), &module.ptx)?;
        }
        write_if_changed(&self.header_path(), &self.header(toolchain)?.to_text())
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
        let shipped = set.shipped_path(Arch::Sm80);
        assert_eq!(decompress(&shipped).unwrap(), ".version 8.0\n");
        fs::write(set.crate_path.join("src/lib.rs"), "#![no_std] // new\n").unwrap();
        assert!(stale());
    }

    #[test]
    fn missing_and_foreign_shipped_modules_are_errors() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        let error = set.shipped_modules(Error::ToolchainDisabled).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        fs::write(set.header_path(), "Something else.\n").unwrap();
        let error = set.shipped_modules(Error::ToolchainDisabled).unwrap_err();
        assert!(matches!(error, Error::NoHeader(_)), "{error}");
        ship(&set);
        fs::write(set.shipped_path(Arch::Sm80), ".version 8.0\n").unwrap();
        let error = decompress(&set.shipped_path(Arch::Sm80)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}

//! Kernels that are shipped with a crate. They are compiled anew only if their sources have changed or a
//! setting asks for it.
//!
//! The PTX of all architectures is one archive (the crate `kernel-archive`) with a module for each kernel.
//! A second archive has the machine code that an assembler made from this PTX. A text file beside them, the
//! [`ShippedHeader`], names their sources, compiler and assembler.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::builder::write_if_changed;
use crate::origin::Origin;
use crate::shipped::{MachineCode, ShippedHeader, machine_code_archive, ptx_archive};
use crate::source_hash::source_files;
use crate::{Arch, CudaBuilder, Error, Module, Result, Toolchain, source_hash};

/// A kernel crate, the architectures to build it for, and the folder with its shipped kernels.
#[derive(Clone, Debug)]
pub struct KernelSet {
    /// The stem of the files: `kernels` gives `kernels.ptx.xz`, `kernels.cubin.xz` and `kernels.txt`.
    pub name: String,
    /// The kernel crate.
    pub crate_path: PathBuf,
    /// The crates whose sources determine the PTX, including the kernel crate.
    pub sources: Vec<PathBuf>,
    /// The architectures for which PTX is built.
    pub archs: Vec<Arch>,
    /// The architectures for which machine code is shipped.
    pub machine_code: Vec<Arch>,
    /// The folder with the shipped kernels.
    pub shipped: PathBuf,
    /// The folder for intermediate results, if not the default of
    /// [`CudaBuilder::target_dir`].
    pub target_dir: Option<PathBuf>,
}

/// The archives of a set.
#[derive(Debug)]
pub struct KernelFiles {
    /// The PTX of all architectures.
    pub ptx: PathBuf,
    /// The shipped machine code. Code that was made from PTX other than `ptx` is unusable; the hashes of
    /// the two differ.
    pub machine_code: PathBuf,
    /// The origin of the PTX.
    pub origin: Origin,
}

/// Freshly made kernels, with the programs that made them.
#[derive(Clone, Copy, Debug)]
pub struct Shipment<'a> {
    /// The compiler.
    pub toolchain: &'a Toolchain,
    /// The assembler's name and version, as it prints them.
    pub assembler: &'a str,
    /// The module of each architecture.
    pub modules: &'a [(Arch, Module)],
    /// The machine code of all architectures.
    pub machine_code: &'a [MachineCode],
}

impl KernelSet {
    /// Returns the files that a build script should watch.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources exist and cannot be listed.
    pub fn watched_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = vec![
            self.ptx_path(),
            self.machine_code_path(),
            self.header_path(),
        ];
        if self.has_sources() {
            files.extend(source_files(&self.sources)?);
            // New files appear as changes of their folder.
            files.extend(self.sources.iter().map(|path| path.join("src")));
        }
        Ok(files)
    }

    /// Returns whether the kernels can be compiled. A published package has only the shipped kernels.
    fn has_sources(&self) -> bool {
        self.crate_path.join("Cargo.toml").is_file()
    }

    /// Returns the path of the shipped PTX.
    pub fn ptx_path(&self) -> PathBuf {
        self.ptx_path_in(&self.shipped)
    }

    /// Returns the path of the shipped machine code.
    pub fn machine_code_path(&self) -> PathBuf {
        self.shipped.join(format!("{}.cubin.xz", self.name))
    }

    /// Returns the architecture of the PTX from which machine code for `target` is made: the newest that
    /// runs there.
    pub fn ptx_for(&self, target: Arch) -> Option<Arch> {
        let wanted = target.compute_capability();
        let runs = |arch: &Arch| match arch.is_specific() {
            true => *arch == target,
            false => arch.compute_capability() <= wanted,
        };
        let archs = self.archs.iter().copied().filter(runs);
        archs.max_by_key(|arch| (arch.compute_capability(), arch.is_specific()))
    }

    /// Returns the path of the header file of the shipped kernels.
    pub fn header_path(&self) -> PathBuf {
        self.shipped.join(format!("{}.txt", self.name))
    }

    fn ptx_path_in(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.ptx.xz", self.name))
    }

    /// Compiles all modules, one thread for each architecture.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuilder::build`], for the first architecture that fails.
    pub fn compile(&self, toolchain: &Toolchain, folder: &Path) -> Result<Vec<(Arch, Module)>> {
        let compile_one = |arch: Arch| {
            let mut builder = CudaBuilder::new(&self.crate_path)
                .arch(arch)
                .toolchain(toolchain.clone())
                .copy_to(folder.join(format!("{}_{arch}.ptx", self.name)));
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

    /// Returns the kernels to use, and compiles them into `folder` if necessary.
    ///
    /// The shipped kernels are used if they match the sources or if there are no sources. Kernels are
    /// compiled if the sources have changed or the setting names a compiler. If compiling fails, the
    /// shipped ones are used.
    ///
    /// # Errors
    ///
    /// Only if the shipped kernels are needed and cannot be used.
    pub fn resolve(&self, folder: &Path) -> Result<KernelFiles> {
        self.resolve_with(folder, Toolchain::is_named(), Toolchain::find)
    }

    fn resolve_with(
        &self,
        folder: &Path,
        is_named: bool,
        find: impl FnOnce() -> Result<Toolchain>,
    ) -> Result<KernelFiles> {
        let header = ShippedHeader::read(&self.header_path())?;
        let stale = self.has_sources() && header.sources != source_hash(&self.sources)?;
        let fresh = || {
            if !self.has_sources() || !(stale || is_named) {
                return Ok(None);
            }
            let toolchain = find()?;
            // The same compiler and the same sources give the same PTX. Other influences on the PTX, this
            // crate and the list of architectures, are compared only by `cargo xtask ptx --check`.
            if !stale && header.compiler == toolchain.to_string() {
                return Ok(None);
            }
            let ptx = self.ptx_path_in(folder);
            write_if_changed(&ptx, ptx_archive(&self.compile(&toolchain, folder)?)?)?;
            Ok(Some((ptx, Origin::Compiled { toolchain, stale })))
        };
        let fresh = fresh();
        let shipped = |reason| {
            let origin = Origin::Shipped {
                header,
                stale,
                reason,
            };
            Ok((self.present(self.ptx_path())?, origin))
        };
        let (ptx, origin) = match fresh {
            Ok(Some(fresh)) => fresh,
            Ok(None) => shipped(None)?,
            Err(reason) => shipped(Some(reason))?,
        };
        Ok(KernelFiles {
            ptx,
            machine_code: self.present(self.machine_code_path())?,
            origin,
        })
    }

    /// Returns the path if the file exists.
    fn present(&self, path: PathBuf) -> Result<PathBuf> {
        fs::metadata(&path).map_err(Error::io("reading", &path))?;
        Ok(path)
    }

    /// Returns the header for kernels that these programs make from the current sources.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read.
    pub fn header(&self, toolchain: &Toolchain, assembler: &str) -> Result<ShippedHeader> {
        Ok(ShippedHeader {
            sources: source_hash(&self.sources)?,
            compiler: toolchain.to_string(),
            assembler: assembler.to_owned(),
        })
    }

    /// Writes freshly made kernels to the shipped folder.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources cannot be read or the archives cannot be written, [`Error::Split`] for
    /// modules with top-level items that do not belong to kernels.
    pub fn ship(&self, shipment: &Shipment<'_>) -> Result<()> {
        fs::create_dir_all(&self.shipped).map_err(Error::io("creating", &self.shipped))?;
        write_if_changed(&self.ptx_path(), ptx_archive(shipment.modules)?)?;
        let machine_code = machine_code_archive(shipment.machine_code)?;
        write_if_changed(&self.machine_code_path(), machine_code)?;
        let header = self.header(shipment.toolchain, shipment.assembler)?;
        write_if_changed(&self.header_path(), header.to_text())
    }
}

#[cfg(test)]
mod tests {
    use kernel_archive::Archive;

    use super::*;
    use crate::split;

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
            machine_code: vec![Arch::Sm86],
            shipped: root.join("ptx"),
            target_dir: None,
        }
    }

    const PTX: &str = ".version 8.0\n.target sm_80\n.visible .entry a()\n{\n\tret;\n}\n";

    fn toolchain(version: &str) -> Toolchain {
        Toolchain {
            rustc: "/rustc".into(),
            version: version.into(),
            llvm_version: "22.1.8".into(),
        }
    }

    fn ship(set: &KernelSet) {
        let toolchain = toolchain("rustc 1.96.0 (abc)");
        let module = Module {
            path: PathBuf::new(),
            ptx: PTX.into(),
            toolchain: toolchain.clone(),
        };
        let machine_code = MachineCode {
            kernel: "a".into(),
            arch: Arch::Sm86,
            source: split(PTX).unwrap()[0].hash(),
            bytes: vec![0, 1, 2],
        };
        let shipment = Shipment {
            toolchain: &toolchain,
            assembler: "release 13.0",
            modules: &[(Arch::Sm80, module)],
            machine_code: &[machine_code],
        };
        set.ship(&shipment).unwrap();
    }

    /// Resolves the set, with or without a named compiler, and with or without an installed one.
    fn resolved(set: &KernelSet, named: bool, found: Result<Toolchain>) -> KernelFiles {
        let folder = set.shipped.with_file_name("fresh");
        fs::create_dir_all(&folder).unwrap();
        set.resolve_with(&folder, named, || found).unwrap()
    }

    /// Returns whether the sources have changed, and the notice for the build. Panics if kernels were
    /// compiled.
    fn shipped(files: &KernelFiles) -> (bool, Option<String>) {
        match &files.origin {
            Origin::Shipped { stale, .. } => (*stale, files.origin.notice()),
            Origin::Compiled { .. } => unreachable!("nothing was compiled"),
        }
    }

    /// A compiler that cannot compile, so that an attempt to make fresh kernels shows as a failure.
    fn broken() -> Toolchain {
        toolchain("rustc 1.97.0 (def)")
    }

    #[test]
    fn shipped_kernels_are_taken_until_a_source_changes() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        ship(&set);
        let files = resolved(&set, false, Ok(broken()));
        assert_eq!(shipped(&files), (false, None));
        assert_eq!(
            files.origin.to_string(),
            "shipped, compiled with rustc 1.96.0 (abc), LLVM 22.1.8"
        );
        fs::write(set.crate_path.join("src/lib.rs"), "#![no_std] // new\n").unwrap();
        let (stale, notice) = shipped(&resolved(&set, false, Ok(broken())));
        assert!(stale);
        let notice = notice.expect("the compiler was tried in vain");
        assert!(
            notice.contains("of older sources than these: kernel crate"),
            "{notice}"
        );
        let (stale, notice) = shipped(&resolved(&set, true, Err(Error::ToolchainDisabled)));
        assert!(stale);
        let notice = notice.expect("the kernels are old");
        assert!(notice.contains("CUDA_BUILDER_RUSTC is none"), "{notice}");
    }

    #[test]
    fn a_named_compiler_is_asked_unless_the_shipped_kernels_are_its_own() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        ship(&set);
        let own = toolchain("rustc 1.96.0 (abc)");
        assert_eq!(shipped(&resolved(&set, true, Ok(own))), (false, None));
        let (stale, notice) = shipped(&resolved(&set, true, Ok(broken())));
        assert!(!stale && notice.is_some_and(|notice| notice.contains("does not compile")));
        let disabled = resolved(&set, true, Err(Error::ToolchainDisabled));
        assert_eq!(shipped(&disabled), (false, None));
    }

    #[test]
    fn a_package_without_the_sources_has_the_shipped_kernels_alone() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        ship(&set);
        fs::remove_dir_all(&set.crate_path).unwrap();
        assert_eq!(shipped(&resolved(&set, true, Ok(broken()))), (false, None));
        let files = [set.ptx_path(), set.machine_code_path(), set.header_path()];
        assert_eq!(set.watched_files().unwrap(), files);
    }

    #[test]
    fn machine_code_tells_what_ptx_it_is_of() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        ship(&set);
        let files = resolved(&set, false, Err(Error::ToolchainDisabled));
        let (ptx, code) = (fs::read(&files.ptx), fs::read(&files.machine_code));
        let (ptx, code) = (ptx.unwrap(), code.unwrap());
        let (ptx, code) = (Archive::open(&ptx).unwrap(), Archive::open(&code).unwrap());
        let (text, made) = (
            ptx.find("a", "sm_80").unwrap(),
            code.find("a", "sm_86").unwrap(),
        );
        assert_eq!(ptx.read(text).unwrap(), PTX.as_bytes());
        assert_eq!(code.read(made).unwrap(), [0, 1, 2]);
        assert_eq!(text.source, made.source);
    }

    #[test]
    fn missing_and_foreign_shipped_kernels_are_errors() {
        let root = tempfile::tempdir().unwrap();
        let set = set_in(root.path());
        let error = || {
            let resolved = set.resolve_with(root.path(), false, || Err(Error::ToolchainDisabled));
            resolved.unwrap_err()
        };
        let found = error();
        assert!(matches!(found, Error::Io { .. }), "{found}");
        fs::write(set.header_path(), "Something else.\n").unwrap();
        let found = error();
        assert!(matches!(found, Error::NoHeader(_)), "{found}");
        ship(&set);
        fs::remove_file(set.machine_code_path()).unwrap();
        let found = error();
        assert!(matches!(found, Error::Io { .. }), "{found}");
    }

    #[test]
    fn machine_code_is_made_of_the_newest_ptx_that_runs_there() {
        let mut set = set_in(tempfile::tempdir().unwrap().path());
        set.archs.push(Arch::Sm90a);
        let of = |target| set.ptx_for(target);
        for target in [Arch::Sm80, Arch::Sm89, Arch::Sm90, Arch::Sm100, Arch::Sm120] {
            assert_eq!(of(target), Some(Arch::Sm80), "{target}");
        }
        assert_eq!(of(Arch::Sm90a), Some(Arch::Sm90a));
        assert_eq!(of(Arch::Sm75), None);
    }
}

//! Kernels that travel with a crate: the shipped ones, unless their sources have changed since or a setting
//! asks for fresh ones.
//!
//! The PTX of all architectures is one archive (the crate `kernel-archive`) of kernels that are modules of
//! their own. Machine code, which an assembler made of this PTX, is another. Beside them lies a text file,
//! the [`ShippedHeader`], that says what they were compiled from and by which programs.

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
    /// The crates whose sources decide what the PTX is, the kernel crate among them.
    pub sources: Vec<PathBuf>,
    /// PTX is built for each.
    pub archs: Vec<Arch>,
    /// Machine code is shipped for each.
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
    /// Machine code as it was shipped. What was made of other PTX than `ptx` has, by the hashes of the two,
    /// is of no use.
    pub machine_code: PathBuf,
    /// Where the PTX comes from.
    pub origin: Origin,
}

/// Freshly made kernels, and what made them.
#[derive(Clone, Copy, Debug)]
pub struct Shipment<'a> {
    /// The compiler.
    pub toolchain: &'a Toolchain,
    /// The assembler, as it calls itself.
    pub assembler: &'a str,
    /// The module of each architecture.
    pub modules: &'a [(Arch, Module)],
    /// The machine code of all architectures.
    pub machine_code: &'a [MachineCode],
}

impl KernelSet {
    /// The files that a build script should watch.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the sources are there and cannot be listed.
    pub fn watched_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = vec![
            self.ptx_path(),
            self.machine_code_path(),
            self.header_path(),
        ];
        if self.has_sources() {
            files.extend(source_files(&self.sources)?);
            // New files show as changes of their folder.
            files.extend(self.sources.iter().map(|path| path.join("src")));
        }
        Ok(files)
    }

    /// Whether the kernels can be compiled: a published package has the shipped ones alone.
    fn has_sources(&self) -> bool {
        self.crate_path.join("Cargo.toml").is_file()
    }

    /// The shipped PTX.
    pub fn ptx_path(&self) -> PathBuf {
        self.ptx_path_in(&self.shipped)
    }

    /// The shipped machine code.
    pub fn machine_code_path(&self) -> PathBuf {
        self.shipped.join(format!("{}.cubin.xz", self.name))
    }

    /// The architecture whose PTX machine code for `target` is made of: the newest that runs there.
    pub fn ptx_for(&self, target: Arch) -> Option<Arch> {
        let wanted = target.compute_capability();
        let runs = |arch: &Arch| match arch.is_specific() {
            true => *arch == target,
            false => arch.compute_capability() <= wanted,
        };
        let archs = self.archs.iter().copied().filter(runs);
        archs.max_by_key(|arch| (arch.compute_capability(), arch.is_specific()))
    }

    /// The file that says what the shipped kernels were made from.
    pub fn header_path(&self) -> PathBuf {
        self.shipped.join(format!("{}.txt", self.name))
    }

    fn ptx_path_in(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.ptx.xz", self.name))
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

    /// The shipped kernels, if they are of the sources at hand or the sources are not there. Fresh ones, in
    /// `folder`, if the sources have changed or the setting names a compiler; where none can be had, the
    /// shipped ones once more.
    ///
    /// # Errors
    ///
    /// Only if the shipped kernels are to be used and cannot be.
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
            // What a compiler made of these sources it need not make again. What else PTX follows from,
            // this crate and the architectures, only `cargo xtask ptx --check` compares.
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

    /// A path, if there is a file.
    fn present(&self, path: PathBuf) -> Result<PathBuf> {
        fs::metadata(&path).map_err(Error::io("reading", &path))?;
        Ok(path)
    }

    /// What the shipped folder should say of kernels that these programs make now.
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
    /// modules that have other things than kernels.
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

    /// What the set resolves to where a compiler is named or not, and is to be had or not.
    fn resolved(set: &KernelSet, named: bool, found: Result<Toolchain>) -> KernelFiles {
        let folder = set.shipped.with_file_name("fresh");
        fs::create_dir_all(&folder).unwrap();
        set.resolve_with(&folder, named, || found).unwrap()
    }

    /// Whether files are the shipped ones, whether the sources have changed, and the line for the build.
    fn shipped(files: &KernelFiles) -> (bool, Option<String>) {
        match &files.origin {
            Origin::Shipped { stale, .. } => (*stale, files.origin.notice()),
            Origin::Compiled { .. } => unreachable!("nothing was compiled"),
        }
    }

    /// A compiler whose kernels can be told from the shipped ones by the failure of making them.
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

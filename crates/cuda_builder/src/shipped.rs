//! The files of shipped kernels: their content and their layout.

use std::fs;
use std::path::Path;

use kernel_archive::Kernel;

use crate::{Arch, Error, Module, Result, split};

/// Decompressed bytes of a section of PTX. Decompressing a section takes less time than the driver takes to
/// compile a kernel. The PTX of all kernels, 37 MB, takes 2.18 MB, and 2.19 MB in sections of half this
/// size.
const PTX_SECTION_BYTES: usize = 8 << 20;

/// Decompressed bytes of a section of machine code. A program waits for the decompression when it starts.
/// In sections of two thirds of this size, the last kernel takes 12 ms on average, at most 16 ms (liblzma).
/// The machine code of all kernels, 40 MB, takes 4.32 MB, and 4.43 MB in sections of two thirds of this
/// size.
const MACHINE_CODE_SECTION_BYTES: usize = 3 << 20;

/// Machine code of one kernel.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The kernel's symbol.
    pub kernel: String,
    /// The architecture on which the code runs.
    pub arch: Arch,
    /// [`KernelModule::hash`](crate::KernelModule::hash) of the PTX from which the code was made.
    pub source: String,
    /// The assembler's output.
    pub bytes: Vec<u8>,
}

/// The text file beside the shipped kernels, which states their origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShippedHeader {
    /// [`source_hash`](crate::source_hash) of the sources from which the kernels were compiled.
    pub sources: String,
    /// The compiler.
    pub compiler: String,
    /// The assembler that made the machine code.
    pub assembler: String,
}

const SOURCES_LABEL: &str = "sources: sha256 ";
const COMPILER_LABEL: &str = "compiler: ";
const ASSEMBLER_LABEL: &str = "assembler: ";

impl ShippedHeader {
    /// Reads the header from a file that [`KernelSet::ship`](crate::KernelSet::ship) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is no such file, [`Error::NoHeader`] if it has another content.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("reading", path))?;
        Self::parse(&text).ok_or_else(|| Error::NoHeader(path.into()))
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |label| text.lines().find_map(|line| line.strip_prefix(label));
        Some(Self {
            sources: field(SOURCES_LABEL)?.trim().to_owned(),
            compiler: field(COMPILER_LABEL)?.trim().to_owned(),
            assembler: field(ASSEMBLER_LABEL)?.trim().to_owned(),
        })
    }

    pub(crate) fn to_text(&self) -> String {
        format!(
            "The kernels beside this file, not to be edited.\n\
             {SOURCES_LABEL}{}\n{COMPILER_LABEL}{}\n{ASSEMBLER_LABEL}{}\n",
            self.sources, self.compiler, self.assembler
        )
    }
}

/// Returns the archive of the kernels of all modules. The PTX of most kernels differs between two
/// architectures only in the lines that name the architecture, so the archive groups the architectures of a
/// kernel.
///
/// # Errors
///
/// [`Error::Split`] for a module with top-level items that do not belong to kernels.
pub fn ptx_archive(modules: &[(Arch, Module)]) -> Result<Vec<u8>> {
    let mut kernels = Vec::new();
    for (arch, module) in modules {
        kernels.extend(split(&module.ptx)?.into_iter().map(|module| Kernel {
            arch: arch.to_string(),
            source: module.hash(),
            name: module.name,
            bytes: module.ptx.into_bytes(),
        }));
    }
    // The sort is stable, so the architectures of a kernel keep the given order.
    kernels.sort_by(|one, two| one.name.cmp(&two.name));
    kernel_archive::write(&kernels, PTX_SECTION_BYTES).map_err(Error::archive("PTX"))
}

/// Returns the archive of machine code. The code of a kernel for two devices of a generation is similar and
/// often equal, so the archive groups it.
///
/// # Errors
///
/// [`Error::Archive`] for a kernel whose name an archive cannot hold.
pub fn machine_code_archive(machine_code: &[MachineCode]) -> Result<Vec<u8>> {
    let mut sorted: Vec<&MachineCode> = machine_code.iter().collect();
    let generation = |arch: Arch| arch.compute_capability() / 10;
    sorted.sort_by_key(|code| (generation(code.arch), &code.kernel, code.arch));
    let kernel = |code: &&MachineCode| Kernel {
        name: code.kernel.clone(),
        arch: code.arch.to_string(),
        source: code.source.clone(),
        bytes: code.bytes.clone(),
    };
    let kernels: Vec<Kernel> = sorted.iter().map(kernel).collect();
    kernel_archive::write(&kernels, MACHINE_CODE_SECTION_BYTES)
        .map_err(Error::archive("machine code"))
}

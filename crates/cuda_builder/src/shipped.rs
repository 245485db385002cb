//! The files of shipped kernels: what they hold, and how it is put there.

use std::fs;
use std::path::Path;

use kernel_archive::Kernel;

use crate::{Arch, Error, Module, Result, split};

/// A section of PTX, decompressed. The driver takes longer to compile a kernel than this takes to decompress,
/// and the PTX of all kernels, 37 MB, takes 2.19 MB in sections of half of this, 2.18 in such ones.
const PTX_SECTION_BYTES: usize = 8 << 20;

/// A section of machine code, which a program waits for when it starts: two thirds of one take 12 ms in the
/// mean for the last kernel, at most 16 (liblzma). That of all kernels, 40 MB, takes 4.43 MB in sections of
/// two thirds, 4.32 in such ones.
const MACHINE_CODE_SECTION_BYTES: usize = 3 << 20;

/// Machine code of one kernel.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The kernel's symbol.
    pub kernel: String,
    /// What it runs on.
    pub arch: Arch,
    /// [`KernelModule::hash`](crate::KernelModule::hash) of the PTX that it was made of.
    pub source: String,
    /// What the assembler wrote.
    pub bytes: Vec<u8>,
}

/// What is said of shipped kernels in the text file beside them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShippedHeader {
    /// [`source_hash`](crate::source_hash) of what it was compiled from.
    pub sources: String,
    /// The compiler.
    pub compiler: String,
    /// What made the machine code.
    pub assembler: String,
}

const SOURCES_LABEL: &str = "sources: sha256 ";
const COMPILER_LABEL: &str = "compiler: ";
const ASSEMBLER_LABEL: &str = "assembler: ";

impl ShippedHeader {
    /// The header in a file that [`KernelSet::ship`](crate::KernelSet::ship) wrote.
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

/// The archive of the kernels of all modules, each by itself. Most are the same text for two architectures
/// but for the lines that name these, so they stand together.
///
/// # Errors
///
/// [`Error::Split`] for a module that has other things than kernels.
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
    // A stable order: of one kernel the architectures are as they were given.
    kernels.sort_by(|one, two| one.name.cmp(&two.name));
    kernel_archive::write(&kernels, PTX_SECTION_BYTES).map_err(Error::archive("PTX"))
}

/// The archive of machine code. The code of one kernel for two devices of a generation is much alike, often
/// the same, so these stand together.
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

//! Writes archives.

use std::fmt::Write as _;
use std::io::Write as _;

use lzma_rust2::{CheckType, XzOptions, XzWriter};

use crate::{ArchiveError, TITLE};

/// A kernel to be archived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kernel {
    /// The kernel's symbol.
    pub name: String,
    /// The target architecture, such as `sm_90a`.
    pub arch: String,
    /// A hash of the kernel's PTX, also for machine code.
    pub source: String,
    /// The PTX or the machine code.
    pub bytes: Vec<u8>,
}

/// Returns the bytes of an archive of these kernels. Similar kernels should be adjacent in `kernels`.
///
/// A section ends with the kernel that brings it to `section_bytes`. Larger sections make a smaller file,
/// but more bytes must be decompressed to read one kernel.
///
/// # Errors
/// [`ArchiveError::Index`] for a name that an index cannot hold, [`ArchiveError::Compression`] if the
/// compressor fails.
pub fn write(kernels: &[Kernel], section_bytes: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut index = String::new();
    let mut sections: Vec<Vec<u8>> = Vec::new();
    let mut open = Vec::new();
    let mut is_open = false;
    for kernel in kernels {
        for word in [&kernel.name, &kernel.arch, &kernel.source] {
            if word.is_empty() || word.contains(char::is_whitespace) {
                return Err(ArchiveError::Index(word.clone()));
            }
        }
        let (name, arch, source) = (&kernel.name, &kernel.arch, &kernel.source);
        let (section, offset, length) = (sections.len(), open.len(), kernel.bytes.len());
        let written = writeln!(
            index,
            "kernel {name} {arch} {source} {section} {offset} {length}"
        );
        written.expect("a string takes all text");
        open.extend_from_slice(&kernel.bytes);
        is_open = open.len() < section_bytes;
        if !is_open {
            sections.push(compress(&open)?);
            open.clear();
        }
    }
    if is_open {
        sections.push(compress(&open)?);
    }
    let mut head = format!("{TITLE}\n");
    for section in &sections {
        writeln!(head, "section {}", section.len()).expect("a string takes all text");
    }
    let mut file = compress((head + &index).as_bytes())?;
    sections
        .iter()
        .for_each(|section| file.extend_from_slice(section));
    Ok(file)
}

fn compress(bytes: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    const PRESET: u32 = 9;
    let mut options = XzOptions::with_preset(PRESET);
    // A reader stops after its kernel and never reaches the section's checksum. Computing one would take a
    // third of the reader's time.
    options.set_check_sum_type(CheckType::None);
    let lzma = &mut options.lzma_options;
    // A reader allocates this many bytes.
    lzma.dict_size = (bytes.len() as u32)
        .next_power_of_two()
        .clamp(1 << 12, 1 << 23);
    // Instructions of machine code have 16 bytes each, and bytes at the same position in an instruction are
    // alike. Positions in text have no such period.
    let is_machine_code = bytes.contains(&0);
    (lzma.lc, lzma.lp, lzma.pb) = if is_machine_code {
        (0, 3, 4)
    } else {
        (4, 0, 0)
    };
    let mut writer = XzWriter::new(Vec::new(), options)?;
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

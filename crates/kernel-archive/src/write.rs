//! Making archives.

use std::fmt::Write as _;
use std::io::Write as _;

use lzma_rust2::{CheckType, XzOptions, XzWriter};

use crate::{ArchiveError, TITLE};

/// A kernel that goes into an archive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kernel {
    /// Its symbol.
    pub name: String,
    /// What it is for, such as `sm_90a`.
    pub arch: String,
    /// A hash of the text that it is, or was made from.
    pub source: String,
    /// What it is.
    pub bytes: Vec<u8>,
}

/// The bytes of an archive of these kernels, of which what is alike should stand together. A section ends
/// with the kernel that fills its `section_bytes`: the more, the smaller the file, and the more has to be
/// decompressed for one kernel.
///
/// # Errors
/// [`ArchiveError::Index`] for a name that an index cannot hold, [`ArchiveError::Compression`].
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
    // A reader stops after its kernel, before it comes to the section's checksum: to compute one would take
    // a third of its time.
    options.set_check_sum_type(CheckType::None);
    let lzma = &mut options.lzma_options;
    // What a reader has to allocate.
    lzma.dict_size = (bytes.len() as u32)
        .next_power_of_two()
        .clamp(1 << 12, 1 << 23);
    // Instructions of machine code have 16 bytes each, of which the same are alike; of a text no place is
    // like another.
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

//! Compressed archives of GPU kernels with random access to single kernels.
//!
//! A program uses few of the kernels that it carries, so an [`Archive`] decompresses them one at a time.
//! Adjacent kernels are compressed together in *sections*, because similar kernels share most of their text
//! and compress poorly alone.
//!
//! # File format
//! The file is a sequence of complete xz streams, so `xz -dc` shows all of it: first the index, which is
//! text, then the sections. Each line of the index has one of these forms:
//!
//! ```text
//! kernel archive 1
//! section LENGTH
//! kernel NAME ARCHITECTURE SOURCE SECTION OFFSET LENGTH
//! ```
//!
//! A `section` line gives the compressed length of one section. Sections are listed in file order, and the
//! last one ends at the end of the file. A `kernel` line gives the position of a kernel in its decompressed
//! section. `SOURCE` is a hash of the PTX of the kernel. Machine code belongs to a PTX kernel if both have
//! the same `SOURCE`.

#[cfg(feature = "write")]
mod write;

use std::fmt::Display;
use std::io::Read;
use std::ops::Range;

use lzma_rust2::XzReader;

#[cfg(feature = "write")]
pub use write::{Kernel, write};

/// The first line of every index.
const TITLE: &str = "kernel archive 1";

/// An error in the format of an archive, or in reading a kernel from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The decompressor or compressor failed.
    #[error("kernel archive: {0}")]
    Compression(#[from] std::io::Error),
    /// A line of the index is malformed, or a name cannot be stored in an index.
    #[error("kernel archive: `{0}` is no line of an index")]
    Index(String),
    /// The index declares more section bytes than the file has.
    #[error("kernel archive: {actual} bytes, but the index tells of {told}")]
    Length {
        /// Bytes of the file.
        actual: usize,
        /// Bytes of all sections, according to the index.
        told: usize,
    },
}

/// A kernel in an archive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The kernel's symbol.
    pub kernel: String,
    /// The target architecture, such as `sm_90a`.
    pub arch: String,
    /// A hash of the kernel's PTX, also for machine code.
    pub source: String,
    section: usize,
    place: Range<usize>,
}

impl Entry {
    /// Returns the number of bytes of the decompressed kernel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Returns whether the kernel has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}

/// An open archive: kernels by name and architecture.
#[derive(Debug)]
pub struct Archive<'a> {
    /// Sorted by name, then architecture.
    entries: Vec<Entry>,
    sections: Vec<&'a [u8]>,
}

impl<'a> Archive<'a> {
    /// Opens the archive in the bytes of a file.
    ///
    /// # Errors
    /// [`ArchiveError`] if the bytes are not a valid archive.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ArchiveError> {
        let mut text = String::new();
        XzReader::new(bytes, false).read_to_string(&mut text)?;
        let (lengths, mut entries) = parse(&text)?;
        // The sections end at the end of the file, so the total length gives the start of the first.
        let told = lengths
            .iter()
            .fold(0_usize, |sum, &length| sum.saturating_add(length));
        let actual = bytes.len();
        let start = actual.checked_sub(told);
        let mut rest = &bytes[start.ok_or(ArchiveError::Length { actual, told })?..];
        let mut sections = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (section, after) = rest.split_at(length);
            sections.push(section);
            rest = after;
        }
        if let Some(astray) = entries.iter().find(|entry| entry.section >= sections.len()) {
            return Err(ArchiveError::Index(astray.kernel.clone()));
        }
        entries.sort_by(|one, two| one.key().cmp(&two.key()));
        Ok(Self { entries, sections })
    }

    /// Returns all kernels, sorted by name, then by architecture.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Finds the kernel with this name for this architecture.
    #[must_use]
    pub fn find(&self, kernel: &str, arch: &str) -> Option<&Entry> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.key().cmp(&(kernel, arch)));
        found.ok().map(|index| &self.entries[index])
    }

    /// Decompresses a kernel of this archive.
    ///
    /// # Errors
    /// [`ArchiveError`] if the section is damaged.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
        let mut section = XzReader::new(self.sections[entry.section], false);
        let before = entry.place.start as u64;
        std::io::copy(&mut section.by_ref().take(before), &mut std::io::sink())?;
        let mut bytes = vec![0; entry.len()];
        section.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Entry {
    fn key(&self) -> (&str, &str) {
        (&self.kernel, &self.arch)
    }
}

/// Parses the index into the lengths of the sections and the kernels.
fn parse(text: &str) -> Result<(Vec<usize>, Vec<Entry>), ArchiveError> {
    let wrong = |line: &dyn Display| ArchiveError::Index(line.to_string());
    let mut lines = text.lines();
    match lines.next() {
        Some(TITLE) => {}
        first => return Err(wrong(&first.unwrap_or_default())),
    }
    let (mut lengths, mut entries) = (Vec::new(), Vec::new());
    for line in lines {
        let mut words = line.split(' ');
        let kind = words.next();
        let words: Vec<&str> = words.collect();
        let number = |word: &str| word.parse::<usize>().map_err(|_| wrong(&line));
        match (kind, words.as_slice()) {
            (Some("section"), [length]) => lengths.push(number(length)?),
            (Some("kernel"), [kernel, arch, source, section, offset, length]) => {
                let (start, length) = (number(offset)?, number(length)?);
                let end = start.checked_add(length).ok_or_else(|| wrong(&line))?;
                entries.push(Entry {
                    kernel: (*kernel).to_owned(),
                    arch: (*arch).to_owned(),
                    source: (*source).to_owned(),
                    section: number(section)?,
                    place: start..end,
                });
            }
            _ => return Err(wrong(&line)),
        }
    }
    Ok((lengths, entries))
}

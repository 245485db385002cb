//! Files of GPU kernels, compressed, from which one kernel at a time is read.
//!
//! A program uses few of the kernels that it carries, so an [`Archive`] gives each by itself. Kernels that
//! stand next to each other in it are compressed together, in *sections*: alone, a kernel would miss most of
//! what it shares with its siblings.
//!
//! # The file
//! It is a sequence of complete xz streams, so `xz -dc` shows all of it: first the index, a text, then the
//! sections. A line of the index is one of
//!
//! ```text
//! kernel archive 1
//! section LENGTH
//! kernel NAME ARCHITECTURE SOURCE SECTION OFFSET LENGTH
//! ```
//!
//! with the length of each compressed section, in order, of which the last one ends where the file ends; and
//! for each kernel its place in the decompressed section. `SOURCE` is a hash of the text that the kernel is,
//! or was made from: the machine code of a kernel belongs to its PTX if the two have one `SOURCE`.

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

/// Why bytes are no archive, or a kernel cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The decompressor refuses.
    #[error("kernel archive: {0}")]
    Compression(#[from] std::io::Error),
    /// A line of the index that is none.
    #[error("kernel archive: `{0}` is no line of an index")]
    Index(String),
    /// More bytes in the index than in the file.
    #[error("kernel archive: {actual} bytes, but the index tells of {told}")]
    Length {
        /// Bytes of the file.
        actual: usize,
        /// Bytes of its sections, by the index.
        told: usize,
    },
}

/// A kernel in an archive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its symbol.
    pub kernel: String,
    /// What it is for, such as `sm_90a`.
    pub arch: String,
    /// A hash of the text that it is, or was made from.
    pub source: String,
    section: usize,
    place: Range<usize>,
}

impl Entry {
    /// The kernel's bytes, decompressed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}

/// Kernels, by architecture and name.
#[derive(Debug)]
pub struct Archive<'a> {
    /// Sorted by name, then architecture.
    entries: Vec<Entry>,
    sections: Vec<&'a [u8]>,
}

impl<'a> Archive<'a> {
    /// The archive in a file's bytes.
    ///
    /// # Errors
    /// [`ArchiveError`] if it is none.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ArchiveError> {
        let mut text = String::new();
        XzReader::new(bytes, false).read_to_string(&mut text)?;
        let (lengths, mut entries) = parse(&text)?;
        // The first section starts where all of them fit.
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

    /// All kernels, by name, then architecture.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The kernel of this name for this architecture.
    #[must_use]
    pub fn find(&self, kernel: &str, arch: &str) -> Option<&Entry> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.key().cmp(&(kernel, arch)));
        found.ok().map(|index| &self.entries[index])
    }

    /// The bytes of one of this archive's kernels.
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

/// The lengths of the sections, and the kernels.
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

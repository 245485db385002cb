//! A folder of files, one for each kernel.
//!
//! A file is a line of text, a hash of its key and content, and the content. It is written under another name
//! and then renamed. So a reader sees the complete file or none, and the last of several writers wins. The
//! hash also detects files that are damaged or were not written by this library.

use std::fs::{self, DirEntry};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// The first line of a file. Other formats have other numbers.
const TITLE: &[u8] = b"convfuse machine code 1\n";

/// The extension of files.
const FILE: &str = "cubin";

/// The extension of a file while it is written.
const UNFINISHED: &str = "unfinished";

/// Age after which an unfinished file counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A hash of everything that determines machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key of the machine code that a driver compiles from PTX for a compute capability. A driver is
    /// identified by its CUDA version and its release, because releases of one version differ in their
    /// compilers.
    pub(crate) fn new(ptx_hash: &str, (cuda, release): (u32, &str), capability: (u32, u32)) -> Key {
        let (major, minor) = capability;
        let text = format!("{ptx_hash} {cuda} {release} {major}.{minor}");
        let digest = Sha256::digest(text.as_bytes());
        let half = digest.iter().take(16);
        Key(half.map(|byte| format!("{byte:02x}")).collect())
    }

    /// A hash of this key with its content.
    fn seal(&self, content: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0.as_bytes());
        hash.update(content);
        hash.finalize().into()
    }
}

/// A folder of files with a limit of bytes.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    limit: u64,
}

impl Files {
    /// Makes the handle of the files in `folder`, which need not exist.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Files {
        Files { folder, limit }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(&key.0).with_extension(FILE)
    }

    /// Reads the content of this key, if its file is valid.
    pub(crate) fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        // Reading another kind of file, such as a pipe, might block forever.
        let facts = fs::metadata(&path).ok()?;
        if !facts.is_file() || facts.len() > self.limit {
            return None;
        }
        let mut file = fs::read(path).ok()?;
        let (seal, content) = file
            .strip_prefix(TITLE)?
            .split_first_chunk::<{ size_of::<[u8; 32]>() }>()?;
        if *seal != key.seal(content) {
            return None;
        }
        let start = file.len() - content.len();
        Some(file.split_off(start))
    }

    /// Stores `content` under this key, and replaces an existing file.
    pub(crate) fn write(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        create_private(&self.folder)?;
        self.write_by_way_of(&self.unfinished(key, random()), key, content)?;
        self.make_room()
    }

    /// Returns a unique file name for one writer. Process numbers are not unique if containers share a
    /// folder.
    fn unfinished(&self, key: &Key, writer: u64) -> PathBuf {
        let name = format!("{}-{writer:016x}", key.0);
        self.folder.join(name).with_extension(UNFINISHED)
    }

    fn write_by_way_of(&self, unfinished: &Path, key: &Key, content: &[u8]) -> io::Result<()> {
        // If creating the file fails, an existing file of this name belongs to another writer and must not be
        // removed.
        let mut file = fs::File::create_new(unfinished)?;
        let mut fill = || -> io::Result<()> {
            file.write_all(TITLE)?;
            file.write_all(&key.seal(content))?;
            file.write_all(content)
        };
        let filled = fill();
        drop(file);
        let renamed = filled.and_then(|()| fs::rename(unfinished, self.path(key)));
        if renamed.is_err() {
            let _ = fs::remove_file(unfinished);
        }
        renamed
    }

    /// Removes the oldest files beyond the limit, and abandoned unfinished files.
    fn make_room(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let Some((age, bytes)) = facts(&entry, now) else {
                continue;
            };
            if has_end(&path, FILE) {
                files.push((age, bytes, path));
            } else if has_end(&path, UNFINISHED) && age > ABANDONED {
                let _ = fs::remove_file(path);
            }
        }
        let mut kept = 0u64;
        files.sort();
        for (_, bytes, path) in files {
            kept = kept.saturating_add(bytes);
            if kept > self.limit {
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

/// A random number.
fn random() -> u64 {
    // Each hasher has random keys, which differ from process to process.
    RandomState::new().hash_one(std::process::id())
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|extension| extension == end)
}

/// Returns the age of a file and its size in bytes. Other processes may remove it at any time.
fn facts(entry: &DirEntry, now: SystemTime) -> Option<(Duration, u64)> {
    let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let age = now.duration_since(facts.modified().ok()?);
    Some((age.unwrap_or_default(), facts.len()))
}

/// Makes a folder that other users cannot write to.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

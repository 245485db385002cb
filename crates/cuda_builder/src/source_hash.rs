//! A hash that tells whether PTX was compiled from the current sources.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// Folders whose files never reach the device.
const HOST_ONLY: &[&str] = &["emulator", "tests", "benches", "examples", "target"];

/// Returns the files of these crates that the hash covers: manifests, build scripts and Rust sources,
/// without the emulator and tests.
pub(crate) fn source_files(crates: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in crates {
        files.push(path.join("Cargo.toml"));
        files.extend(Some(path.join("build.rs")).filter(|script| script.is_file()));
        collect(&path.join("src"), &mut files)?;
    }
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .map_err(Error::io("reading", folder))?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if HOST_ONLY.iter().any(|&name| Some(name) == stem) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Computes SHA-256 over the names and texts of the crates' device sources, in hexadecimal. The hash
/// depends neither on the location of the crates nor on the kind of line endings.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read.
pub fn source_hash(crates: &[PathBuf]) -> Result<String> {
    let mut hash = Sha256::new();
    for root in crates {
        let one = std::slice::from_ref(root);
        for file in source_files(one)? {
            let text = fs::read(&file).map_err(Error::io("reading", &file))?;
            let name = file.strip_prefix(root).unwrap_or(&file);
            let parts = name.components().map(|part| part.as_os_str());
            for part in root.file_name().into_iter().chain(parts) {
                hash.update(part.as_encoded_bytes());
                hash.update(b"/");
            }
            hash.update(b"\0");
            text.split(|&byte| byte == b'\r')
                .for_each(|piece| hash.update(piece));
            hash.update(b"\0");
        }
    }
    let digest = hash.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_in(root: &Path, source: &str) -> PathBuf {
        let path = root.join("kernels");
        fs::create_dir_all(path.join("src/emulator")).unwrap();
        fs::write(path.join("Cargo.toml"), "[package]\n").unwrap();
        fs::write(path.join("src/lib.rs"), source).unwrap();
        path
    }

    fn hash_of(source: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        source_hash(&[crate_in(root.path(), source)]).unwrap()
    }

    #[test]
    fn place_and_line_endings_do_not_matter() {
        assert_eq!(hash_of("a\nb\n"), hash_of("a\r\nb\r\n"));
    }

    #[test]
    fn what_reaches_the_device_matters() {
        assert_ne!(hash_of("a\n"), hash_of("b\n"));
        let root = tempfile::tempdir().unwrap();
        let crates = [crate_in(root.path(), "a\n")];
        let write = |name: &str| fs::write(crates[0].join(name), "new\n").unwrap();
        let before = source_hash(&crates).unwrap();
        write("src/emulator/mod.rs");
        write("src/tests.rs");
        assert_eq!(source_hash(&crates).unwrap(), before);
        fs::rename(crates[0].join("src/lib.rs"), crates[0].join("src/bil.rs")).unwrap();
        let renamed = source_hash(&crates).unwrap();
        assert_ne!(renamed, before);
        write("build.rs");
        assert_ne!(source_hash(&crates).unwrap(), renamed);
    }
}

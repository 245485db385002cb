//! Files that are there as a whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// Writes `text` to a temporary file beside `path` and renames it, so that a killed run leaves either the file of before or the
/// new one. What is there but is no ordinary file, such as a pipe, is written to directly.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    replace(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link, and the file that it leads to is replaced.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) => path.to_owned(),
    };
    if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, text);
    }
    let temporary = temporary(&target)?;
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A name beside `path` that no other process uses.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", process::id()));
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_nothing_is_left_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, "first").unwrap();
        write(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "third").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent").join("a.json");
        assert!(write(&absent, "").unwrap_err().contains("a.json"));
        assert!(write(folder.path(), "").is_err());
        assert!(write(Path::new(""), "").is_err());
        assert!(write(Path::new("/dev/null"), "text").is_ok());
        assert!(!Path::new("/dev/null").is_file());
    }
}

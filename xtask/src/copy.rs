//! A copy of the repository with changes, for the chores that try mistakes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use xshell::cmd;

use crate::paths::shell;

/// Returns the files of the repository that git does not ignore.
pub(crate) fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let sh = shell(root)?;
    let listed = cmd!(sh, "git ls-files --cached --others --exclude-standard").read()?;
    let files = listed.lines().filter(|file| root.join(file).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// Writes the copy to `tree`. `changed` gets the path and the text of each file that is text, and returns its
/// changed text, if any. A file with the same contents is not written again, to avoid recompilation.
pub(crate) fn write(
    root: &Path,
    tree: &Path,
    mut changed: impl FnMut(&str, &str) -> Result<Option<String>>,
) -> Result<()> {
    for file in tracked_files(root)? {
        let mut bytes = fs::read(root.join(&file)).with_context(|| file.clone())?;
        if let Ok(text) = str::from_utf8(&bytes)
            && let Some(text) = changed(&file, text)?
        {
            bytes = text.into_bytes();
        }
        let path = tree.join(file);
        if fs::read(&path).is_ok_and(|before| before == bytes) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}

//! The cache of machine code that the driver compiled from PTX.
//!
//! This build carries machine code for some architectures. For any other, the driver compiles a kernel when
//! it is first needed, which takes up to a second. Its machine code is kept in a folder for later processes:
//!
//! 1. the folder of [`keep_in`], none after [`turn_off`];
//! 2. the folder in the variable `CONVFUSE_CACHE`, none if it is `off`;
//! 3. `convfuse` in the user's cache folder: `$XDG_CACHE_HOME`, else `~/.cache`; on Windows `%LOCALAPPDATA%`.
//!
//! The choice is per process, not per device: a process opens a GPU once, and all users share it and its
//! kernels.
//!
//! Any number of processes may use one folder. Damaged and foreign files are ignored, and a folder without
//! write access is not an error. Beyond 256 MiB, the oldest files are removed. Only trusted users may have
//! write access to the folder, because its machine code is executed.

mod files;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

pub(crate) use files::{Files, Key};

/// The largest total size of the cache, in bytes.
const LIMIT_BYTES: u64 = 256 << 20;

/// The program's choice: a folder, or none.
static CHOSEN: RwLock<Option<Option<PathBuf>>> = RwLock::new(None);

/// Keeps machine code in this folder, which is created when needed. Applies to kernels that are loaded from
/// now on.
///
/// # Examples
/// ```
/// let folder = std::env::temp_dir().join("kernels-of-my-program");
/// convfuse::kernel_cache::keep_in(&folder);
/// assert_eq!(convfuse::kernel_cache::folder(), Some(folder));
/// ```
pub fn keep_in(folder: impl AsRef<Path>) {
    choose(Some(folder.as_ref().to_owned()));
}

/// Turns the cache off. Applies to kernels that are loaded from now on.
pub fn turn_off() {
    choose(None);
}

fn choose(folder: Option<PathBuf>) {
    *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = Some(folder);
}

/// Returns the folder of the cache; `None` if it is off.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let chosen = CHOSEN.read().unwrap_or_else(PoisonError::into_inner);
    match &*chosen {
        Some(folder) => folder.clone(),
        None => from_environment(|name| std::env::var_os(name)),
    }
}

/// Returns the cache; `None` if it is off.
pub(crate) fn store() -> Option<Files> {
    Some(Files::new(folder()?, LIMIT_BYTES))
}

/// Returns the folder from environment variables.
fn from_environment(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let get = |name| get(name).filter(|value| !value.is_empty());
    if let Some(named) = get("CONVFUSE_CACHE") {
        return (named != "off").then(|| named.into());
    }
    // A relative path would depend on the working directory.
    let absolute = |name| Some(PathBuf::from(get(name)?)).filter(|path| path.is_absolute());
    let caches = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else {
        let in_home = || Some(absolute("HOME")?.join(".cache"));
        absolute("XDG_CACHE_HOME").or_else(in_home)
    };
    Some(caches?.join("convfuse"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_variable_comes_first_then_the_users_caches() {
        let folder = |variables: &[(&str, &str)]| {
            let get = |name: &str| {
                let mut found = variables.iter().filter(|(known, _)| *known == name);
                found.next().map(|(_, value)| value.into())
            };
            from_environment(get).map(|path| path.to_string_lossy().into_owned())
        };
        let home = ("HOME", "/home/ada");
        let caches = ("XDG_CACHE_HOME", "/var/ada");
        assert_eq!(
            folder(&[("CONVFUSE_CACHE", "/x/y"), home, caches]).unwrap(),
            "/x/y"
        );
        assert_eq!(folder(&[("CONVFUSE_CACHE", "off"), home, caches]), None);
        let unset = ("CONVFUSE_CACHE", "");
        assert_eq!(folder(&[unset, home, caches]).unwrap(), "/var/ada/convfuse");
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[home]).unwrap(), "/home/ada/.cache/convfuse");
        let relative = ("XDG_CACHE_HOME", "caches");
        assert_eq!(
            folder(&[home, relative]).unwrap(),
            "/home/ada/.cache/convfuse"
        );
    }

    #[test]
    fn the_program_has_the_last_word() {
        keep_in("/x");
        assert_eq!(folder(), Some("/x".into()));
        turn_off();
        assert!(folder().is_none() && store().is_none());
    }
}

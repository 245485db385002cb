//! Finds a compiler that can build for the device.
//!
//! Any rustc from `MINIMUM_VERSION` on is suitable if the sources of its `core` are installed. The search
//! never installs a toolchain and never lets rustup do so.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::verdict::{MINIMUM_VERSION, Rejected, Verdict};
use crate::{Error, Result};

/// The environment variable that names a compiler, or is `none`.
const EXPLICIT_VARIABLE: &str = "CUDA_BUILDER_RUSTC";

/// The path at which distributions install their compiler.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// A compiler that can build for the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// The first line of the compiler's `rustc --version`, such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    pub version: String,
    /// The LLVM version of its code generator.
    pub llvm_version: String,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, LLVM {}", self.version, self.llvm_version)
    }
}

/// The places to search for compilers. [`Default`] reads the environment of the process.
#[derive(Clone, Debug)]
struct Places {
    /// The only compiler to use, or `none` for no compiler.
    explicit: Option<OsString>,
    /// The compiler that builds for the host.
    active: PathBuf,
    /// The folder with rustup's toolchains.
    rustup_toolchains: Option<PathBuf>,
    /// The compiler of the distribution.
    system: PathBuf,
}

/// The value of `CUDA_BUILDER_RUSTC`.
fn explicit() -> Option<OsString> {
    env::var_os(EXPLICIT_VARIABLE).filter(|value| !value.is_empty())
}

impl Default for Places {
    fn default() -> Self {
        let rustup_home = env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| env::home_dir().map(|home| home.join(".rustup")));
        Self {
            explicit: explicit(),
            active: env::var_os("RUSTC")
                .unwrap_or_else(|| "rustc".into())
                .into(),
            rustup_toolchains: rustup_home.map(|home| home.join("toolchains")),
            system: SYSTEM_RUSTC.into(),
        }
    }
}

impl Toolchain {
    /// Returns whether `CUDA_BUILDER_RUSTC` names a compiler or disables it.
    pub fn is_named() -> bool {
        explicit().is_some()
    }

    /// Finds the first usable compiler, in this order: the one that `CUDA_BUILDER_RUSTC` names, the active
    /// one, rustup's other toolchains, the distribution's.
    ///
    /// # Errors
    ///
    /// [`Error::NoToolchain`] with the rejected compilers and the reasons; [`Error::ToolchainDisabled`] if
    /// `CUDA_BUILDER_RUSTC` is `none`.
    pub fn find() -> Result<Self> {
        Self::find_with(&Places::default(), &run)
    }

    /// Finds all usable compilers, in the order of [`find`](Self::find).
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), if there is none.
    pub fn find_all() -> Result<Vec<Self>> {
        let (mut found, rejected) = search(&Places::default(), &run, usize::MAX)?;
        // The active compiler is often one of rustup's as well.
        found.dedup_by(|next, kept| next.rustc == kept.rustc);
        match found.is_empty() {
            false => Ok(found),
            true => Err(Error::NoToolchain(rejected)),
        }
    }

    fn find_with(places: &Places, ask: &Ask<'_>) -> Result<Self> {
        let (found, rejected) = search(places, ask, 1)?;
        found.into_iter().next().ok_or(Error::NoToolchain(rejected))
    }
}

/// Runs a compiler with one argument and returns what it prints.
type Ask<'a> = dyn Fn(&Path, &str) -> Result<String, Verdict> + 'a;

/// Searches until `enough` usable compilers are found.
fn search(
    places: &Places,
    ask: &Ask<'_>,
    enough: usize,
) -> Result<(Vec<Toolchain>, Vec<Rejected>)> {
    let (mut found, mut rejected) = (Vec::new(), Vec::new());
    for (place, rustc) in candidates(places)? {
        match probe(&rustc, ask) {
            Ok(toolchain) => found.push(toolchain),
            Err(verdict) => rejected.push(Rejected {
                place,
                rustc,
                verdict,
            }),
        }
        if found.len() == enough {
            break;
        }
    }
    Ok((found, rejected))
}

fn candidates(places: &Places) -> Result<Vec<(String, PathBuf)>> {
    match &places.explicit {
        Some(value) if value == "none" => return Err(Error::ToolchainDisabled),
        Some(path) => return Ok(vec![(EXPLICIT_VARIABLE.into(), path.into())]),
        None => {}
    }
    let mut candidates = vec![("active rustc".into(), places.active.clone())];
    if let Some(folder) = &places.rustup_toolchains {
        for name in rustup_toolchains(folder) {
            let rustc = folder.join(&name).join("bin/rustc");
            candidates.push((format!("rustup's {name}"), rustc));
        }
    }
    candidates.push(("system rustc".into(), places.system.clone()));
    Ok(candidates)
}

/// Returns the names of installed toolchains: stable first, then numbered ones from new to old, then the
/// rest (beta, nightly, custom ones).
fn rustup_toolchains(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| {
        let version = parse_version(name.split('-').next().unwrap_or_default());
        let class = if name.starts_with("stable") {
            0
        } else if version.is_some() {
            1
        } else {
            2
        };
        (class, std::cmp::Reverse(version), name.clone())
    });
    names
}

/// Parses the major and minor version of `1.96.0` or `1.98.0-nightly`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks the version of a compiler, and whether the sources of its `core` are installed.
fn probe(rustc: &Path, ask: &Ask<'_>) -> Result<Toolchain, Verdict> {
    let about = ask(rustc, "-vV")?;
    let field = |name: &str| {
        let mut lines = about.lines();
        lines.find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    let release = field("release:").unwrap_or_default();
    match parse_version(&release) {
        None => return Err(Verdict::DoesNotRun("its -vV names no release".into())),
        Some(version) if version < MINIMUM_VERSION => return Err(Verdict::TooOld(release)),
        Some(_) => {}
    }
    let sysroot = ask(rustc, "--print=sysroot")?;
    let sysroot = Path::new(sysroot.trim());
    let sources = sysroot.join("lib/rustlib/src/rust/library/core");
    if !sources.is_dir() {
        return Err(Verdict::NoSources(sources));
    }
    // rustup's `rustc` chooses a toolchain by the working directory; the `rustc` in the sysroot does not.
    let direct = sysroot.join("bin/rustc");
    Ok(Toolchain {
        rustc: if direct.is_file() {
            direct
        } else {
            rustc.into()
        },
        version: about.lines().next().unwrap_or_default().to_owned(),
        llvm_version: field("LLVM version:").unwrap_or_default(),
    })
}

fn run(rustc: &Path, argument: &str) -> Result<String, Verdict> {
    let output = Command::new(rustc)
        .arg(argument)
        // `rustc` may be rustup's, which would install the toolchain of a rust-toolchain.toml.
        .env("RUSTUP_AUTO_INSTALL", "0")
        .output()
        .map_err(|error| Verdict::DoesNotRun(error.to_string()))?;
    if !output.status.success() {
        return Err(Verdict::DoesNotRun(output.status.to_string()));
    }
    String::from_utf8(output.stdout).map_err(|error| Verdict::DoesNotRun(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Installs a file in place of a rustc of this version, with or without sources.
    fn fake_rustc(sysroot: &Path, version: &str, sources: bool) -> PathBuf {
        let rustc = sysroot.join("bin/rustc");
        fs::create_dir_all(sysroot.join("bin")).unwrap();
        fs::write(&rustc, version).unwrap();
        if sources {
            fs::create_dir_all(sysroot.join("lib/rustlib/src/rust/library/core")).unwrap();
        }
        rustc
    }

    /// Answers the queries to a [`fake_rustc`].
    fn ask(rustc: &Path, argument: &str) -> Result<String, Verdict> {
        let missing = |error: std::io::Error| Verdict::DoesNotRun(error.to_string());
        let version = fs::read_to_string(rustc).map_err(missing)?;
        Ok(match argument {
            "-vV" => {
                format!("rustc {version} (abc)\nrelease: {version}\nLLVM version: 22.1.8\n")
            }
            _ => rustc.ancestors().nth(2).unwrap().display().to_string() + "\n",
        })
    }

    fn find(places: &Places) -> Result<Toolchain> {
        Toolchain::find_with(places, &ask)
    }

    fn empty_places(root: &Path) -> Places {
        Places {
            explicit: None,
            active: root.join("no-rustc"),
            rustup_toolchains: Some(root.join("toolchains")),
            system: root.join("usr/bin/rustc"),
        }
    }

    #[test]
    fn the_active_rustc_comes_first_then_rustups_from_new_to_old_then_the_distributions() {
        let root = tempfile::tempdir().unwrap();
        let mut places = empty_places(root.path());
        let system = fake_rustc(&root.path().join("usr"), "1.96.0", true);
        assert_eq!(find(&places).unwrap().rustc, system);
        let active = root.path().join("active");
        places.active = fake_rustc(&active, "1.97.0", false);
        let of_rustup = |name, version, sources| {
            let sysroot = root.path().join("toolchains").join(name);
            fake_rustc(&sysroot, version, sources)
        };
        of_rustup("stable-x86_64", "1.97.0", false);
        of_rustup("1.96.0-x86_64", "1.96.0", true);
        of_rustup("nightly-x86_64", "1.98.0-nightly", true);
        let newest = of_rustup("1.97.1-x86_64", "1.97.1", true);
        assert_eq!(find(&places).unwrap().rustc, newest);
        fake_rustc(&active, "1.97.0", true);
        let found = find(&places).unwrap();
        assert_eq!(found.rustc, places.active);
        assert_eq!(found.to_string(), "rustc 1.97.0 (abc), LLVM 22.1.8");
    }

    #[test]
    fn an_explicit_rustc_is_used_or_refused_but_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let mut places = empty_places(root.path());
        fake_rustc(&root.path().join("usr"), "1.96.0", true);
        let old = fake_rustc(&root.path().join("old"), "1.80.0", true);
        places.explicit = Some(old.into());
        let error = find(&places).unwrap_err().to_string();
        assert!(error.contains("is 1.80.0, older than"), "{error}");

        places.explicit = Some("none".into());
        let disabled = find(&places).unwrap_err();
        assert!(matches!(disabled, Error::ToolchainDisabled));
    }

    #[test]
    fn the_error_says_what_was_looked_for_and_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        let mut places = empty_places(root.path());
        places.active = fake_rustc(&root.path().join("active"), "1.97.0", false);
        let error = find(&places).unwrap_err().to_string();
        for part in [
            "active rustc",
            "no ",
            "lib/rustlib/src/rust/library/core",
            "system rustc",
            "does not run",
            "rustup component add rust-src",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

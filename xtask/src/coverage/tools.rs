//! LLVM's tools: of the version that the compiler stands on, since each reads its own form of counters only.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::counted::Tested;
use super::error::CoverageError;

/// The tools.
pub(super) struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
    /// Not all installations have it.
    demangler: Option<PathBuf>,
}

impl Tools {
    /// From the compiler's own folder, where rustup puts them, or from the path, with or without their
    /// version in their names.
    pub(super) fn find() -> Result<Self, CoverageError> {
        let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let about = output(Command::new(&compiler).arg("-vV"))?;
        let llvm = llvm_of(&about).ok_or(CoverageError::NoLlvmVersion)?;
        let sysroot = output(Command::new(&compiler).args(["--print", "sysroot"]))?;
        let host = field(&about, "host: ").unwrap_or_default();
        let own = Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(host)
            .join("bin");
        let path = env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::iter::once(own)
            .chain(env::split_paths(&path))
            .collect();
        let find = |name: &str| {
            let names = [format!("{name}-{llvm}"), name.to_owned()];
            let candidates = folders
                .iter()
                .flat_map(|folder| names.iter().map(|name| folder.join(name)));
            candidates
                .filter(|path| path.is_file())
                .find(|path| version(path) == Some(llvm))
        };
        match (find("llvm-profdata"), find("llvm-cov")) {
            (Some(profdata), Some(cov)) => Ok(Self {
                profdata,
                cov,
                demangler: find("llvm-cxxfilt"),
            }),
            _ => Err(CoverageError::NoTools {
                compiler: about.lines().next().unwrap_or("rustc").to_owned(),
                llvm,
            }),
        }
    }

    /// What the tests counted, as `llvm-cov export` writes it.
    pub(super) fn export(&self, tested: &Tested, folder: &Path) -> Result<String, CoverageError> {
        let merged = folder.join("merged.profdata");
        output(
            Command::new(&self.profdata)
                .args(["merge", "-sparse", "-o"])
                .arg(&merged)
                .args(&tested.counters),
        )?;
        output(
            Command::new(&self.cov)
                .args([
                    "export",
                    "-format=text",
                    "-skip-expansions",
                    "-skip-branches",
                ])
                .arg("-instr-profile")
                .arg(&merged)
                .arg(&tested.program),
        )
    }

    /// Readable names of instances, as far as there is a tool for them.
    pub(super) fn readable(
        &self,
        names: BTreeSet<&str>,
    ) -> Result<BTreeMap<String, String>, CoverageError> {
        let Some(demangler) = &self.demangler else {
            return Ok(BTreeMap::new());
        };
        let not_started = |error| CoverageError::NotStarted {
            program: demangler.clone(),
            error,
        };
        let mut child = Command::new(demangler)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(not_started)?;
        let mut text = String::new();
        names.iter().for_each(|name| text.extend([name, "\n"]));
        let input = child.stdin.take();
        let writer =
            std::thread::spawn(move || input.map(|mut input| input.write_all(text.as_bytes())));
        let said = child.wait_with_output().map_err(not_started)?;
        if let Ok(Some(Err(error))) = writer.join() {
            return Err(not_started(error));
        }
        let readable = String::from_utf8_lossy(&said.stdout);
        let pairs = names.into_iter().zip(readable.lines());
        Ok(pairs
            .map(|(name, readable)| (name.to_owned(), readable.to_owned()))
            .collect())
    }
}

/// What a program prints; an error if it fails.
pub(super) fn output(command: &mut Command) -> Result<String, CoverageError> {
    let program = || PathBuf::from(command_name(command));
    let name = program();
    let said =
        command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| CoverageError::NotStarted {
                program: name.clone(),
                error,
            })?;
    if !said.status.success() {
        return Err(CoverageError::Failed {
            program: name,
            status: said.status,
            said: String::from_utf8_lossy(&said.stderr).into_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

fn command_name(command: &Command) -> &OsStr {
    command.get_program()
}

/// The version of a tool, if it is one of LLVM's.
fn version(program: &Path) -> Option<u32> {
    let about = output(Command::new(program).arg("--version")).ok()?;
    major(about.split("LLVM version ").nth(1)?)
}

/// The version of LLVM that `rustc -vV` names.
fn llvm_of(about: &str) -> Option<u32> {
    major(field(about, "LLVM version: ")?)
}

fn field<'a>(about: &'a str, name: &str) -> Option<&'a str> {
    about.lines().find_map(|line| line.strip_prefix(name))
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_llvm_is_known_by_its_first_number() {
        let about = "rustc 1.95.0 (59807616e 2026-04-14)\nhost: x86_64-unknown-linux-gnu\nLLVM version: 22.1.2\n";
        assert_eq!(llvm_of(about), Some(22));
        assert_eq!(field(about, "host: "), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(llvm_of("rustc 1.95.0\n"), None);
    }

    #[test]
    fn missing_tools_are_an_error_of_one_line_that_says_what_brings_them() {
        let error = CoverageError::NoTools {
            compiler: "rustc 1.95.0".to_owned(),
            llvm: 22,
        };
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("apt-get install llvm-22"), "{text}");
    }
}

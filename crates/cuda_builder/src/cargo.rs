//! The cargo run that compiles a kernel crate.
//!
//! It runs inside another cargo's build script, whose environment is full of settings for that other build.
//! A workspace above the crate may have a profile for the host. Neither may reach the device build, so all
//! relevant settings are set here.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Arch, Error, Result, Toolchain};

const TARGET: &str = "nvptx64-nvidia-cuda";

/// Prefixes of cargo settings that concern the machine and not the build; they are kept.
const MACHINE_SETTINGS: &[&str] = &[
    "CARGO_HOME",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
];

/// Profile settings that a workspace must not change. Several codegen units, or other cross-crate
/// optimisation, would spread the module over several assembly files.
const PROFILE: &[&str] = &[
    "lto='fat'",
    "codegen-units=1",
    "panic='abort'",
    "incremental=false",
    "strip='none'",
    "overflow-checks=false",
    "debug-assertions=false",
    "opt-level=3",
    "debug=false",
];

/// The names in a crate's manifest.
pub(crate) struct Names {
    pub(crate) package: String,
    /// The name of the package's library.
    pub(crate) library: String,
}

impl Names {
    pub(crate) fn read(crate_path: &Path) -> Result<Names> {
        let manifest = crate_path.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .map_err(|_| Error::CrateNotFound(crate_path.to_owned()))?;
        let package = name_in(&text, "[package]").ok_or(Error::NoPackageName(manifest))?;
        let library = name_in(&text, "[lib]").unwrap_or_else(|| package.replace('-', "_"));
        Ok(Names { package, library })
    }
}

/// Returns the value of `name` in a section of a manifest.
fn name_in(manifest: &str, section: &str) -> Option<String> {
    let mut lines = manifest.lines().map(str::trim);
    lines.find(|&line| line == section);
    lines
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| {
            let (key, value) = line.split_once('=')?;
            let value = value.trim().strip_prefix('"')?;
            (key.trim() == "name").then_some(value.split('"').next()?.to_owned())
        })
}

/// One compilation of a kernel crate.
pub(crate) struct Compilation<'a> {
    pub(crate) toolchain: &'a Toolchain,
    pub(crate) crate_path: &'a Path,
    pub(crate) names: &'a Names,
    pub(crate) arch: Arch,
    pub(crate) target_dir: &'a Path,
}

impl Compilation<'_> {
    /// Returns the folder of this compilation's outputs. File names do not distinguish architectures, and
    /// compilers that alternate in one folder would compile `core` anew each time.
    fn arch_dir(&self) -> PathBuf {
        let release = self.toolchain.version.split(' ').nth(1).unwrap_or("rustc");
        self.target_dir.join(release).join(self.arch.name())
    }

    /// Returns the path of the compiler's assembly, which is the PTX module.
    pub(crate) fn assembly(&self) -> PathBuf {
        self.arch_dir().join(format!("{}.s", self.names.package))
    }

    /// Runs cargo.
    pub(crate) fn run(&self) -> Result<()> {
        // Cargo considers the crate fresh even if its outputs have been deleted.
        if !self.assembly().is_file() {
            let _ = std::fs::remove_dir_all(self.arch_dir().join(TARGET));
        }
        let mut command = self.command();
        let program = PathBuf::from(command.get_program());
        let output = command.output().map_err(Error::io("running", program))?;
        if output.status.success() {
            self.stand_in_for_linked_module();
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Compile {
            package: self.names.package.clone(),
            arch: self.arch,
            first_error: first_error(&text).into(),
            output: text,
        })
    }

    /// Writes an empty file in place of the linked module, as new as the assembly. Cargo expects the
    /// linker's output and compiles anew if it is missing, but nothing was linked. If a future cargo looks
    /// elsewhere, the cost is a compilation.
    fn stand_in_for_linked_module(&self) {
        let name = format!("{}.ptx", self.names.library);
        let linked = self.arch_dir().join(TARGET).join("release/deps").join(name);
        let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
        if changed(&linked) < changed(&self.assembly()) {
            let _ = std::fs::write(linked, "");
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for (name, _) in env::vars_os() {
            if belongs_to_the_outer_build(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.crate_path)
            .stdin(Stdio::null())
            .env("RUSTC", &self.toolchain.rustc)
            // Lets a stable compiler use the unstable features around its PTX backend.
            .env("RUSTC_BOOTSTRAP", "1")
            // Also turns off a wrapper from a configuration file (a cache, for example). `core` is compiled
            // only once, and some wrappers do not know this target.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags().join("\u{1f}"))
            .env("RUSTUP_AUTO_INSTALL", "0")
            .args(["rustc", "--release", "--lib", "--crate-type=cdylib"])
            .args(["-Zbuild-std=core", "--target", TARGET, "--target-dir"])
            .arg(self.arch_dir());
        for setting in PROFILE {
            command
                .arg("--config")
                .arg(format!("profile.release.{setting}"));
        }
        let mut emit = OsString::from("--emit=asm=");
        emit.push(self.assembly());
        command.arg("--").arg(emit);
        // Not for `core`, which would otherwise be compiled anew for each folder.
        command.arg(remap(self.crate_path, &self.names.package));
        command
    }

    /// Flags for every crate of the device build, `core` included.
    fn rustflags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("-Ctarget-cpu={}", self.arch),
            format!("-Ctarget-feature=+{}", self.arch.ptx_feature()),
            format!("--cfg=cuda_arch=\"{}\"", self.arch),
            // The assembly is the result; the linker's output is unused.
            "-Clinker=true".into(),
            // Package settings in the workspace's profile come before these, which override them.
            "-Copt-level=3".into(),
            "-Ccodegen-units=1".into(),
            // This pass copies calls into the branches of a condition that is tested again later. A barrier
            // or warp operation between two `if thread == 0` would then exist twice, once per branch. The
            // threads of a warp would wait for each other at different copies, and the kernel would hang.
            // LLVM's own passes leave convergent operations and divergent targets alone.
            "-Zmir-enable-passes=-JumpThreading".into(),
            // Panic messages would put paths and line numbers into the module.
            "-Zlocation-detail=none".into(),
        ];
        if let Some(sysroot) = self.toolchain.rustc.ancestors().nth(2) {
            flags.push(remap(sysroot, "rustc"));
        }
        flags
    }
}

/// Replaces a folder's path by a name in the compiler's output, so that modules do not depend on the folder
/// in which they were compiled.
fn remap(folder: &Path, name: &str) -> String {
    format!("--remap-path-prefix={}={name}", folder.display())
}

fn belongs_to_the_outer_build(name: &str) -> bool {
    let of_cargo = name == "CARGO" || name.starts_with("CARGO_");
    let of_rustc = name.starts_with("RUSTC") || name.starts_with("RUSTDOC") || name == "RUSTFLAGS";
    let of_script = matches!(
        name,
        "RUSTUP_TOOLCHAIN"
            | "RUSTUP_TOOLCHAIN_SOURCE"
            | "TARGET"
            | "HOST"
            | "PROFILE"
            | "OPT_LEVEL"
            | "DEBUG"
            | "OUT_DIR"
            | "NUM_JOBS"
            | "MAKEFLAGS"
            | "CLIPPY_ARGS"
            | "__CARGO_DEFAULT_LIB_METADATA"
    );
    let of_machine = MACHINE_SETTINGS
        .iter()
        .any(|setting| name.starts_with(setting));
    (of_cargo || of_rustc || of_script) && !of_machine
}

/// Returns the first line that reports an error, or else the last line.
fn first_error(output: &str) -> &str {
    let mut lines = output.lines().map(str::trim);
    let error = lines.find(|line| line.starts_with("error"));
    error
        .or_else(|| output.lines().rfind(|line| !line.trim().is_empty()))
        .unwrap_or("cargo wrote nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_and_library_are_named_by_their_own_sections() {
        let root = tempfile::tempdir().unwrap();
        let names = |manifest: &str| {
            std::fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
            Names::read(root.path()).map(|names| (names.package, names.library))
        };
        let both = |package: &str, library: &str| (package.to_owned(), library.to_owned());
        assert_eq!(
            names("[lib]\nname = \"x\"\n[package]\nname = \"a-kernels\" # y\n").unwrap(),
            both("a-kernels", "x")
        );
        assert_eq!(
            names("[package]\nname = \"a-kernels\"\n[lib]\ntest = false\n").unwrap(),
            both("a-kernels", "a_kernels")
        );
        assert!(matches!(
            names("[package]\n[lib]\nname = \"x\"\n").unwrap_err(),
            Error::NoPackageName(_)
        ));
    }

    #[test]
    fn settings_of_the_outer_build_are_kept_out_and_those_of_the_machine_stay() {
        let outer = "CARGO CARGO_TARGET_DIR CARGO_ENCODED_RUSTFLAGS CARGO_PROFILE_RELEASE_LTO \
                     CARGO_CFG_TARGET_ARCH RUSTFLAGS RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN MAKEFLAGS";
        for name in outer.split_whitespace() {
            assert!(belongs_to_the_outer_build(name), "{name}");
        }
        let machine = "PATH HOME CARGO_HOME CARGO_NET_OFFLINE CARGO_HTTP_PROXY \
                       CARGO_REGISTRIES_MINE_INDEX RUSTUP_HOME HTTPS_PROXY";
        for name in machine.split_whitespace() {
            assert!(!belongs_to_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn the_first_error_is_picked_from_cargos_output() {
        let output = "   Compiling core\nwarning: x\nerror[E0425]: no `y`\nerror: aborting\n";
        assert_eq!(first_error(output), "error[E0425]: no `y`");
        assert_eq!(first_error("a\nkilled\n\n"), "killed");
        assert_eq!(first_error(""), "cargo wrote nothing");
    }
}

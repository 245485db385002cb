//! `cargo xtask coverage`: the regions of the kernels that their tests in the emulator reach.
//!
//! In the emulator, kernels are native code, which the compiler can instrument with counters. Only the crate
//! of the kernels is instrumented. Each of its tests runs in its own process, and LLVM's tools read the
//! counters. They count *regions*: pieces of source with a single entry and exit. A region of a generic
//! function exists in every instance of that function, and is counted in two ways: *together*, it is reached
//! if any instance reached it; *apart*, it counts once for each instance. Unreachable regions are marked,
//! with the reason, in `kernels-gpu/coverage.toml`, which also has the required figures.

mod choices;
mod marks;
mod regions;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use xshell::{Shell, cmd};

use crate::paths::{shell, target_dir};
use marks::Figures;
use report::Report;

/// The file with figures and marks.
const FIGURES: &str = "kernels-gpu/coverage.toml";

/// Runs the tests whose names contain one of `names`, or all if it is empty, and prints their coverage. With
/// `last`, reports on the previous run. Fails if a test fails and, after a run of all tests, on figures
/// below those in the repository or on useless marks.
pub(crate) fn run(root: &Path, names: &[String], last: bool) -> Result<()> {
    let shell = shell(root)?;
    let [profdata, cov] = tools(&shell)?;
    let program = compile(&shell, root)?;
    let folder = target_dir(root).join("xtask-coverage");
    let counters = folder.join("counters");
    if !last {
        count(&shell, &program, &counters, names)?;
    }
    let counters = shell.read_dir(counters)?;
    let merged = folder.join("merged.profdata");
    cmd!(shell, "{profdata} merge -sparse -o {merged} {counters...}")
        .quiet()
        .run()?;
    let export = cmd!(
        shell,
        "{cov} export -format=text -skip-expansions -skip-branches -instr-profile {merged} {program}"
    );
    let src = root.join("kernels-gpu/src");
    let figures = fs::read_to_string(root.join(FIGURES))?;
    let (figures, marks) = Figures::read(&figures, &src).context(FIGURES)?;
    let regions = regions::read(&export.quiet().read()?, &src).context("llvm-cov export")?;
    let report = Report::new(&regions, &marks);
    print!("{report}");
    if names.is_empty() && !last {
        report.hold(&figures).context(FIGURES)?;
    }
    Ok(())
}

/// Finds `llvm-profdata` and `llvm-cov` of the compiler's LLVM version, since each reads only its own format
/// of counters. Searches the compiler's folder, where rustup installs them, and the path, with or without
/// the version in the name.
fn tools(shell: &Shell) -> Result<[PathBuf; 2]> {
    let about = cmd!(shell, "rustc -vV").quiet().read()?;
    let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
    let version = field("LLVM version: ").context("`rustc -vV` names no version of LLVM")?;
    let llvm = version.split('.').next().unwrap_or(version);
    let sysroot = cmd!(shell, "rustc --print sysroot").quiet().read()?;
    let host = field("host: ").unwrap_or_default();
    let own = Path::new(&sysroot)
        .join("lib/rustlib")
        .join(host)
        .join("bin");
    let is_of_it = |program: &PathBuf| {
        let about = cmd!(shell, "{program} --version")
            .quiet()
            .ignore_stderr()
            .read();
        about.is_ok_and(|about| about.contains(&format!("LLVM version {llvm}.")))
    };
    let find = |name: &str| {
        let names = [own.join(name), format!("{name}-{llvm}").into(), name.into()];
        names.into_iter().find(is_of_it).with_context(|| {
            format!(
                "no {name} of LLVM {llvm}, on which rustc stands: `apt-get install llvm-{llvm}` or \
                 `rustup component add llvm-tools` brings it"
            )
        })
    };
    Ok([find("llvm-profdata")?, find("llvm-cov")?])
}

/// Builds the test program with instrumented kernels.
fn compile(shell: &Shell, root: &Path) -> Result<PathBuf> {
    let messages = cmd!(
        shell,
        "cargo test --locked --no-run -p convfuse-kernels-gpu --test emulator --message-format=json-render-diagnostics"
    );
    let wrapper = root.join("xtask/src/coverage/rustc.sh");
    let messages = messages
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .quiet()
        .read()?;
    let program = messages.lines().find_map(|message| {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        (message["target"]["name"] == "emulator").then_some(())?;
        Some(message["executable"].as_str()?.into())
    });
    program.context("cargo made no program of tests")
}

/// Runs each test in its own process, because threads with the same counters wait for each other. Runs as
/// many processes as there are processors.
fn count(shell: &Shell, program: &Path, counters: &Path, names: &[String]) -> Result<()> {
    shell.remove_path(counters)?;
    shell.create_dir(counters)?;
    let list = cmd!(shell, "{program} --list --format=terse").quiet();
    // Listing the tests also writes a profile, which is not needed.
    let list = list.env("LLVM_PROFILE_FILE", "/dev/null").read()?;
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let is_asked = |test: &&str| names.is_empty() || names.iter().any(|name| test.contains(name));
    let tests: Vec<&str> = tests.filter(is_asked).collect();
    ensure!(!tests.is_empty(), "there are no such tests of kernels");
    let folder = shell.current_dir().join("kernels-gpu");
    tests.into_par_iter().with_max_len(1).try_for_each(|test| {
        let start = Instant::now();
        let said = Command::new(program)
            .current_dir(&folder)
            .args(["--exact", test, "--test-threads=1"])
            .env("LLVM_PROFILE_FILE", counters.join(test))
            // Other thread orders reach the same regions.
            .env("CONVFUSE_TEST_ORDER", "natural")
            .output()?;
        let (text, seconds) = (
            String::from_utf8_lossy(&said.stdout),
            start.elapsed().as_secs_f64(),
        );
        ensure!(said.status.success(), "test {test} FAILED\n{text}");
        println!("test {test} ... ok ({seconds:.1} s)");
        Ok(())
    })
}

//! `cargo xtask gpu-bundle`: everything that a GPU machine without Rust needs to run the tests and
//! the demo, in one folder.
//!
//! ```text
//! .gpu-bundle/
//!     convfuse            the demo
//!     tests/suite         the integration tests
//!     golden/             their data
//!     run.sh              runs it all
//!     *_pytorch.py        compare with PyTorch, where that is installed
//!     *_problems.json     the problems of some of them
//!     stages.py, chain_modules.py  what they share
//!     plot_bench.py       draws what the demo's `bench --json` wrote, where matplotlib is installed
//! ```
//!
//! The kernels are inside the executables, and the driver is found at run time, so nothing else is needed.
//! Unit tests need no GPU and are not included.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::paths::shell;

/// The size limit of the bundle in bytes, for easy transfer.
const MAX_BYTES: u64 = 40_000_000;

/// The size limit of its demo in bytes.
const MAX_DEMO_BYTES: u64 = 16_000_000;

const RUN: &str = include_str!("gpu_bundle/run.sh");

/// Builds, strips and collects the files.
pub(crate) fn run(root: &Path) -> Result<()> {
    let (shell, bundle) = (shell(root)?, root.join(".gpu-bundle"));
    shell.remove_path(&bundle)?;
    let folders = ["tests", "golden"].map(|folder| bundle.join(folder));
    for folder in &folders {
        shell.create_dir(folder)?;
    }
    let [tests, golden] = folders;
    for (what, to) in [
        ("test --no-run --test=suite", tests.join("suite")),
        ("build --bins", bundle.join("convfuse")),
    ] {
        let built = build(&shell, what)?;
        cmd!(shell, "strip -o {to} {built}").quiet().run()?;
    }
    let demo = bundle.join("convfuse").metadata()?.len();
    ensure!(
        demo < MAX_DEMO_BYTES,
        "the demo has {demo} bytes, limit {MAX_DEMO_BYTES}"
    );
    for (from, to) in [("tests/golden", &golden), ("scripts", &bundle)] {
        for file in shell.read_dir(from)?.iter().filter(|path| path.is_file()) {
            shell.copy_file(file, to)?;
        }
    }
    let script = bundle.join("run.sh");
    shell.write_file(&script, RUN)?;
    cmd!(shell, "chmod +x {script}").quiet().run()?;

    let mut bytes = 0;
    for folder in [&bundle, &tests, &golden] {
        for path in shell.read_dir(folder)?.iter().filter(|path| path.is_file()) {
            bytes += path.metadata()?.len();
        }
    }
    println!(
        "{}: {:.1} MiB",
        bundle.display(),
        bytes as f64 / f64::from(1 << 20)
    );
    ensure!(
        bytes <= MAX_BYTES,
        "the bundle has {bytes} bytes, limit {MAX_BYTES}"
    );
    Ok(())
}

/// Runs cargo on the command line in release mode, and returns the path of the executable.
fn build(shell: &Shell, what: &str) -> Result<PathBuf> {
    let (is_test, what) = (what.starts_with("test"), what.split(' '));
    let messages = cmd!(
        shell,
        "cargo {what...} --release -p convfuse-cli --message-format=json-render-diagnostics"
    );
    for message in messages.quiet().read()?.lines() {
        let message: serde_json::Value = serde_json::from_str(message)?;
        let wanted = message["profile"]["test"].as_bool() == Some(is_test);
        if let (true, Some(path)) = (wanted, message["executable"].as_str()) {
            return Ok(path.into());
        }
    }
    bail!("cargo made no program")
}

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
//! The kernels are inside the executables, and the driver is found at run time, so this is all. Unit tests
//! need no GPU and stay behind.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the bundle must stay under, so that it travels easily.
const MAX_BYTES: u64 = 40_000_000;

/// What the demo in it must stay under.
const MAX_DEMO_BYTES: u64 = 16_000_000;

const RUN: &str = include_str!("gpu_bundle/run.sh");

/// Builds, strips and collects.
pub(crate) fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let bundle = root.join(".gpu-bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    let tests = bundle.join("tests");
    fs::create_dir_all(&tests)?;

    for (name, executable) in build(root, &["test", "--no-run", "--test=suite"])? {
        strip(&executable, &tests.join(name))?;
    }
    for (_, executable) in build(root, &["build", "--bins"])? {
        strip(&executable, &bundle.join("convfuse"))?;
    }
    let demo = bundle.join("convfuse").metadata()?.len();
    if demo >= MAX_DEMO_BYTES {
        return Err(format!("the demo has {demo} bytes, limit {MAX_DEMO_BYTES}").into());
    }
    copy_files(&root.join("tests/golden"), &bundle.join("golden"))?;
    write_executable(&bundle.join("run.sh"), RUN)?;
    copy_files(&root.join("scripts"), &bundle)?;

    let bytes = size(&bundle)?;
    println!(
        "{}: {:.1} MiB",
        bundle.display(),
        bytes as f64 / f64::from(1 << 20)
    );
    if bytes > MAX_BYTES {
        return Err(format!("the bundle has {bytes} bytes, limit {MAX_BYTES}").into());
    }
    Ok(())
}

/// Runs cargo on the command line in release mode and returns the executables that it made, each with its
/// name.
fn build(root: &Path, what: &[&str]) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(what)
        .args(["--release", "--package=convfuse-cli"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", what.join(" "), output.status).into());
    }
    let is_test = what.contains(&"test");
    let text = String::from_utf8(output.stdout)?;
    let mut executables = Vec::new();
    for line in text.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let wanted = message["profile"]["test"].as_bool() == Some(is_test);
        if let (true, Some(path)) = (wanted, message["executable"].as_str()) {
            let name = message["target"]["name"].as_str().unwrap_or("tests");
            executables.push((name.to_owned(), path.into()));
        }
    }
    Ok(executables)
}

/// Copies an executable without its symbols.
fn strip(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let status = Command::new("strip").arg("-o").arg(to).arg(from).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("strip {}: {status}", from.display()).into()),
        Err(error) => Err(format!("strip: {error}; it is part of binutils").into()),
    }
}

fn copy_files(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

fn write_executable(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn size(folder: &Path) -> Result<u64, Box<dyn Error>> {
    let mut bytes = 0;
    for entry in folder.read_dir()? {
        let path = entry?.path();
        bytes += if path.is_dir() {
            size(&path)?
        } else {
            path.metadata()?.len()
        };
    }
    Ok(bytes)
}

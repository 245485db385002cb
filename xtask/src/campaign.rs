//! `cargo xtask campaign`: builds the command line and has it draw cases.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Runs `convfuse campaign` with these arguments, in a build that is as fast as a user's.
pub(crate) fn run(root: &Path, arguments: &[OsString]) -> Result<(), Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args([
            "run",
            "--release",
            "--package=convfuse-cli",
            "--bin=convfuse",
            "--",
            "campaign",
        ])
        .args(arguments)
        .status()?;
    match status.code() {
        Some(0) => Ok(()),
        // What it says stands above.
        Some(code) => std::process::exit(code),
        None => Err(format!("convfuse campaign: {status}").into()),
    }
}

//! `cargo xtask campaign`: builds the command line and has it draw cases.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, exit};

use anyhow::{Context, Result};

/// Runs `convfuse campaign` with these arguments, in a build that is as fast as a user's.
pub(crate) fn run(root: &Path, arguments: &[OsString]) -> Result<()> {
    let of_cargo = "run --release --package=convfuse-cli --bin=convfuse -- campaign";
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(of_cargo.split(' '))
        .args(arguments);
    let status = command.status()?;
    // What it says stands above.
    exit(
        status
            .code()
            .with_context(|| format!("convfuse campaign: {status}"))?,
    )
}

//! `cargo xtask campaign`: builds the command line and runs a campaign of random cases.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, exit};

use anyhow::{Context, Result};

/// Runs `convfuse campaign` with these arguments, in a release build.
pub(crate) fn run(root: &Path, arguments: &[OsString]) -> Result<()> {
    let of_cargo = "run --release --package=convfuse-cli --bin=convfuse -- campaign";
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(of_cargo.split(' '))
        .args(arguments);
    let status = command.status()?;
    // Its output has already been printed.
    exit(
        status
            .code()
            .with_context(|| format!("convfuse campaign: {status}"))?,
    )
}

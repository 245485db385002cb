//! `convfuse completions`: shell completions.

use clap::CommandFactory;
use clap_complete::Shell;
use convfuse_cli::Status;

use super::failure::Outcome;
use super::out::Out;

/// Options of `completions`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The shell. What is printed belongs in ~/.local/share/bash-completion/completions/convfuse for bash, in
    /// a file `_convfuse` in a folder of $fpath for zsh, in ~/.config/fish/completions/convfuse.fish for fish
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let mut text = Vec::new();
    let mut command = super::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "convfuse", &mut text);
    out.bytes(&text)?;
    Ok(Status::Right)
}

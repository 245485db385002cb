//! `convfuse completions`: what a shell completes.

use clap::{CommandFactory, ValueEnum};
use clap_complete::shells;
use convfuse_cli::Status;

use super::failure::Outcome;
use super::out::Out;

/// Options of `completions`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    /// For ~/.local/share/bash-completion/completions/convfuse
    Bash,
    /// For a file `_convfuse` in a folder of $fpath
    Zsh,
    /// For ~/.config/fish/completions/convfuse.fish
    Fish,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let mut text = Vec::new();
    let mut command = super::Arguments::command();
    let name = "convfuse";
    match arguments.shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, name, &mut text),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, name, &mut text),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, name, &mut text),
    }
    out.bytes(&text)?;
    Ok(Status::Right)
}

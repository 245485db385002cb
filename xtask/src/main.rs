//! Chores of the repository, as `cargo xtask <chore>`.

mod campaign;
mod compiled;
mod copy;
mod coverage;
mod exports;
mod fuzz;
mod gpu_bundle;
mod layout;
mod mistakes;
mod mutants;
mod packages;
mod paths;
mod ptx;
mod ptxas;

/// The set of kernels; the build script reads the same file.
#[path = "../../host/ptx/kernel_set.rs"]
mod kernel_set;

use std::process::ExitCode;

use clap::Parser;

use paths::root;

/// Chores of the convfuse repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Chore {
    /// Compile and assemble the kernels and renew the shipped PTX and machine code in host/ptx.
    Ptx {
        /// Change nothing; fail if the shipped kernels are not what the sources give, or on what `ptxas`
        /// fails on.
        #[arg(long)]
        check: bool,
    },
    /// Assemble every kernel for every architecture, print what it uses, and fail if one spills, uses local
    /// memory or has its wgmma serialised.
    Ptxas,
    /// Pack tests, demo and data into .gpu-bundle, for a GPU machine without Rust.
    GpuBundle,
    /// Write down every name that the library exports, in host/exports.txt.
    Exports {
        /// Change nothing; fail if the list is not what the library exports.
        #[arg(long)]
        check: bool,
    },
    /// Give the command line damaged files, and fail on any that makes it panic, hang or leave half a file.
    Fuzz(fuzz::Arguments),
    /// Run the emulator's tests of kernels, and report which regions of the kernels they reach, by folders,
    /// and which they do not; fail below the figures in kernels-gpu/coverage.toml.
    Coverage {
        /// Tests whose names contain one of these alone; nothing is held against the figures then.
        names: Vec<String>,
        /// Run nothing; report on what the last run counted, and hold nothing against the figures.
        #[arg(long, conflicts_with = "names")]
        last: bool,
    },
    /// Draw random cases without end and compare all outputs: builds `convfuse campaign` and runs it with
    /// these arguments.
    Campaign {
        /// Such as --cases 10000 --seed 7 --device emulator; see `convfuse campaign --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Find problems that tell every mutant of launches and of the choice of kernels from the real one, and
    /// renew the record of their launches, tests/launches.jsonl.
    Mutants {
        /// Such as --seconds 600; see the example `mutants` of the command line.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Plant hand-written mistakes in a copy of the repository, and fail if a test does not detect its own.
    Mistakes(mistakes::Arguments),
    /// Check that every operator has its homes, that files stay short, that no modules import each other in a
    /// circle, and that published packages are whole.
    Layout,
}

fn main() -> ExitCode {
    let result = match Chore::parse() {
        Chore::Ptx { check: false } => ptx::renew(root()),
        Chore::Ptx { check: true } => ptx::check(root()),
        Chore::Ptxas => ptxas::run(root()),
        Chore::Exports { check: false } => exports::renew(root()),
        Chore::Exports { check: true } => exports::check(root()),
        Chore::Campaign { arguments } => campaign::run(root(), &arguments),
        Chore::Mutants { arguments } => mutants::run(root(), &arguments),
        Chore::Mistakes(arguments) => mistakes::run(root(), &arguments),
        Chore::GpuBundle => gpu_bundle::run(root()),
        Chore::Fuzz(arguments) => fuzz::run(root(), &arguments),
        Chore::Coverage { names, last } => coverage::run(root(), &names, last),
        Chore::Layout => layout::run(root()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

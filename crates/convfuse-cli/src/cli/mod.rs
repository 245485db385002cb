//! Commands, their options, and what they exit with.
//!
//! Results go to standard output, progress and complaints to standard error. The exit status is 0 for success, 1 for a
//! result that is wrong or a device that failed, 2 for arguments that make no sense.

mod arrays;
mod bench;
mod demo;
mod device;
mod explain;
mod info;
mod progress;
mod table;
mod verify;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};

/// Fused convolution pipelines on the GPU, checked against float64.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs problems 85 and 79 at full size and prints time and error of every strategy (the default).
    Demo(demo::Arguments),
    /// Runs every operator and the chains of the tables on this machine's device and compares all outputs.
    Verify(verify::Arguments),
    /// Times every strategy and compares it with the device's measured ceilings.
    Bench(Box<bench::Arguments>),
    /// Times arrays of the host through a model, on one device and several, beside the copies alone.
    Arrays(arrays::Arguments),
    /// Says which kernels a chain takes for an input's shape, which were considered, and why.
    Explain(Box<explain::Arguments>),
    /// Prints the devices of this machine, the kernels of this build, and how long the driver, the context, the kernels of
    /// problems 85 and 79 and their first results take.
    Info(info::Arguments),
}

/// What a command found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
}

type Outcome = Result<Verdict, Box<dyn Error>>;

/// Runs the command that the arguments name, of a program that began at `start`.
pub(crate) fn main(start: Instant) -> ExitCode {
    let outcome = match Arguments::parse().command {
        None => demo::run(&demo::Arguments::default()),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Verify(arguments)) => verify::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Arrays(arguments)) => arrays::run(&arguments),
        Some(Command::Explain(arguments)) => explain::run(&arguments),
        Some(Command::Info(arguments)) => info::run(&arguments, start),
    };
    match outcome {
        Ok(Verdict::Right) => ExitCode::SUCCESS,
        Ok(Verdict::Wrong) => ExitCode::FAILURE,
        Err(error) => {
            eprint!("convfuse: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

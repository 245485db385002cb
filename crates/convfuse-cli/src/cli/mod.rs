//! Commands, their options, and their exit status.
//!
//! Results go to standard output, progress and error messages to standard error. [`convfuse_cli::Status`]
//! and [`EXIT_STATUS`] define the exit status.

mod arrays;
mod bench;
mod campaign;
mod compare;
mod completions;
mod demo;
mod device;
mod explain;
mod failure;
mod files;
mod info;
mod interrupt;
mod json;
mod layers;
mod new;
mod out;
mod profile;
mod progress;
mod request;
mod run;
mod table;
mod tensors;
mod verify;

use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use convfuse_cli::Status;

use failure::{Failure, Outcome};
use out::Out;

/// Fused convolution pipelines on the GPU, checked against float64.
#[derive(Parser)]
#[command(version, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

/// The end of the help.
const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  a result is wrong, or differs by more than is allowed
  2  the request is invalid: an option, a shape, an attribute, a file
  3  the machine failed: a missing or lost device, memory, a disk
If several apply: 1 before 3 before 2. A program that is interrupted, or whose standard output is closed, ends by the signal.";

#[derive(Subcommand)]
enum Command {
    /// Runs problems 85 and 79 at full size and prints time and error of every strategy (the default).
    Demo(demo::Arguments),
    /// Runs every operator and the chains of the tables on this machine's device and compares all outputs.
    Verify(verify::Arguments),
    /// Generates random cases and compares all outputs; reduces a failure and prints the command that repeats
    /// it.
    Campaign(campaign::Arguments),
    /// Times every strategy and compares it with the device's measured ceilings.
    Bench(Box<bench::Arguments>),
    /// Times arrays of the host through a model, on one device and several, beside the copies alone.
    Arrays(arrays::Arguments),
    /// Runs a chain or a network with parameters from a file on an input from a file, in chunks of the batch.
    Run(run::Arguments),
    /// Compares two files of tensors, or two records of bench; the exit status is 1 if they differ by more
    /// than is allowed.
    Compare(compare::Arguments),
    /// Lists the kernels that layers take for an input's shape, those that were considered, and the
    /// reasons.
    Explain(Box<explain::Arguments>),
    /// Times each launch of one run, and tells by region where the time goes, beside the least time that the
    /// device allows.
    Profile(Box<profile::Arguments>),
    /// Prints the devices of this machine, the kernels of this build, and how long the driver, the context,
    /// the kernels of problems 85 and 79 and their first results take.
    Info(info::Arguments),
    /// Writes a project that uses the library, and builds without a CUDA SDK.
    New(new::Arguments),
    /// Prints completions for a shell.
    Completions(completions::Arguments),
}

/// Runs the command of the arguments. `start` is the time at which the program began.
pub(crate) fn main(start: Instant) -> ExitCode {
    interrupt::watch();
    let mut out = Out::new();
    let outcome = match Arguments::try_parse() {
        Ok(arguments) => command(arguments.command, start, &mut out),
        Err(refusal) => refused(&refusal, &mut out),
    };
    let outcome = outcome.and_then(|status| out.flush().map(|()| status));
    interrupt::give_way();
    let status = outcome.unwrap_or_else(|failure| {
        match &failure {
            Failure::Closed => interrupt::end_by_closed_pipe(),
            Failure::Refused(text) | Failure::Machine(text) => out::complain(text),
        }
        failure.status()
    });
    ExitCode::from(status.code())
}

fn command(command: Option<Command>, start: Instant, out: &mut Out) -> Outcome {
    match command {
        None => demo::run(&demo::Arguments::default(), out),
        Some(Command::Demo(arguments)) => demo::run(&arguments, out),
        Some(Command::Verify(arguments)) => verify::run(&arguments, out),
        Some(Command::Campaign(arguments)) => campaign::run(&arguments, out),
        Some(Command::Bench(arguments)) => bench::run(&arguments, out),
        Some(Command::Arrays(arguments)) => arrays::run(&arguments, out),
        Some(Command::Run(arguments)) => run::run(&arguments, out),
        Some(Command::Compare(arguments)) => compare::run(&arguments, out),
        Some(Command::Completions(arguments)) => completions::run(&arguments, out),
        Some(Command::Explain(arguments)) => explain::run(&arguments, out),
        Some(Command::Profile(arguments)) => profile::run(&arguments, out),
        Some(Command::New(arguments)) => new::run(&arguments, out),
        Some(Command::Info(arguments)) => info::run(&arguments, start, out),
    }
}

/// Prints clap's output: help and version, or an error in the arguments.
fn refused(refusal: &clap::Error, out: &mut Out) -> Outcome {
    if !matches!(
        refusal.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        out::say(format_args!("{}", refusal.to_string().trim_end()));
        return Ok(Status::Refused);
    }
    let text = refusal.render();
    match out.is_terminal() {
        true => out.bytes(text.ansi().to_string().as_bytes())?,
        false => out.bytes(text.to_string().as_bytes())?,
    }
    Ok(Status::Right)
}

//! The command line of convfuse: `demo` (the default), `verify`, `bench`, `arrays`, `explain`, `info`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main(std::time::Instant::now())
}

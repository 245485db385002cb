//! The command line of convfuse: `demo` (the default), `verify`, `bench`, `explain`, `info`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}

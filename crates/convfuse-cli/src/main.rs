//! The command line of convfuse. `demo` is the default command.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::thread::JoinHandle;

/// Stack size in bytes of the thread that runs the program, independent of `ulimit -s`.
const STACK_BYTES: usize = 8 << 20;

fn main() -> std::process::ExitCode {
    let start = std::time::Instant::now();
    let main = std::thread::Builder::new().stack_size(STACK_BYTES);
    match main.spawn(move || cli::main(start)).map(JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // The system grants no thread: run on the main thread.
        Err(_) => cli::main(start),
    }
}

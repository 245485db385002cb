//! The command line of convfuse: `demo` (the default), `verify`, `bench`, `arrays`, `explain`, `info`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::thread::JoinHandle;

/// Bytes of the stack that the program runs on, whatever `ulimit -s` leaves it.
const STACK_BYTES: usize = 8 << 20;

fn main() -> std::process::ExitCode {
    let start = std::time::Instant::now();
    let main = std::thread::Builder::new().stack_size(STACK_BYTES);
    match main.spawn(move || cli::main(start)).map(JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // Where no thread is to be had.
        Err(_) => cli::main(start),
    }
}

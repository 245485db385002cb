//! The tests of kernels, compiled so that kernels count, and run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use serde_json::Value;

use super::error::CoverageError;
use super::{KERNELS, tools};

/// The name of the tests' program.
const TESTS: &str = "emulator";

/// The folder of what its processes counted.
const COUNTERS: &str = "counters";

/// Set where this program stands in for the compiler.
const IS_COMPILER: &str = "CONVFUSE_COVERAGE_COMPILER";

/// A program of tests, and the files that its processes left.
pub(super) struct Tested {
    pub(super) program: PathBuf,
    pub(super) counters: Vec<PathBuf>,
}

/// Cargo calls this program in place of the compiler, with the compiler and its arguments, for the
/// workspace's crates. `None` if it was not called so.
pub(crate) fn wrapped_compiler() -> Option<ExitCode> {
    env::var_os(IS_COMPILER)?;
    let mut arguments = env::args_os().skip(1);
    let mut command = Command::new(arguments.next()?);
    let arguments: Vec<_> = arguments.collect();
    let is = |name: &str| {
        let mut pairs = arguments.windows(2);
        pairs.any(|pair| pair[0] == "--crate-name" && pair[1] == name)
    };
    command.args(&arguments);
    if is(&KERNELS.replace('-', "_")) {
        command.arg("-Cinstrument-coverage");
    } else if is(TESTS) {
        // What writes the counters at the end is linked where a crate with counters is; nothing refers to it,
        // so it is named.
        command.arg("-Clink-arg=-Wl,-u,__llvm_profile_runtime");
    }
    let code = match command.status() {
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
        Err(error) => {
            eprintln!("xtask: {}: {error}", command.get_program().display());
            1
        }
    };
    Some(ExitCode::from(code))
}

/// Compiles the tests and runs those whose names contain one of `names`, all if there are none.
pub(super) fn run(root: &Path, folder: &Path, names: &[String]) -> Result<Tested, CoverageError> {
    let program = compile(root)?;
    let counters = folder.join(COUNTERS);
    let prepared = match fs::remove_dir_all(&counters) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(&counters),
    };
    prepared.map_err(|error| CoverageError::File {
        path: counters.clone(),
        error,
    })?;
    // It counts, too, though there is nothing to count.
    let mut list = Command::new(&program);
    list.args(["--list", "--format=terse"]);
    list.env("LLVM_PROFILE_FILE", folder.join("list.profraw"));
    let list = tools::output(&mut list)?;
    let tests: Vec<&str> = (list.lines())
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|test| names.is_empty() || names.iter().any(|name| test.contains(name.as_str())))
        .collect();
    if tests.is_empty() {
        return Err(CoverageError::NoTests);
    }
    let failed = run_all(root, &program, &counters, &tests)?;
    if !failed.is_empty() {
        return Err(CoverageError::Tests(failed));
    }
    Ok(Tested {
        program,
        counters: tests.iter().map(|test| file_of(&counters, test)).collect(),
    })
}

/// The tests' program and what its last run left.
pub(super) fn last(root: &Path, folder: &Path) -> Result<Tested, CoverageError> {
    let counters = folder.join(COUNTERS);
    let file = |error| CoverageError::File {
        path: counters.clone(),
        error,
    };
    let files = fs::read_dir(&counters).map_err(file)?;
    let files: Result<Vec<_>, _> = files.map(|entry| Ok(entry?.path())).collect();
    Ok(Tested {
        program: compile(root)?,
        counters: files.map_err(file)?,
    })
}

fn file_of(counters: &Path, test: &str) -> PathBuf {
    counters.join(format!("{test}.profraw"))
}

/// The tests' program.
fn compile(root: &Path) -> Result<PathBuf, CoverageError> {
    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let this = env::current_exe().map_err(|error| CoverageError::NotStarted {
        program: "xtask".into(),
        error,
    })?;
    let mut command = Command::new(&cargo);
    command
        .current_dir(root)
        .args([
            "test",
            "--locked",
            "--no-run",
            "--package",
            KERNELS,
            "--test",
            TESTS,
        ])
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTC_WORKSPACE_WRAPPER", this)
        .env(IS_COMPILER, "1")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let said = command
        .output()
        .map_err(|error| CoverageError::NotStarted {
            program: cargo.clone(),
            error,
        })?;
    if !said.status.success() {
        return Err(CoverageError::Failed {
            program: cargo,
            status: said.status,
            said: String::new(),
        });
    }
    let messages = String::from_utf8_lossy(&said.stdout);
    messages
        .lines()
        .find_map(executable)
        .ok_or(CoverageError::NoTests)
}

/// The program that a message of cargo is about.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    (message["target"]["name"] == TESTS).then_some(())?;
    Some(message["executable"].as_str()?.into())
}

/// Runs each test in a process of its own, since processes do not wait for each other's counters, as many at
/// once as there are processors. The names of those that failed.
fn run_all(
    root: &Path,
    program: &Path,
    counters: &Path,
    tests: &[&str],
) -> Result<Vec<String>, CoverageError> {
    let queue = Mutex::new(tests.iter());
    let failed = Mutex::new(Vec::new());
    let next = || {
        queue
            .lock()
            .ok()
            .and_then(|mut queue| queue.next().copied())
    };
    let work = || -> Result<(), CoverageError> {
        while let Some(test) = next() {
            let start = Instant::now();
            let said = Command::new(program)
                .current_dir(root.join(KERNELS))
                .args(["--exact", test, "--test-threads=1"])
                .env("LLVM_PROFILE_FILE", file_of(counters, test))
                // Other orders of threads reach the same.
                .env("CONVFUSE_TEST_ORDER", "natural")
                .env_remove(IS_COMPILER)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| CoverageError::NotStarted {
                    program: program.to_owned(),
                    error,
                })?;
            let passed = said.status.success();
            println!(
                "test {test} ... {} ({:.1} s)",
                if passed { "ok" } else { "FAILED" },
                start.elapsed().as_secs_f64()
            );
            if !passed {
                print!("{}", String::from_utf8_lossy(&said.stdout));
                eprint!("{}", String::from_utf8_lossy(&said.stderr));
                if let Ok(mut failed) = failed.lock() {
                    failed.push(test.to_owned());
                }
            }
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => outcome?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(failed.into_inner().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_tests_is_found_among_cargos_messages() {
        let other =
            r#"{"reason":"compiler-artifact","target":{"name":"kernels_gpu"},"executable":null}"#;
        assert_eq!(executable(other), None);
        let tests = r#"{"reason":"compiler-artifact","target":{"name":"emulator"},"executable":"/t/emulator-1"}"#;
        assert_eq!(executable(tests), Some("/t/emulator-1".into()));
    }
}

//! What can go wrong while coverage is measured.

use std::fmt;
use std::path::PathBuf;

/// Why there is no report, or why it is not good enough.
#[derive(Debug)]
pub(crate) enum CoverageError {
    /// No tools that read what this compiler's programs count.
    NoTools {
        /// The compiler.
        compiler: String,
        /// The version of LLVM that it stands on.
        llvm: u32,
    },
    /// The compiler does not say which LLVM it stands on.
    NoLlvmVersion,
    /// A program that failed.
    Failed {
        program: PathBuf,
        status: std::process::ExitStatus,
        said: String,
    },
    /// A program that did not start.
    NotStarted {
        program: PathBuf,
        error: std::io::Error,
    },
    /// A file that could not be read or written.
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    /// Cargo made no program of tests.
    NoTests,
    /// Tests that failed.
    Tests(Vec<String>),
    /// LLVM's report is not what it should be.
    Export(String),
    /// A line of the file of figures.
    Figures { line: usize, what: String },
    /// A mark that marks nothing.
    UselessMark { line: usize, what: &'static str },
    /// Figures that fell short.
    Below {
        what: &'static str,
        reached: f64,
        wanted: f64,
    },
}

impl std::error::Error for CoverageError {}

impl fmt::Display for CoverageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTools { compiler, llvm } => write!(
                f,
                "coverage: no llvm-profdata and llvm-cov of LLVM {llvm}, with which {compiler} counts: \
                 `apt-get install llvm-{llvm}` or `rustup component add llvm-tools` brings them"
            ),
            Self::NoLlvmVersion => f.write_str("coverage: `rustc -vV` names no version of LLVM"),
            Self::Failed {
                program,
                status,
                said,
            } => write!(f, "coverage: {}: {status}\n{said}", program.display()),
            Self::NotStarted { program, error } => {
                write!(f, "coverage: {}: {error}", program.display())
            }
            Self::File { path, error } => write!(f, "coverage: {}: {error}", path.display()),
            Self::NoTests => f.write_str("coverage: there are no such tests of kernels"),
            Self::Tests(names) => write!(f, "coverage: tests failed: {}", names.join(", ")),
            Self::Export(what) => write!(f, "coverage: `llvm-cov export` gives {what}"),
            Self::Figures { line, what } => write!(f, "{}:{line}: {what}", super::FIGURES),
            Self::UselessMark { line, what } => {
                write!(f, "{}:{line}: the mark {what}", super::FIGURES)
            }
            Self::Below {
                what,
                reached,
                wanted,
            } => write!(
                f,
                "coverage: {reached:.2} % of regions are reached, {what}, the limit is {wanted:.2} % ({})",
                super::FIGURES
            ),
        }
    }
}

//! Errors of compiling a kernel crate to PTX.

use std::path::PathBuf;

use crate::{Arch, Rejected};

/// The result of building.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that prevents the build of PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No installed compiler can build for the device.
    #[error("{}", no_toolchain(.0))]
    NoToolchain(Vec<Rejected>),
    /// `CUDA_BUILDER_RUSTC` is `none`.
    #[error("device toolchain: CUDA_BUILDER_RUSTC is none, so none is used")]
    ToolchainDisabled,
    /// The path given to the builder has no crate.
    #[error("kernel crate: {0} has no Cargo.toml")]
    CrateNotFound(PathBuf),
    /// The crate's manifest has no package name.
    #[error("kernel crate: {0} names no package")]
    NoPackageName(PathBuf),
    /// No architecture has this name.
    #[error("architecture: {0} is unknown, known are {known}", known = known_architectures())]
    UnknownArch(String),
    /// Cargo or the compiler failed.
    #[error("kernel crate {package}: does not compile for {arch}: {first_error}")]
    Compile {
        /// The kernel crate.
        package: String,
        /// The architecture to build for.
        arch: Arch,
        /// The first line of cargo's output that reports an error.
        first_error: String,
        /// Everything that cargo wrote.
        output: String,
    },
    /// A launch bound names no kernel.
    #[error("launch bounds: {0} is not an entry of the module")]
    UnknownKernel(String),
    /// A launch bound cannot be read, or makes no sense.
    #[error("launch bounds: `{line}`: {reason}")]
    LaunchBounds {
        /// The line in the module.
        line: String,
        /// The problem with the line.
        reason: &'static str,
    },
    /// A module has a top-level item that `split` cannot assign to a kernel.
    #[error("PTX: `{0}` is neither variable nor entry of a kernel")]
    Split(String),
    /// Kernels cannot be put into an archive, or cannot be found in one.
    #[error("{path}: {cause}", path = .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: kernel_archive::ArchiveError,
    },
    /// The text file beside the shipped PTX does not state its sources.
    #[error("shipped PTX: {0} is not the header that `KernelSet::ship` writes")]
    NoHeader(PathBuf),
    /// A file or a program could not be used.
    #[error("{action} {path}: {cause}", path = .path.display())]
    Io {
        /// The attempted action, such as "reading".
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
}

impl Error {
    /// Returns a converter for `map_err` on archive errors at `path`.
    pub(crate) fn archive(
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(kernel_archive::ArchiveError) -> Self {
        let path = path.into();
        move |cause| Self::Archive { path, cause }
    }

    /// Returns a converter for `map_err` on errors of operations on `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io {
            action,
            path,
            cause,
        }
    }
}

fn no_toolchain(rejected: &[Rejected]) -> String {
    let mut text = String::from("device toolchain: none found");
    for candidate in rejected {
        text += &format!("; {candidate}");
    }
    text + "; a compiler with the sources of core comes with `rustup component add rust-src`, \
            on Debian with `apt-get install rustc-web rust-web-src`"
}

fn known_architectures() -> String {
    let names: Vec<_> = Arch::ALL.iter().map(|arch| arch.name()).collect();
    names.join(", ")
}

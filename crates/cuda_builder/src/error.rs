//! What can go wrong between a kernel crate and its PTX.

use std::path::PathBuf;

use crate::{Arch, Rejected};

/// The result of building.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no PTX.
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
    /// Cargo or the compiler refused.
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
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A module has at its top level what `split` cannot share out between its kernels.
    #[error("PTX: `{0}` is neither variable nor entry of a kernel")]
    Split(String),
    /// Kernels cannot be put into an archive, or not be found in one.
    #[error("{path}: {cause}", path = .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: kernel_archive::ArchiveError,
    },
    /// The file beside the PTX carried along does not say what that was compiled from.
    #[error("shipped PTX: {0} is not the header that `KernelSet::ship` writes")]
    NoHeader(PathBuf),
    /// A file or a program could not be used.
    #[error("{action} {path}: {cause}", path = .path.display())]
    Io {
        /// What was tried, as in "reading".
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: std::io::Error,
    },
}

impl Error {
    /// For `map_err` on archives at `path`.
    pub(crate) fn archive(
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(kernel_archive::ArchiveError) -> Self {
        let path = path.into();
        move |cause| Self::Archive { path, cause }
    }

    /// For `map_err` on operations on `path`.
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

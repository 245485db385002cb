//! The CUDA driver API, found at run time.
//!
//! `cust` declares the driver's functions as external symbols, and so an ordinary build of it links
//! `libcuda.so`: the program needs the CUDA SDK to build and does not even start on a machine
//! without a driver. This crate itself defines the functions that `cust` calls. Each one looks up its
//! namesake in the installed driver when it is first called and passes the call on; where there is no
//! driver, it returns an error code like any other failed call.
//!
//! 1. The program links, because the symbols are here.
//! 2. It starts anywhere, because nothing refers to `libcuda.so` before the first call.
//! 3. It works with any driver, because a function that an old driver lacks fails alone.
//!
//! A program needs this crate in its dependencies and one mention of it (`cuda_loader::driver()`
//! will do), since rustc does not link a crate that nobody mentions.
//!
//! # What the calls return without a driver
//!
//! | state | code |
//! |---|---|
//! | no driver library | `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED` (303) |
//! | the library lacks this function | `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND` (302) |
//! | the driver returns a code that `cust` has no name for | `CUDA_ERROR_UNKNOWN` (999) |
//!
//! The last line matters for soundness: `CUresult` is a Rust `enum`, and drivers are newer than it.
//!
//! # Building without an SDK
//!
//! `cust`'s build script insists on a folder that looks like an SDK and asks the linker for
//! `-lcuda`. The folder is found by the variable `CUDA_LIBRARY_PATH`, and any with a `lib64` in it will
//! do. The library is found by this crate's own build script: the folder `no-sdk` has a `libcuda.so`
//! that is a linker script and adds nothing. Where an SDK is installed, `cust` finds that one, and the
//! functions here still win, because they come first.
//!
//! # Examples
//!
//! ```
//! match cuda_loader::driver() {
//!     Ok(driver) => println!("CUDA driver {} in {}", driver.version, driver.library),
//!     Err(error) => println!("no GPU: {error}"),
//! }
//! ```

mod driver;
mod error_text;
mod status;
mod table;

pub use driver::{DriverInfo, DriverVersion, driver, symbol};
pub use status::known;

use std::ffi::c_int;

/// Why the driver, or one of its functions, is not to be had.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No library of any of the known names could be loaded.
    #[error(
        "CUDA driver: not found as {}; install the NVIDIA driver to use a GPU",
        list(.attempts)
    )]
    LibraryNotFound {
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// The library was loaded but has no function of this name.
    #[error("CUDA driver: {library} has no function {symbol}, a newer driver may")]
    SymbolNotFound {
        /// The library that was loaded.
        library: &'static str,
        /// The function looked up in it.
        symbol: String,
    },
    /// The driver would not say its version.
    #[error("CUDA driver: cuDriverGetVersion in {library} returned error {code}")]
    Version {
        /// The library that was loaded.
        library: &'static str,
        /// The driver's error code.
        code: c_int,
    },
}

/// One library name that was tried, and what the system's loader said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// The name or path given to the loader.
    pub library: &'static str,
    /// The loader's message.
    pub message: String,
}

fn list(attempts: &[Attempt]) -> String {
    let each: Vec<_> = attempts
        .iter()
        .map(|attempt| format!("{} ({})", attempt.library, attempt.message))
        .collect();
    each.join(", nor as ")
}

//! The CUDA driver API, loaded at run time.
//!
//! `cust` declares the driver's functions as external symbols, so an ordinary build of it links
//! `libcuda.so`. The program then needs the CUDA SDK to build, and does not start on a machine without a
//! driver. This crate defines the functions that `cust` calls. Each function looks up the driver's function
//! of the same name at its first call and forwards the call. Without a driver, it returns an error code
//! like any other failed call.
//!
//! 1. The program links, because this crate defines the symbols.
//! 2. It starts anywhere, because nothing refers to `libcuda.so` before the first call.
//! 3. It works with any driver. If an old driver lacks a function, only calls of that function fail.
//!
//! A program must depend on this crate and mention it once (for example by `cuda_loader::driver()`),
//! because rustc does not link a crate that is never mentioned.
//!
//! # Error codes of calls
//!
//! | state | code |
//! |---|---|
//! | no driver library | `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED` (303) |
//! | the library lacks this function | `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND` (302) |
//! | the driver returns a code that `cust` has no name for | `CUDA_ERROR_UNKNOWN` (999) |
//!
//! The last line is needed for soundness: `CUresult` is a Rust `enum`, and newer drivers return codes that
//! it lacks.
//!
//! # Building without an SDK
//!
//! `cust`'s build script needs a folder that looks like an SDK, and asks the linker for `-lcuda`. The
//! variable `CUDA_LIBRARY_PATH` names the folder; any folder with a `lib64` in it suffices. This crate's
//! build script supplies the library: the folder `no-sdk` has a `libcuda.so` that is a linker script and
//! adds nothing. If an SDK is installed, `cust` finds the SDK's library, but the functions of this crate
//! take precedence because they come first.
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

/// An error in loading the driver or one of its functions.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No library of any of the known names could be loaded.
    #[error(
        "CUDA driver: not found as {}; install the NVIDIA driver to use a GPU",
        list(.attempts)
    )]
    LibraryNotFound {
        /// The attempts, in order.
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
    /// The driver failed to report its version.
    #[error("CUDA driver: cuDriverGetVersion in {library} returned error {code}")]
    Version {
        /// The library that was loaded.
        library: &'static str,
        /// The driver's error code.
        code: c_int,
    },
}

/// An attempt to load a library, with the message of the system's loader.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// The name or path of the library.
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

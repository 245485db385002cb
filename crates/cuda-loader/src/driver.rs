//! Loads the driver's library and looks up its functions.

use std::error::Error;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use cust::sys::CUresult;
use libloading::Library;

use crate::{Attempt, LoadError};

/// The names that the driver's installers give to its library, most common first. The unversioned
/// `libcuda.so` is not among them: it belongs to the SDK and may be a stub.
#[cfg(not(windows))]
const LIBRARY_NAMES: &[&str] = &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"];
#[cfg(windows)]
const LIBRARY_NAMES: &[&str] = &["nvcuda.dll"];

struct Driver {
    name: &'static str,
    library: Library,
}

/// Loads the driver's library once; it stays loaded until the process ends.
fn load() -> Result<&'static Driver, LoadError> {
    static DRIVER: OnceLock<Result<Driver, LoadError>> = OnceLock::new();
    DRIVER
        .get_or_init(open_first)
        .as_ref()
        .map_err(Clone::clone)
}

fn open_first() -> Result<Driver, LoadError> {
    let mut attempts = Vec::new();
    for &name in LIBRARY_NAMES {
        // SAFETY: loading runs the library's initialisers. Systems install only the NVIDIA driver under
        // these names, and its initialisers may run in any program.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(Driver { name, library }),
            Err(error) => attempts.push(Attempt {
                library: name,
                message: message(name, &error),
            }),
        }
    }
    Err(LoadError::LibraryNotFound { attempts })
}

/// Returns the message of the system's loader without the leading library name. `libloading` keeps the
/// message as the cause of its own error.
fn message(library: &str, error: &libloading::Error) -> String {
    let message = match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    };
    let rest = message.strip_prefix(library);
    match rest.and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => rest.to_owned(),
        None => message,
    }
}

/// Looks up a function of the driver by its exported name (such as `c"cuMemAlloc_v2"`), for functions that
/// this crate does not define.
///
/// # Errors
///
/// [`LoadError::LibraryNotFound`] without a driver, [`LoadError::SymbolNotFound`] if the driver lacks the
/// function.
pub fn symbol(name: &CStr) -> Result<NonNull<c_void>, LoadError> {
    let driver = load()?;
    let missing = || LoadError::SymbolNotFound {
        library: driver.name,
        symbol: name.to_string_lossy().into_owned(),
    };
    // SAFETY: the symbol is only used as an address, which is valid for any symbol. The caller of the
    // function is responsible for its signature.
    let found = unsafe { driver.library.get::<*mut c_void>(name.to_bytes_with_nul()) };
    found
        .ok()
        .and_then(|symbol| NonNull::new(*symbol))
        .ok_or_else(missing)
}

/// One function of the driver: its name, and its address once it has been looked up.
pub(crate) struct Entry {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Entry {
    /// Makes the entry of a name that ends with a NUL, its only one.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name: match CStr::from_bytes_with_nul(name.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name of a function ends with its only NUL"),
            },
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the function's address, or the error code that the calling function must return.
    #[inline]
    pub(crate) fn address(&self) -> Result<NonNull<c_void>, CUresult> {
        match NonNull::new(self.address.load(Ordering::Acquire)) {
            Some(address) => Ok(address),
            None => self.look_up(),
        }
    }

    /// Looks up the address. Several threads may do so at once; all find the same address.
    #[cold]
    fn look_up(&self) -> Result<NonNull<c_void>, CUresult> {
        match symbol(self.name) {
            Ok(address) => {
                self.address.store(address.as_ptr(), Ordering::Release);
                Ok(address)
            }
            Err(LoadError::SymbolNotFound { .. }) => {
                Err(CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)
            }
            Err(_) => Err(CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED),
        }
    }
}

/// The CUDA version that a driver supports.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DriverVersion {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl DriverVersion {
    /// Decodes the driver's version number: 1000 for a major and 10 for a minor version.
    fn from_driver(number: c_int) -> Self {
        let number = number.unsigned_abs();
        Self {
            major: number / 1000,
            minor: number % 1000 / 10,
        }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The loaded driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DriverInfo {
    /// The name under which its library was loaded.
    pub library: &'static str,
    /// The newest CUDA version it supports.
    pub version: DriverVersion,
}

/// Loads the driver and queries its version. It initialises nothing and counts no devices, so `Ok` does not
/// guarantee a GPU.
///
/// # Errors
///
/// [`LoadError::LibraryNotFound`] with the system's message for each library name,
/// [`LoadError::SymbolNotFound`], or [`LoadError::Version`] with the driver's error code.
pub fn driver() -> Result<DriverInfo, LoadError> {
    let library = load()?.name;
    let address = symbol(c"cuDriverGetVersion")?;
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: this is the signature of `cuDriverGetVersion` since CUDA 2.2.
    let get_version = unsafe { mem::transmute::<NonNull<c_void>, GetVersion>(address) };
    let mut number = 0;
    // SAFETY: the function writes one int, and `number` is one.
    match unsafe { get_version(&mut number) } {
        0 => Ok(DriverInfo {
            library,
            version: DriverVersion::from_driver(number),
        }),
        code => Err(LoadError::Version { library, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported_with_every_name_tried() {
        let error = LoadError::LibraryNotFound {
            attempts: vec![
                Attempt {
                    library: "liba.so",
                    message: "no such file".into(),
                },
                Attempt {
                    library: "libb.so",
                    message: "wrong class".into(),
                },
            ],
        };
        assert_eq!(
            error.to_string(),
            "CUDA driver: not found as liba.so (no such file), nor as libb.so (wrong class); \
             install the NVIDIA driver to use a GPU"
        );
    }
}

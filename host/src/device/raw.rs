//! Handles of the CUDA driver, for streams that are shared with another library.
//!
//! They are plain pointers, so that no crate that binds the driver is part of this library's interface, in whatever
//! version: cast them to the type that yours gives them. What is done with one is not seen by the library.

use std::ffi::c_void;

/// A stream, the driver's `CUstream`.
pub type RawStream = *mut c_void;

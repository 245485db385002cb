//! The CUDA driver API, found at run time.

//! Fallible allocation of host memory, for sizes that come from a user.
//!
//! Ordinary vectors abort the process if memory is lacking.

mod system;

use std::alloc::{Layout, alloc_zeroed};
use std::path::Path;

use crate::dtype::Element;
use system::System;

/// An allocation that the host cannot serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoMemory {
    /// The requested size in bytes.
    pub(crate) requested: u64,
    /// A description of the available memory.
    pub(crate) available: String,
}

/// Allocates an empty vector with room for `len` elements.
///
/// # Errors
/// [`NoMemory`] if the system refuses the size or does not have it.
pub(crate) fn reserve<T>(len: usize) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    reserve_in(&mut values, len)?;
    Ok(values)
}

/// Resizes a vector to `len` elements of unspecified value, in the same memory if it is large enough.
///
/// # Errors
/// As [`reserve`]; the vector may be empty then.
pub(crate) fn resize<T: Element>(values: &mut Vec<T>, len: usize) -> Result<(), NoMemory> {
    if len > values.capacity() {
        // The old elements need not be copied.
        values.clear();
        reserve_in(values, len)?;
    }
    values.resize(len, T::default());
    Ok(())
}

/// Allocates `len` zeros. The pages of a large allocation take memory only once they are written.
///
/// # Errors
/// As [`reserve`].
pub(crate) fn zeroed<T: Element>(len: usize) -> Result<Vec<T>, NoMemory> {
    let requested = bytes_of::<T>(len);
    affordable(requested)?;
    let layout = Layout::array::<T>(len).map_err(|_| refused(requested))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(refused(requested));
    }
    // SAFETY: the global allocator allocated the memory with the layout of `len` elements, and zero bits are
    // the value 0.
    Ok(unsafe { Vec::from_raw_parts(start.cast(), len, len) })
}

fn reserve_in<T>(values: &mut Vec<T>, len: usize) -> Result<(), NoMemory> {
    let requested = bytes_of::<T>(len);
    affordable(requested)?;
    let reserved = values.try_reserve_exact(len);
    reserved.map_err(|_| refused(requested))
}

fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

/// Refuses a size in bytes that the process may not allocate. A system that overcommits grants any request,
/// and kills the process when it writes. Callers with several requests pass the sum, because each one alone
/// may be small enough.
///
/// # Errors
/// [`NoMemory`].
pub(crate) fn affordable(requested: u64) -> Result<(), NoMemory> {
    if requested <= ALWAYS_THERE {
        return Ok(());
    }
    match System(Path::new("/")).left() {
        None if requested > isize::MAX as u64 => Err(refused(requested)),
        Some(left) if requested > left.bytes => Err(out_of_memory(requested, left.reason)),
        _ => Ok(()),
    }
}

fn refused(requested: u64) -> NoMemory {
    out_of_memory(requested, "the system refused".to_owned())
}

fn out_of_memory(requested: u64, available: String) -> NoMemory {
    NoMemory {
        requested,
        available,
    }
}

/// Requests up to this size are granted without a check.
const ALWAYS_THERE: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused_and_not_tried() {
        for len in [usize::MAX, isize::MAX as usize, 1 << 50] {
            assert!(reserve::<f32>(len).is_err());
            assert!(zeroed::<f32>(len).is_err());
            let mut values = vec![1.0f32];
            assert!(resize(&mut values, len).is_err());
        }
        assert!(affordable(u64::MAX).is_err());
    }

    #[test]
    fn what_is_there_is_given() {
        assert!(zeroed::<f32>(0).unwrap().is_empty());
        assert_eq!(zeroed::<f32>(3).unwrap(), [0.0; 3]);
        let mut values = reserve(2).unwrap();
        values.extend([1.0f32, 2.0]);
        resize(&mut values, 1).unwrap();
        assert_eq!(values, [1.0]);
        resize(&mut values, 100).unwrap();
        // The old values are not kept beside the new ones.
        assert_eq!((values.len(), values.capacity()), (100, 100));
    }
}

//! The types that device memory holds.

use half::{bf16, f16};

/// A value that can lie in global or shared memory and travel in registers.
///
/// # Safety
/// Implementors are plain bits: no padding, every bit pattern valid, 1, 2, 4 or 8 bytes, aligned
/// to their size.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        // SAFETY: a primitive number without padding or niche, aligned to its size.
        unsafe impl Element for $ty {}
    )*};
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

/// An [`Element`] that `atom` instructions can add to.
pub trait AtomicAdd: Element + crate::backend::AtomicAdd {}

/// An integer [`Element`] that `atom` instructions can compare, exchange, and take extrema of.
pub trait AtomicInteger: AtomicAdd + crate::backend::AtomicInteger {}

macro_rules! atomics {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}
atomics!(AtomicAdd: u32, i32, u64, f32, f64);
atomics!(AtomicInteger: u32, i32, u64);

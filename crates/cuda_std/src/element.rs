//! The element types of device memory.

pub use crate::common::Element;

/// An [`Element`] that `atom` instructions can add to.
pub trait AtomicAdd: Element + crate::backend::AtomicAdd {}

/// An integer [`Element`] that `atom` instructions can load, store and exchange.
pub trait AtomicInteger: AtomicAdd + crate::backend::AtomicInteger {}

macro_rules! atomics {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}
atomics!(AtomicAdd: u32, i32, u64, f32, f64);
atomics!(AtomicInteger: u32, i32, u64);

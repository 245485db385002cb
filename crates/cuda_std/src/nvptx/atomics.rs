//! Atomic accesses: `atom`, and relaxed loads and stores.

use core::arch::asm;

use super::memory::GlobalView;
use super::shared::SharedView;
use crate::common::Element;

macro_rules! atomic_methods {
    ($($bound:ident: $name:ident $global:ident $shared:ident($($argument:ident),*);)*) => {
        impl GlobalView {$(
            #[inline(always)]
            pub(crate) unsafe fn $name<T: $bound>(self, i: usize, $($argument: T),*) -> T {
                // SAFETY: i < len, by the caller's promise.
                unsafe { T::$global(self.address::<T>(i), $($argument),*) }
            }
        )*}

        impl SharedView {$(
            #[inline(always)]
            pub(crate) unsafe fn $name<T: $bound>(self, i: u32, $($argument: T),*) -> T {
                // SAFETY: i < len, by the caller's promise.
                unsafe { T::$shared(self.addr::<T>(i), $($argument),*) }
            }
        )*}
    };
}

atomic_methods! {
    AtomicAdd: atomic_add global_add shared_add(value);
    AtomicInteger: atomic_exchange global_exchange shared_exchange(value);
    AtomicInteger: atomic_load global_load shared_load();
    AtomicInteger: atomic_store global_store shared_store(value);
}

macro_rules! atomic_trait {
    ($trait:ident: $($name:ident($address:ident, $($argument:ident),*);)*) => {
        /// The instructions of one element type.
        pub trait $trait: Element {$(
            #[doc(hidden)]
            unsafe fn $name(address: $address, $($argument: Self),*) -> Self;
        )*}
    };
}

atomic_trait! { AtomicAdd: global_add(u64, value); shared_add(u32, value); }
atomic_trait! { AtomicInteger:
    global_exchange(u64, value); shared_exchange(u32, value);
    global_load(u64, ); shared_load(u32, );
    global_store(u64, value); shared_store(u32, value);
}

/// An `atom` instruction, which returns the previous value: with a global address, and with a shared one.
macro_rules! instruction {
    ($global:ident $shared:ident, $ty:ty, $class:ident, $what:literal, $suffix:literal, $operands:literal $(, $argument:ident)*) => {
        instruction!(@one $global, u64, reg64, $ty, $class,
            concat!("atom.relaxed.gpu.global.", $what, ".", $suffix, " {0}, [{1}]", $operands, ";") $(, $argument)*);
        instruction!(@one $shared, u32, reg32, $ty, $class,
            concat!("atom.relaxed.cta.shared.", $what, ".", $suffix, " {0}, [{1}]", $operands, ";") $(, $argument)*);
    };
    (@one $name:ident, $address:ident, $address_class:ident, $ty:ty, $class:ident, $text:expr $(, $argument:ident)*) => {
        #[inline(always)]
        unsafe fn $name(address: $address $(, $argument: Self)*) -> Self {
            let old: $ty;
            // SAFETY: the caller gives the address of a live, aligned element.
            unsafe {
                asm!($text, out($class) old, in($address_class) address, $(in($class) $argument,)*
                    options(nostack, preserves_flags));
            }
            old
        }
    };
}

/// A relaxed load and a relaxed store.
macro_rules! plain {
    ($load:ident $store:ident, $address:ident, $address_class:ident, $ty:ty, $class:ident, $space:literal, $bits:literal) => {
        instruction!(@one $load, $address, $address_class, $ty, $class,
            concat!("ld.relaxed.", $space, ".", $bits, " {0}, [{1}];"));

        #[inline(always)]
        unsafe fn $store(address: $address, value: Self) -> Self {
            // SAFETY: the caller gives the address of a live, aligned element.
            unsafe {
                asm!(concat!("st.relaxed.", $space, ".", $bits, " [{0}], {1};"),
                    in($address_class) address, in($class) value, options(nostack, preserves_flags));
            }
            value
        }
    };
}

macro_rules! add {
    ($($ty:ty, $class:ident, $suffix:literal;)*) => {$(
        impl AtomicAdd for $ty {
            instruction!(global_add shared_add, $ty, $class, "add", $suffix, ", {2}", value);
        }
    )*};
}

add! {
    u32, reg32, "u32";
    i32, reg32, "s32";
    u64, reg64, "u64";
    f32, reg32, "f32";
    f64, reg64, "f64";
}

macro_rules! integer {
    ($($ty:ty, $class:ident, $bits:literal;)*) => {$(
        impl AtomicInteger for $ty {
            instruction!(global_exchange shared_exchange, $ty, $class, "exch", $bits, ", {2}", value);
            plain!(global_load global_store, u64, reg64, $ty, $class, "gpu.global", $bits);
            plain!(shared_load shared_store, u32, reg32, $ty, $class, "cta.shared", $bits);
        }
    )*};
}

integer! {
    u32, reg32, "b32";
    i32, reg32, "b32";
    u64, reg64, "b64";
}

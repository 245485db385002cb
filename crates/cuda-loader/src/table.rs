//! The table of forwarded functions, by area, and the macro that turns a line into a function.
//!
//! Each line repeats the driver's signature. The compiler checks that `cust` has the same one. The table
//! has the functions that the safe part of `cust` or this project calls; [`symbol`](crate::symbol) finds
//! the others.

/// Defines each listed function under its own symbol name.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(unused_imports)]
        use std::ffi::{
            c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void,
        };

        #[allow(unused_imports)]
        use cust::sys::*;

        $(
            // The signature is the one against which callers of `cust::sys` were compiled.
            const _: unsafe extern "C" fn($($type),*) -> CUresult = cust::sys::$name;

            // SAFETY: no other item of this name is linked: `cust` only declares it, and this
            // crate stands before the driver's library on the linker's command line.
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> CUresult {
                static ENTRY: $crate::driver::Entry =
                    $crate::driver::Entry::new(concat!(stringify!($name), "\0"));
                match ENTRY.address() {
                    Ok(address) => {
                        type Function = unsafe extern "C" fn($($type),*) -> u32;
                        // SAFETY: the driver exports the function of this name with this
                        // signature; `u32` has the layout of `CUresult` and takes any code.
                        let function = unsafe {
                            std::mem::transmute::<std::ptr::NonNull<c_void>, Function>(address)
                        };
                        // SAFETY: the caller's duties are passed on unchanged.
                        $crate::status::known(unsafe { function($($arg),*) })
                    }
                    Err(code) => code,
                }
            }
        )*
    };
}

mod array;
mod context;
mod graph;
mod memory;
mod module;
mod stream;

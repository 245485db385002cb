//! The `#[kernel]` attribute of `cuda_std`; see [`macro@kernel`].

mod expand;
mod parse;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Makes a function a GPU kernel that the CPU emulator can launch as well.
///
/// ```ignore
/// #[kernel(max_threads = 256, min_blocks = 2)]
/// pub unsafe fn scale_f32(x: *const f32, y: *mut f32, len: usize, factor: f32) { /* .. */ }
/// ```
///
/// # Arguments
/// All are optional `u32` constant expressions.
/// - `max_threads`: the largest number of threads that a block of this kernel may have. The
///   assembler limits registers accordingly, and the emulator refuses larger blocks.
/// - `min_blocks`: how many blocks one multiprocessor should be able to hold at once. Needs
///   `max_threads`.
/// - `cluster_blocks`: how many blocks make a cluster (sm_90 and later). The grid must be a
///   multiple of it. Needs `max_threads`.
///
/// # The function
/// It must be an `unsafe fn` without generics, ABI or return value. Each parameter is a plain
/// identifier whose type is `Copy + 'static`: raw pointers, scalars, and `#[repr(C)]` structs of
/// scalars. At most 32 parameters.
///
/// # What it becomes
/// - On `nvptx64` an entry point whose symbol is the function's name, and, if bounds are
///   declared, a line `//@launch_bounds NAME MAX_THREADS MIN_BLOCKS CLUSTER_BLOCKS` in the PTX (0
///   stands for "not declared"), from which `cuda_builder` writes `.maxntid`, `.minnctapersm` and
///   `.reqnctapercluster`.
/// - Elsewhere the function itself, and beside it a type of the same name that implements
///   `cuda_std::Kernel`: name, bounds, parameter types, and how to call one thread of it.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(arguments as parse::Bounds);
    let function = parse_macro_input!(item as ItemFn);
    parse::check(&function)
        .and_then(|()| expand::expand(&bounds, &function))
        .unwrap_or_else(|error| {
            // The function stays, so that its other uses do not add errors of their own.
            let error = error.into_compile_error();
            quote::quote! { #error #function }
        })
        .into()
}

//! The `#[kernel]` attribute of `cuda_std`; see [`macro@kernel`].

mod conditions;
mod expand;
mod instances;
mod parse;
mod signature;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Makes a function a GPU kernel that the CPU emulator can launch as well.
///
/// ```ignore
/// #[kernel(instances(T: [f32, f16, bf16]), max_threads = 256, min_blocks = 2)]
/// pub unsafe fn scale<T: Storage>(x: *const T, y: *mut T, len: usize, factor: f32) { /* .. */ }
/// ```
///
/// gives the kernels `scale_f32`, `scale_f16` and `scale_bf16`, and the family `SCALE` of all three.
///
/// # The function
/// It must be an `unsafe fn` without ABI, lifetimes or return value. Each parameter is a plain identifier
/// whose type is `Copy + 'static`: raw pointers, scalars, and `#[repr(C)]` structs of scalars; or a reference
/// to such a struct, where a launch gives the struct and the function sees the only copy of it. A
/// `&TensorMap` refers to where the launch put it. At most 32 parameters. Generic parameters may occur in the
/// types that raw pointers point to and nowhere else in the signature, so that all instances are launched
/// with the same arguments.
///
/// # Instances
/// A generic function needs `instances(..)`, which says for each type and constant among its generic
/// parameters which values it takes. Every combination is an instance.
///
/// ```ignore
/// #[kernel(
///     instances(BLOCKS: [1], F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, f16: F16]),
///     #[cfg(hopper)]
///     instances(BLOCKS: [2, 4, 8], F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16]),
///     max_threads = 384,
///     cluster_blocks = BLOCKS,
/// )]
/// pub unsafe fn fused<F: Format, const BLOCKS: u32>(x: *const F::Stored, y: *mut F::Stored) { /* .. */ }
/// ```
///
/// - Each value has a label, written before it. A type that is a single name in lower case is its own
///   label, and so is a whole number. Other constants than literals and single names stand in braces.
/// - The symbol of an instance is the function's name and the labels in the order of the list, joined
///   by underscores; a number follows its parameter's name: `fused_blocks2_f16x2_f32`.
/// - Combinations that are not a full product take several lists, with the same parameters in the same order.
/// - A list, and a value in a list, may have a `#[cfg(..)]`.
///
/// # Launch bounds
/// All are optional `u32` constant expressions, in which the generic parameters stand for the values
/// of the instance.
/// - `max_threads`: the largest number of threads that a block of this kernel may have. The
///   assembler limits registers accordingly, and the emulator refuses larger blocks.
/// - `min_blocks`: how many blocks one multiprocessor should be able to hold at once. Needs
///   `max_threads`.
/// - `cluster_blocks`: how many blocks make a cluster (sm_90 and later). The grid must be a
///   multiple of it. Needs `max_threads`.
///
/// # What it becomes
/// - On `nvptx64` an entry point for each instance, which calls the function, and, if bounds are
///   declared, a line `//@launch_bounds SYMBOL MAX_THREADS MIN_BLOCKS CLUSTER_BLOCKS` in the PTX (0
///   stands for "not declared"), from which `cuda_builder` writes `.maxntid`, `.minnctapersm` and
///   `.reqnctapercluster`. A function that is not generic is its own entry point. For sm_90a each begins with
///   `griddepcontrol.wait`, so that it may be launched while the launch before it ends, and
///   `griddepcontrol.launch_dependents`, so that the one after it may.
/// - Elsewhere the function itself and beside it
///   - a type of the same name, generic as the function is, which implements `cuda_std::Kernel` for
///     the values of each instance: `scale<f32>`;
///   - a static of the same name in capitals, the `cuda_std::Family` of the instances, from which a
///     host picks one by its labels: `SCALE`. A function that is not generic is a family of one
///     instance without labels.
///
///   There, pointers whose type depends on a generic parameter are pointers to `c_void`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as parse::Arguments);
    let function = parse_macro_input!(item as ItemFn);
    expand::expand(&arguments, &function)
        .unwrap_or_else(|error| {
            // The function stays, so that its other uses do not add errors of their own.
            let error = error.into_compile_error();
            quote::quote! { #error #function }
        })
        .into()
}

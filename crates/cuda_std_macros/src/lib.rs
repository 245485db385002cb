//! The `#[kernel]` attribute of `cuda_std`; see [`macro@kernel`].

mod conditions;
mod expand;
mod instances;
mod parse;
mod signature;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Turns a function into a GPU kernel that the CPU emulator can launch as well.
///
/// ```ignore
/// #[kernel(instances(T: [f32, f16, bf16]), max_threads = 256, min_blocks = 2)]
/// pub unsafe fn scale<T: Storage>(x: *const T, y: *mut T, len: usize, factor: f32) { /* .. */ }
/// ```
///
/// gives the kernels `scale_f32`, `scale_f16` and `scale_bf16`, and the family `SCALE` of all three.
///
/// # The function
/// The function must be an `unsafe fn` without ABI, lifetimes or return value, and with at most 32
/// parameters. Each parameter is a plain identifier with one of these types:
/// - a `Copy + 'static` type: raw pointers, scalars, and `#[repr(C)]` structs of scalars;
/// - a reference to such a struct: a launch passes the struct, and the function sees the only copy of it;
/// - `&TensorMap`, a reference to the map in parameter memory.
///
/// Generic parameters may occur only in the pointee types of raw pointers, so that all instances are
/// launched with the same arguments.
///
/// # Instances
/// A generic function needs `instances(..)`, which lists the values of each of its type and constant
/// parameters. Every combination is an instance.
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
/// - Each value has a label in front of it. A type that is a single name in lower case is its own label,
///   and so is a whole number. Constants other than literals and single names stand in braces.
/// - The symbol of an instance consists of the function's name and the labels in the order of the list,
///   joined by underscores. A number follows its parameter's name: `fused_blocks2_f16x2_f32`.
/// - Combinations that are not a full product need several lists, with the same parameters in the same
///   order.
/// - A list, and a value in a list, may have a `#[cfg(..)]`.
///
/// # Launch bounds
/// All launch bounds are optional `u32` constant expressions. In them the generic parameters stand for the
/// values of the instance.
/// - `max_threads`: the maximum number of threads of a block. The assembler limits registers accordingly,
///   and the emulator refuses larger blocks.
/// - `min_blocks`: the number of blocks that one multiprocessor should be able to hold at once. Needs
///   `max_threads`.
/// - `cluster_blocks`: the number of blocks of a cluster (sm_90 and later). The grid must be a multiple of
///   it. Needs `max_threads`.
///
/// # Expansion
/// - On `nvptx64`: an entry point for each instance, which calls the function. A function that is not
///   generic is its own entry point. For sm_90a each entry begins with `griddepcontrol.wait`, so that it
///   may be launched while the previous launch ends, and `griddepcontrol.launch_dependents`, so that the
///   next launch may start early. If bounds are declared, the PTX has a line
///   `//@launch_bounds SYMBOL MAX_THREADS MIN_BLOCKS CLUSTER_BLOCKS` (0 stands for "not declared").
///   `cuda_builder` turns it into `.maxntid`, `.minnctapersm` and `.reqnctapercluster`.
/// - On other targets: the function itself, and
///   - a type of the same name, generic as the function is, which implements `cuda_std::Kernel` for the
///     values of each instance: `scale<f32>`;
///   - a static of the same name in capitals, the `cuda_std::Family` of the instances, from which a host
///     picks one by its labels: `SCALE`. A function that is not generic is a family of one instance without
///     labels.
///
///   Here, pointers whose type depends on a generic parameter are pointers to `c_void`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as parse::Arguments);
    let function = parse_macro_input!(item as ItemFn);
    expand::expand(&arguments, &function)
        .unwrap_or_else(|error| {
            // Keeps the function, so that its other uses do not cause further errors.
            let error = error.into_compile_error();
            quote::quote! { #error #function }
        })
        .into()
}

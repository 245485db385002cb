//! What `#[kernel]` writes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Expr, FnArg, ItemFn, Result, parse_quote};

use crate::parse::Bounds;

/// The device form and the emulated form, each behind its `cfg`.
pub(crate) fn expand(bounds: &Bounds, function: &ItemFn) -> Result<TokenStream> {
    let device = device_form(bounds, function);
    let emulated = emulated_form(bounds, function);
    Ok(quote! { #device #emulated })
}

/// The entry point, and the comment that carries the launch bounds through the compiler.
fn device_form(bounds: &Bounds, function: &ItemFn) -> TokenStream {
    let mut entry = function.clone();
    entry.sig.abi = Some(parse_quote!(extern "ptx-kernel"));
    let comment = bounds.max_threads.as_ref().map(|threads| {
        let text = format!("//@launch_bounds {} {{t}} {{b}} {{c}}", function.sig.ident);
        let blocks = bounds.min_blocks.clone().unwrap_or(parse_quote!(0));
        let cluster = bounds.cluster_blocks.clone().unwrap_or(parse_quote!(0));
        let (threads, blocks, cluster) = (typed(threads), typed(&blocks), typed(&cluster));
        let cfgs = cfgs(function);
        quote! {
            #[cfg(target_arch = "nvptx64")]
            #(#cfgs)*
            ::core::arch::global_asm!(#text, t = const #threads, b = const #blocks, c = const #cluster);
        }
    });
    quote! {
        #comment
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #entry
    }
}

/// The plain function, and the type by which a launch names it.
fn emulated_form(bounds: &Bounds, function: &ItemFn) -> TokenStream {
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let symbol = name.to_string();
    let about =
        format!("The kernel [`{symbol}`](fn@{symbol}) as a type, by which a launch names it.");
    let types: Vec<_> = (function.sig.inputs.iter())
        .filter_map(|input| match input {
            FnArg::Typed(typed) => Some(&typed.ty),
            FnArg::Receiver(_) => None,
        })
        .collect();
    let fields: Vec<_> = (0..types.len()).map(syn::Index::from).collect();
    let arguments = format_ident!("arguments");
    let max_threads = optional(bounds.max_threads.as_ref());
    let min_blocks = optional(bounds.min_blocks.as_ref());
    let cluster_blocks = optional(bounds.cluster_blocks.as_ref());
    let cfgs = cfgs(function);
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #function

        #[doc = #about]
        #[cfg(not(target_arch = "nvptx64"))]
        #(#cfgs)*
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy)]
        #visibility struct #name {}

        #[cfg(not(target_arch = "nvptx64"))]
        #(#cfgs)*
        impl ::cuda_std::Kernel for #name {
            const NAME: &'static str = #symbol;
            const MAX_THREADS: ::core::option::Option<u32> = #max_threads;
            const MIN_BLOCKS: ::core::option::Option<u32> = #min_blocks;
            const CLUSTER_BLOCKS: ::core::option::Option<u32> = #cluster_blocks;
            type Args = (#(#types,)*);

            #[inline]
            unsafe fn call(#arguments: Self::Args) {
                // Without parameters the tuple is not read.
                let _ = &#arguments;
                // SAFETY: the caller upholds what the kernel asks for.
                unsafe { #name(#(#arguments.#fields),*) }
            }
        }
    }
}

/// The conditions under which the function exists, for what is written beside it.
fn cfgs(function: &ItemFn) -> Vec<&syn::Attribute> {
    (function.attrs.iter())
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .collect()
}

fn typed(expression: &Expr) -> TokenStream {
    quote! { { let bound: u32 = #expression; bound } }
}

fn optional(expression: Option<&Expr>) -> TokenStream {
    match expression {
        Some(expression) => quote! { ::core::option::Option::Some(#expression) },
        None => quote! { ::core::option::Option::None },
    }
}

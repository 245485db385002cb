//! What a function must be to be a kernel, and its parameters as all instances have them.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericParam, ItemFn, Pat, Result, ReturnType, Type};

/// The most parameters that `cuda_std::KernelArgs` is implemented for.
const MAX_PARAMETERS: usize = 32;

/// A parameter of a kernel.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    /// Its type in the entry point and in `Args`.
    pub(crate) ty: TokenStream,
    /// Whether the function takes a pointer to something else.
    pub(crate) is_erased: bool,
}

/// Refuses functions that cannot be kernels; else gives their parameters.
pub(crate) fn parameters(function: &ItemFn) -> Result<Vec<Parameter>> {
    let signature = &function.sig;
    let refuse = |span, what: &str| {
        let message = format!("kernel `{}`: {what}", signature.ident);
        Err(Error::new(span, message))
    };
    if signature.unsafety.is_none() {
        let what = "the function is safe, but a kernel trusts its launch and must be `unsafe fn`";
        return refuse(signature.fn_token.span, what);
    }
    if let Some(abi) = &signature.abi {
        return refuse(abi.span(), "an ABI is given, but the attribute chooses it");
    }
    if signature.asyncness.is_some() || signature.constness.is_some() {
        let what = "the function is async or const, which no kernel can be";
        return refuse(signature.span(), what);
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        let what = "the function returns a value, but nothing can receive it";
        return refuse(ty.span(), what);
    }
    if let Some(lifetime) = signature.generics.lifetimes().next() {
        let what = "the function has a lifetime, but what a kernel is given lives on the device";
        return refuse(lifetime.span(), what);
    }
    if signature.inputs.len() > MAX_PARAMETERS {
        let what = format!(
            "{} parameters, which is more than {MAX_PARAMETERS}",
            signature.inputs.len()
        );
        return refuse(signature.inputs.span(), &what);
    }
    let mut parameters = Vec::new();
    for input in &signature.inputs {
        let typed = match input {
            FnArg::Receiver(receiver) => {
                return refuse(receiver.span(), "a method cannot be a kernel");
            }
            FnArg::Typed(typed) => typed,
        };
        let Pat::Ident(pattern) = &*typed.pat else {
            return refuse(typed.pat.span(), "a parameter must be a plain identifier");
        };
        let mut ty = typed.ty.to_token_stream();
        let is_erased = is_generic(function, ty.clone());
        if is_erased {
            ty = match &*typed.ty {
                Type::Ptr(pointer) if pointer.mutability.is_some() => {
                    quote! { *mut ::core::ffi::c_void }
                }
                Type::Ptr(_) => quote! { *const ::core::ffi::c_void },
                other => {
                    let what = format!(
                        "the type of `{}` depends on a generic parameter, which only a raw pointer's can",
                        pattern.ident
                    );
                    return refuse(other.span(), &what);
                }
            };
        }
        parameters.push(Parameter {
            name: pattern.ident.clone(),
            ty,
            is_erased,
        });
    }
    Ok(parameters)
}

/// The name of a generic parameter.
pub(crate) fn name(parameter: &GenericParam) -> &Ident {
    match parameter {
        GenericParam::Lifetime(lifetime) => &lifetime.lifetime.ident,
        GenericParam::Type(ty) => &ty.ident,
        GenericParam::Const(constant) => &constant.ident,
    }
}

/// Whether a generic parameter of the function occurs in `tokens`.
fn is_generic(function: &ItemFn, tokens: TokenStream) -> bool {
    let parameters = &function.sig.generics.params;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => parameters.iter().any(|one| *name(one) == ident),
        TokenTree::Group(group) => is_generic(function, group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::parameters;
    use syn::{ItemFn, parse_quote, parse_str};

    fn refusal(function: &ItemFn) -> String {
        parameters(function)
            .err()
            .expect("not a kernel")
            .to_string()
    }

    #[test]
    fn what_no_kernel_can_be_is_refused_by_name() {
        let cases: [(ItemFn, &str); 8] = [
            (parse_quote! { fn k() {} }, "safe"),
            (parse_quote! { unsafe fn k<'a>() {} }, "lifetime"),
            (parse_quote! { unsafe extern "C" fn k() {} }, "ABI"),
            (parse_quote! { async unsafe fn k() {} }, "async"),
            (parse_quote! { unsafe fn k() -> u32 { 0 } }, "returns"),
            (parse_quote! { unsafe fn k(&self) {} }, "method"),
            (
                parse_quote! { unsafe fn k((a, b): (u32, u32)) {} },
                "plain identifier",
            ),
            (
                parse_quote! { unsafe fn k<const N: usize>(a: [u32; N]) {} },
                "the type of `a` depends on a generic parameter",
            ),
        ];
        for (function, word) in cases {
            let refusal = refusal(&function);
            assert!(
                refusal.contains(word) && refusal.contains("`k`"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn the_thirty_third_parameter_is_refused() {
        let parameters: Vec<String> = (0..33).map(|i| format!("p{i}: u32")).collect();
        let function = parse_str(&format!("unsafe fn k({}) {{}}", parameters.join(", "))).unwrap();
        assert!(refusal(&function).contains("33 parameters"));
    }

    #[test]
    fn pointers_to_what_depends_on_a_generic_parameter_are_erased() {
        let function = parse_quote! {
            unsafe fn k<F: Format>(x: *const F::Stored, sums: *mut f32, mut y: *mut [F; 4], n: u32) {}
        };
        let found: Vec<_> = (parameters(&function).unwrap().iter())
            .map(|one| (one.name.to_string(), one.ty.to_string().replace(' ', "")))
            .collect();
        let wanted = [
            ("x", "*const::core::ffi::c_void"),
            ("sums", "*mutf32"),
            ("y", "*mut::core::ffi::c_void"),
            ("n", "u32"),
        ];
        assert_eq!(found, wanted.map(|(name, ty)| (name.into(), ty.into())));
    }
}

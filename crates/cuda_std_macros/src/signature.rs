//! The requirements on a kernel function, and its parameters in the form that all instances share.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericParam, ItemFn, Pat, Result, ReturnType, Type};

/// The most parameters that `cuda_std::KernelArgs` is implemented for.
const MAX_PARAMETERS: usize = 32;

/// A parameter of a kernel.
pub(crate) struct Parameter {
    /// The parameter's name in generated code, which cannot collide with other names of the kernel.
    pub(crate) name: Ident,
    /// The parameter's type in the entry point and in `Args`.
    pub(crate) ty: TokenStream,
    form: Form,
}

/// The conversion from an entry point's parameter to the function's argument.
enum Form {
    /// Passes the value unchanged.
    Value,
    /// Casts the pointer to another type.
    Pointer,
    /// Passes a reference to the value.
    Reference,
    /// Passes a reference to parameter memory, of which the device makes no copy: a tensor map.
    InPlace,
}

impl Parameter {
    /// Returns the function's argument for the entry point's parameter `given`.
    pub(crate) fn pass(&self, given: &TokenStream) -> TokenStream {
        match self.form {
            Form::Value => quote! { #given },
            Form::Pointer => quote! { #given.cast() },
            Form::Reference | Form::InPlace => quote! { &#given },
        }
    }

    /// Returns the compiler's name of parameter number `index` of the entry point `symbol`.
    fn on_device(symbol: &Ident, index: usize) -> String {
        format!("{symbol}_param_{index}")
    }

    /// Returns the comment by which `cuda_builder` aligns a tensor map; `None` for other parameters.
    pub(crate) fn comment(&self, symbol: &Ident, index: usize) -> Option<String> {
        let is_map = matches!(self.form, Form::InPlace);
        is_map.then(|| format!("//@tensor_map {}", Self::on_device(symbol, index)))
    }

    /// Returns the function's argument on the device, for parameter number `index` of the entry point
    /// `symbol`.
    pub(crate) fn pass_on_device(&self, symbol: &Ident, index: usize) -> TokenStream {
        let name = &self.name;
        let Form::InPlace = self.form else {
            return self.pass(&quote! { #name });
        };
        // A Rust reference would refer to a copy in the thread's local memory.
        let parameter = Self::on_device(symbol, index);
        let address = format!("mov.b64 {{0}}, {parameter};");
        quote! {{
            let _ = #name;
            let address: *const ::cuda_std::tensor_map::TensorMap;
            // SAFETY: parameters stay while the kernel runs, and the generic address of a parameter is a
            // valid reference.
            unsafe {
                ::core::arch::asm!(
                    #address,
                    "cvta.param.u64 {0}, {0};",
                    out(reg64) address,
                    options(pure, nomem, nostack, preserves_flags),
                );
                &*address
            }
        }}
    }
}

/// Returns the parameters of a function, or refuses a function that cannot be a kernel.
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
        let what =
            "the function has a lifetime parameter, but a kernel is given nothing that outlives it";
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
        let refuse_type = |rule: &str| {
            let what = format!("the type of `{}` {rule}", pattern.ident);
            refuse(typed.ty.span(), &what)
        };
        let is_generic = is_generic(function, typed.ty.to_token_stream());
        let (form, ty) = match &*typed.ty {
            Type::Ptr(pointer) if is_generic => {
                let access = match pointer.mutability {
                    Some(_) => quote! { mut },
                    None => quote! { const },
                };
                (Form::Pointer, quote! { *#access ::core::ffi::c_void })
            }
            _ if is_generic => {
                return refuse_type(
                    "depends on a generic parameter, which only a raw pointer's can",
                );
            }
            Type::Reference(reference) if reference.mutability.is_some() => {
                return refuse_type("is a mutable reference, but nobody reads what it leaves");
            }
            Type::Reference(_) if signature.generics.params.is_empty() => {
                return refuse_type(
                    "is a reference, but a function that is not generic is its own entry point",
                );
            }
            Type::Reference(reference) if is_tensor_map(&reference.elem) => {
                (Form::InPlace, reference.elem.to_token_stream())
            }
            Type::Reference(reference) => (Form::Reference, reference.elem.to_token_stream()),
            other => (Form::Value, other.to_token_stream()),
        };
        parameters.push(Parameter {
            name: Ident::new(&pattern.ident.to_string(), Span::mixed_site()),
            ty,
            form,
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

/// Returns whether a type has the name of `cuda_std`'s tensor map.
fn is_tensor_map(ty: &Type) -> bool {
    let Type::Path(path) = ty else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "TensorMap")
}

/// Returns whether a generic parameter of the function occurs in `tokens`.
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
        let cases: [(ItemFn, &str); 10] = [
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
            (
                parse_quote! { unsafe fn k<T>(a: &mut Geometry) {} },
                "the type of `a` is a mutable reference",
            ),
            (
                parse_quote! { unsafe fn k(a: &Geometry) {} },
                "the type of `a` is a reference",
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
    fn launches_give_untyped_pointers_and_structs_for_generic_pointers_and_references() {
        let function = parse_quote! {
            unsafe fn k<F: Format>(x: *const F::Stored, sums: *mut f32, mut y: *mut [F; 4], g: &Geometry) {}
        };
        let found: Vec<_> = (parameters(&function).unwrap().iter())
            .map(|one| (one.name.to_string(), one.ty.to_string().replace(' ', "")))
            .collect();
        let wanted = [
            ("x", "*const::core::ffi::c_void"),
            ("sums", "*mutf32"),
            ("y", "*mut::core::ffi::c_void"),
            ("g", "Geometry"),
        ];
        assert_eq!(found, wanted.map(|(name, ty)| (name.into(), ty.into())));
    }
}

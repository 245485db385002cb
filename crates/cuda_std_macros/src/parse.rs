//! What `#[kernel(..)]` accepts.

use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, FnArg, Ident, ItemFn, Pat, Result, ReturnType, Token};

/// The most parameters that `cuda_std::KernelArgs` is implemented for.
pub(crate) const MAX_PARAMETERS: usize = 32;

/// The launch bounds in the attribute's parentheses.
#[derive(Default)]
pub(crate) struct Bounds {
    pub(crate) max_threads: Option<Expr>,
    pub(crate) min_blocks: Option<Expr>,
    pub(crate) cluster_blocks: Option<Expr>,
}

impl Parse for Bounds {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut bounds = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let slot = match name.to_string().as_str() {
                "max_threads" => &mut bounds.max_threads,
                "min_blocks" => &mut bounds.min_blocks,
                "cluster_blocks" => &mut bounds.cluster_blocks,
                other => {
                    let message = format!(
                        "kernel: argument is `{other}`, which is none of `max_threads`, `min_blocks`, `cluster_blocks`"
                    );
                    return Err(Error::new(name.span(), message));
                }
            };
            if slot.is_some() {
                let message = format!("kernel: `{name}` is given twice");
                return Err(Error::new(name.span(), message));
            }
            input.parse::<Token![=]>()?;
            *slot = Some(input.parse()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if bounds.max_threads.is_none() {
            for (name, given) in [
                ("min_blocks", &bounds.min_blocks),
                ("cluster_blocks", &bounds.cluster_blocks),
            ] {
                if let Some(blocks) = given {
                    let message = format!(
                        "kernel: `{name}` is given without `max_threads`, which it needs beside it"
                    );
                    return Err(Error::new(blocks.span(), message));
                }
            }
        }
        Ok(bounds)
    }
}

/// Refuses functions that cannot be kernels.
pub(crate) fn check(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    let refuse = |span, what: &str| {
        let message = format!("kernel `{}`: {what}", signature.ident);
        Err(Error::new(span, message))
    };
    if signature.unsafety.is_none() {
        let what = "the function is safe, but a kernel trusts its launch and must be `unsafe fn`";
        return refuse(signature.fn_token.span, what);
    }
    if !signature.generics.params.is_empty() {
        let what = "the function is generic, but a kernel is one symbol of one type";
        return refuse(signature.generics.span(), what);
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
    if signature.inputs.len() > MAX_PARAMETERS {
        let what = format!(
            "{} parameters, which is more than {MAX_PARAMETERS}",
            signature.inputs.len()
        );
        return refuse(signature.inputs.span(), &what);
    }
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                return refuse(receiver.span(), "a method cannot be a kernel");
            }
            FnArg::Typed(typed) if !matches!(*typed.pat, Pat::Ident(_)) => {
                return refuse(typed.pat.span(), "a parameter must be a plain identifier");
            }
            FnArg::Typed(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Bounds, check};
    use syn::{ItemFn, parse_quote, parse_str};

    fn refusal(function: &ItemFn) -> String {
        check(function).expect_err("not a kernel").to_string()
    }

    #[test]
    fn bounds_are_optional_expressions() {
        let bounds: Bounds = parse_str("max_threads = 2 * 64, min_blocks = N").unwrap();
        assert!(bounds.max_threads.is_some() && bounds.min_blocks.is_some());
        let bounds: Bounds = parse_str("").unwrap();
        assert!(bounds.max_threads.is_none() && bounds.min_blocks.is_none());
    }

    #[test]
    fn unknown_repeated_and_dangling_bounds_are_refused() {
        let refusal = |text| parse_str::<Bounds>(text).err().expect(text).to_string();
        assert!(refusal("threads = 1").contains("`threads`"));
        assert!(refusal("max_threads = 1, max_threads = 2").contains("twice"));
        assert!(refusal("min_blocks = 2").contains("without `max_threads`"));
        refusal("max_threads");
    }

    #[test]
    fn what_no_kernel_can_be_is_refused_by_name() {
        check(&parse_quote! { pub unsafe fn fine(x: *const f32, n: usize) {} }).unwrap();
        let cases: [(ItemFn, &str); 7] = [
            (parse_quote! { fn k() {} }, "safe"),
            (parse_quote! { unsafe fn k<T>() {} }, "generic"),
            (parse_quote! { unsafe extern "C" fn k() {} }, "ABI"),
            (parse_quote! { async unsafe fn k() {} }, "async"),
            (parse_quote! { unsafe fn k() -> u32 { 0 } }, "returns"),
            (parse_quote! { unsafe fn k(&self) {} }, "method"),
            (
                parse_quote! { unsafe fn k((a, b): (u32, u32)) {} },
                "plain identifier",
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
}

//! The expansion of `#[kernel]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Expr, GenericParam, ItemFn, Result, parse_quote};

use crate::instances::{Instance, instances};
use crate::parse::Arguments;
use crate::signature::{Parameter, parameters};

/// A kernel whose parts have been checked.
struct Kernel<'a> {
    arguments: &'a Arguments,
    function: &'a ItemFn,
    parameters: Vec<Parameter>,
    instances: Vec<Instance>,
    /// The conditions of the function, which also apply to the generated items.
    cfgs: Vec<&'a Attribute>,
}

/// Generates the function and the items that the device and the host need beside it, each behind its `cfg`.
pub(crate) fn expand(arguments: &Arguments, function: &ItemFn) -> Result<TokenStream> {
    let kernel = Kernel {
        arguments,
        function,
        parameters: parameters(function)?,
        instances: instances(&arguments.lists, function)?,
        cfgs: (function.attrs.iter())
            .filter(|attribute| attribute.path().is_ident("cfg"))
            .collect(),
    };
    let device = kernel.device_form();
    let emulated = kernel.emulated_form();
    if kernel.is_generic() {
        // Bounds and pointer types of the function may be private, because only its instances are used
        // elsewhere.
        return Ok(quote! {
            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            #[allow(private_bounds, private_interfaces)]
            #function
            #device
            #emulated
        });
    }
    let mut entry = function.clone();
    entry.sig.abi = Some(parse_quote!(extern "ptx-kernel"));
    let begin = parse_quote!(::cuda_std::begin_kernel(););
    entry.block.stmts.insert(0, begin);
    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #entry
        #[cfg(not(target_arch = "nvptx64"))]
        #function
        #device
        #emulated
    })
}

impl Kernel<'_> {
    fn is_generic(&self) -> bool {
        !self.function.sig.generics.params.is_empty()
    }

    /// Generates the entry points of a generic function, and the comments that carry the launch bounds
    /// through the compiler.
    fn device_form(&self) -> TokenStream {
        let bounds = self
            .instances
            .iter()
            .filter_map(|one| self.bounds_comment(one));
        let generic = self.instances.iter().filter(|_| self.is_generic());
        let entries = generic.map(|one| self.entry(one));
        quote! { #(#bounds)* #(#entries)* }
    }

    fn bounds_comment(&self, instance: &Instance) -> Option<TokenStream> {
        let threads = self.arguments.max_threads.as_ref()?;
        let text = format!("//@launch_bounds {} {{t}} {{b}} {{c}}", instance.symbol);
        let value = |bound: Option<&Expr>| {
            let aliases = &instance.aliases;
            let bound = bound.cloned().unwrap_or(parse_quote!(0));
            quote! { { #aliases let bound: u32 = #bound; bound } }
        };
        let threads = value(Some(threads));
        let blocks = value(self.arguments.min_blocks.as_ref());
        let cluster = value(self.arguments.cluster_blocks.as_ref());
        let cfgs = self.cfgs_of(instance);
        Some(quote! {
            #[cfg(target_arch = "nvptx64")]
            #cfgs
            ::core::arch::global_asm!(#text, t = const #threads, b = const #blocks, c = const #cluster);
        })
    }

    /// Generates the entry point of an instance of the generic function.
    fn entry(&self, instance: &Instance) -> TokenStream {
        let (visibility, name) = (&self.function.vis, &self.function.sig.ident);
        let Instance {
            symbol, arguments, ..
        } = instance;
        let cfgs = self.cfgs_of(instance);
        let names = self.parameters.iter().map(|one| &one.name);
        let types = self.parameters.iter().map(|one| &one.ty);
        let parameters = self.parameters.iter().enumerate();
        let passed = parameters.map(|(i, parameter)| parameter.pass_on_device(symbol, i));
        let parameters = self.parameters.iter().enumerate();
        let comments = parameters.filter_map(|(i, parameter)| parameter.comment(symbol, i));
        quote! {
            #(
                #[cfg(target_arch = "nvptx64")]
                #cfgs
                ::core::arch::global_asm!(#comments);
            )*
            #[cfg(target_arch = "nvptx64")]
            #cfgs
            #[allow(missing_docs)]
            #[unsafe(no_mangle)]
            #visibility unsafe extern "ptx-kernel" fn #symbol(#(#names: #types),*) {
                ::cuda_std::begin_kernel();
                // SAFETY: the caller satisfies the kernel's safety section.
                unsafe { #name::<#(#arguments),*>(#(#passed),*) }
            }
        }
    }

    /// Generates the types and the family by which a launch names the instances.
    fn emulated_form(&self) -> TokenStream {
        let (visibility, name) = (&self.function.vis, &self.function.sig.ident);
        let about =
            format!("The kernel [`{name}`](fn@{name}) as a type, by which a launch names it.");
        let cfgs = &self.cfgs;
        let generics = self.type_generics();
        let implementations = (self.instances.iter()).map(|instance| self.implementation(instance));
        let family = self.family();
        quote! {
            #[doc = #about]
            #[cfg(not(target_arch = "nvptx64"))]
            #(#cfgs)*
            #[allow(non_camel_case_types)]
            #visibility struct #name #generics

            #(#implementations)*

            #family
        }
    }

    /// Returns the generic parameters without their bounds, and the body of a struct with these parameters.
    fn type_generics(&self) -> TokenStream {
        let generics = &self.function.sig.generics.params;
        let mut declared = Vec::new();
        let mut types = Vec::new();
        for generic in generics {
            match generic {
                GenericParam::Const(constant) => {
                    let (name, ty) = (&constant.ident, &constant.ty);
                    declared.push(quote! { const #name: #ty });
                }
                GenericParam::Type(ty) => {
                    let name = &ty.ident;
                    declared.push(quote! { #name });
                    types.push(name);
                }
                GenericParam::Lifetime(_) => {}
            }
        }
        if types.is_empty() {
            return quote! { <#(#declared),*> {} };
        }
        quote! {
            <#(#declared),*> {
                #[allow(dead_code)]
                instance: ::core::marker::PhantomData<fn() -> (#(#types,)*)>,
            }
        }
    }

    fn implementation(&self, instance: &Instance) -> TokenStream {
        let name = &self.function.sig.ident;
        let Instance {
            symbol,
            labels,
            arguments,
            aliases,
            ..
        } = instance;
        let symbol = symbol.to_string();
        let cfgs = self.cfgs_of(instance);
        let tuple = self.tuple();
        let given = Ident::new("arguments", Span::mixed_site());
        let passed = self.parameters.iter().enumerate().map(|(i, parameter)| {
            let field = syn::Index::from(i);
            parameter.pass(&quote! { #given.#field })
        });
        let max_threads = optional(self.arguments.max_threads.as_ref());
        let min_blocks = optional(self.arguments.min_blocks.as_ref());
        let cluster_blocks = optional(self.arguments.cluster_blocks.as_ref());
        quote! {
            #[cfg(not(target_arch = "nvptx64"))]
            #cfgs
            impl ::cuda_std::Kernel for #name<#(#arguments),*> {
                const NAME: &'static str = #symbol;
                const LABELS: &'static [::cuda_std::Label] = &[#(#labels),*];
                const BOUNDS: ::cuda_std::LaunchBounds = {
                    #aliases
                    ::cuda_std::LaunchBounds {
                        max_threads: #max_threads,
                        min_blocks: #min_blocks,
                        cluster_blocks: #cluster_blocks,
                    }
                };
                type Args = #tuple;

                ::cuda_std::emulated! {
                    #[inline]
                    unsafe fn call(#given: Self::Args) {
                        // Without parameters the tuple is unused.
                        let _ = &#given;
                        // SAFETY: the caller satisfies the kernel's safety section.
                        unsafe { #name::<#(#arguments),*>(#(#passed),*) }
                    }
                }
            }
        }
    }

    fn family(&self) -> TokenStream {
        let (visibility, name) = (&self.function.vis, &self.function.sig.ident);
        let family = format_ident!("{}", name.to_string().to_uppercase(), span = name.span());
        let about = if self.is_generic() {
            let symbols = self.instances.iter().map(|one| format!("`{}`", one.symbol));
            let symbols: Vec<_> = symbols.collect();
            format!(
                "The instances of the kernel [`{name}`](fn@{name}): {}.",
                symbols.join(", ")
            )
        } else {
            format!("The kernel [`{name}`](fn@{name}) as a family of one instance.")
        };
        let text = name.to_string();
        let cfgs = &self.cfgs;
        let tuple = self.tuple();
        let instances = self.instances.iter().map(
            |Instance {
                 cfgs, arguments, ..
             }| {
                quote! { #(#cfgs)* ::cuda_std::Instance::of::<#name<#(#arguments),*>>() }
            },
        );
        quote! {
            #[doc = #about]
            #[cfg(not(target_arch = "nvptx64"))]
            #(#cfgs)*
            #[allow(dead_code)]
            #visibility static #family: ::cuda_std::Family<#tuple> = {
                const INSTANCES: &[::cuda_std::Instance<#tuple>] = &[#(#instances),*];
                ::cuda_std::Family::new(#text, INSTANCES)
            };
        }
    }

    /// Returns the tuple of the parameters' types, which all instances share.
    fn tuple(&self) -> TokenStream {
        let types = self.parameters.iter().map(|parameter| &parameter.ty);
        quote! { (#(#types,)*) }
    }

    fn cfgs_of(&self, instance: &Instance) -> TokenStream {
        let (function, instance) = (&self.cfgs, &instance.cfgs);
        quote! { #(#function)* #(#instance)* }
    }
}

fn optional(expression: Option<&Expr>) -> TokenStream {
    match expression {
        Some(expression) => quote! { ::core::option::Option::Some(#expression) },
        None => quote! { ::core::option::Option::None },
    }
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::parse::Arguments;
    use syn::{File, ItemFn, parse_quote, parse_str, parse2};

    /// Expands the kernel, checks that the result is Rust, and returns its text without spaces.
    fn expanded(arguments: &str, function: &ItemFn) -> String {
        let arguments: Arguments = parse_str(arguments).unwrap();
        let tokens = expand(&arguments, function).unwrap();
        parse2::<File>(tokens.clone()).expect("items");
        tokens.to_string().replace([' ', '\n'], "")
    }

    #[test]
    fn each_instance_has_an_entry_a_kernel_and_a_place_in_the_family() {
        let arguments = "instances(BLOCKS: [1, 2], F: [f32, split: Split]), max_threads = F::THREADS, \
                         cluster_blocks = BLOCKS";
        let text = expanded(
            arguments,
            &parse_quote! { pub unsafe fn k<F: Format, const BLOCKS: u32>(x: *const F, n: &N) {} },
        );
        for part in [
            "pubunsafeextern\"ptx-kernel\"fnk_blocks2_split(x:*const::core::ffi::c_void,n:N)",
            "{::cuda_std::begin_kernel();unsafe{k::<Split,2>(x.cast(),&n)}}",
            "//@launch_boundsk_blocks2_split{t}{b}{c}",
            "constNAME:&'staticstr=\"k_blocks2_split\"",
            "&[::cuda_std::Label::Number(2u32),::cuda_std::Label::Name(\"split\")]",
            "typeF=Split;",
            "constBLOCKS:u32=2;",
            "max_threads:::core::option::Option::Some(F::THREADS)",
            "pubstructk<F,constBLOCKS:u32>",
            "pubstaticK:::cuda_std::Family<(*const::core::ffi::c_void,N,)>",
            "::cuda_std::Instance::of::<k<Split,2>>()",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("::cuda_std::Kernelfor").count(), 4);
    }

    #[test]
    fn a_tensor_map_is_taken_where_the_launch_put_it() {
        let text = expanded(
            "instances(T: [f32, f16])",
            &parse_quote! { pub unsafe fn k<T: Storage>(x: *const T, map: &tensor_map::TensorMap) {} },
        );
        for part in [
            "global_asm!(\"//@tensor_mapk_f16_param_1\")",
            "\"mov.b64{0},k_f16_param_1;\"",
            "type Args=(*const::core::ffi::c_void,tensor_map::TensorMap,);",
            "k::<f16>(arguments.0.cast(),&arguments.1)",
        ] {
            let part = part.replace(' ', "");
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert_eq!(text.matches("//@tensor_map").count(), 2);
    }

    #[test]
    fn a_function_that_is_not_generic_is_its_own_entry() {
        let text = expanded(
            "",
            &parse_quote! { #[cfg(a)] unsafe fn copy(x: *mut f32) { first(); } },
        );
        let entry =
            "unsafeextern\"ptx-kernel\"fncopy(x:*mutf32){::cuda_std::begin_kernel();first();}";
        assert!(text.contains(entry), "{text}");
        // The host's function has no `begin_kernel`.
        assert_eq!(text.matches("begin_kernel").count(), 1, "{text}");
        assert!(
            text.contains("staticCOPY:::cuda_std::Family<(*mutf32,)>"),
            "{text}"
        );
        assert!(!text.contains("launch_bounds"), "{text}");
        // Entry, function, type, implementation, family.
        assert_eq!(text.matches("#[cfg(a)]").count(), 5, "{text}");
    }

    #[test]
    fn conditions_of_an_instance_stand_at_all_that_is_its() {
        let arguments = "instances(T: [f32, #[cfg(a)] f16]), max_threads = 1";
        let text = expanded(
            arguments,
            &parse_quote! { unsafe fn k<T: Storage>(x: *mut T) {} },
        );
        // Bounds, entry, implementation, place in the family.
        assert_eq!(text.matches("#[cfg(a)]").count(), 4, "{text}");
    }
}

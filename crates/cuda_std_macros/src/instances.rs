//! The instances of a generic kernel: the values of its generic parameters, and the labels of the values.

use std::collections::BTreeSet;
use std::fmt;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, GenericArgument, GenericParam, ItemFn, Lit, Result, Token,
    Type, bracketed, parenthesized,
};

use crate::conditions::cfgs;
use crate::signature::name;

/// An `instances(..)` list: all combinations of the values of its axes.
pub(crate) struct List {
    cfgs: Vec<Attribute>,
    axes: Vec<Axis>,
    span: proc_macro2::Span,
}

/// The values of one generic parameter.
struct Axis {
    parameter: Ident,
    values: Vec<Value>,
}

/// A value of a generic parameter.
#[derive(Clone)]
struct Value {
    cfgs: Vec<Attribute>,
    label: Label,
    argument: GenericArgument,
}

/// The label of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Label {
    /// A name, such as `f32`.
    Name(String),
    /// A number, which is the value itself.
    Number(u32),
}

/// An instance: one combination of values.
pub(crate) struct Instance {
    /// The conditions under which the instance exists.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) symbol: Ident,
    pub(crate) labels: Vec<Label>,
    /// The function's generic arguments, in the order of its parameters.
    pub(crate) arguments: Vec<TokenStream>,
    /// Items that define the names of the generic parameters as their values.
    pub(crate) aliases: TokenStream,
}

impl List {
    /// Parses the parentheses after the word `instances`.
    pub(crate) fn parse(cfgs: Vec<Attribute>, input: ParseStream) -> Result<Self> {
        let content;
        let span = parenthesized!(content in input).span.join();
        let axes = Punctuated::<Axis, Token![,]>::parse_terminated_with(&content, Axis::parse)?;
        Ok(Self {
            cfgs,
            axes: axes.into_iter().collect(),
            span,
        })
    }
}

impl List {
    /// Returns the generic parameters with values in this list.
    fn parameters(&self) -> impl Iterator<Item = &Ident> {
        self.axes.iter().map(|axis| &axis.parameter)
    }
}

impl Axis {
    fn parse(input: ParseStream) -> Result<Self> {
        let parameter: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        let content;
        bracketed!(content in input);
        let values = Punctuated::<Value, Token![,]>::parse_terminated_with(&content, Value::parse)?;
        if values.is_empty() {
            let message = format!("kernel: `{parameter}` has no values");
            return Err(Error::new(parameter.span(), message));
        }
        Ok(Self {
            parameter,
            values: values.into_iter().collect(),
        })
    }
}

impl Value {
    fn parse(input: ParseStream) -> Result<Self> {
        let cfgs = cfgs(input)?;
        let is_labelled =
            input.peek(Ident::peek_any) && input.peek2(Token![:]) && !input.peek2(Token![::]);
        let mut label = None;
        if is_labelled {
            label = Some(Label::Name(input.call(Ident::parse_any)?.to_string()));
            input.parse::<Token![:]>()?;
        }
        let argument = input.parse()?;
        let label = label.map_or_else(|| Label::of(&argument), Ok)?;
        Ok(Self {
            cfgs,
            label,
            argument,
        })
    }
}

impl Label {
    /// Derives the label of an unlabelled value: a name in lower case, or a number.
    fn of(argument: &GenericArgument) -> Result<Self> {
        let own = match argument {
            GenericArgument::Type(Type::Path(ty)) => (ty.path.get_ident())
                .map(Ident::to_string)
                .filter(|name| !name.contains(char::is_uppercase))
                .map(Label::Name),
            GenericArgument::Const(Expr::Lit(ExprLit {
                lit: Lit::Int(number),
                ..
            })) => Some(Label::Number(number.base10_parse()?)),
            _ => None,
        };
        own.ok_or_else(|| {
            let text = argument.to_token_stream();
            let message = format!("kernel: value `{text}` has no label; write `label: {text}`");
            Error::new(argument.span(), message)
        })
    }

    /// Returns the label's part of a symbol.
    fn in_symbol(&self, parameter: &Ident) -> String {
        match self {
            Label::Name(name) => name.clone(),
            Label::Number(number) => format!("{}{number}", parameter.to_string().to_lowercase()),
        }
    }
}

impl ToTokens for Label {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Label::Name(name) => quote! { ::cuda_std::Label::Name(#name) },
            Label::Number(number) => quote! { ::cuda_std::Label::Number(#number) },
        });
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Name(name) => f.write_str(name),
            Label::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Returns all instances of a function, or the function itself if it is not generic.
pub(crate) fn instances(lists: &[List], function: &ItemFn) -> Result<Vec<Instance>> {
    let kernel = &function.sig.ident;
    let refuse = |span, what: &str| {
        let message = format!("kernel `{kernel}`: {what}");
        Err(Error::new(span, message))
    };
    let generics = &function.sig.generics.params;
    if lists.is_empty() && !generics.is_empty() {
        let what = "the function is generic, but `instances(..)` says nothing of its parameters";
        return refuse(function.sig.generics.span(), what);
    }
    for list in lists {
        let mut named = BTreeSet::new();
        for axis in list.parameters() {
            if !generics.iter().any(|generic| name(generic) == axis) {
                let what = format!("`{axis}` is no generic parameter of the function");
                return refuse(axis.span(), &what);
            }
            if !named.insert(axis.to_string()) {
                return refuse(axis.span(), &format!("`{axis}` is given twice in one list"));
            }
        }
        if let Some(missing) = generics
            .iter()
            .map(name)
            .find(|one| !named.contains(&one.to_string()))
        {
            return refuse(list.span, &format!("the list lacks values of `{missing}`"));
        }
        if !list.parameters().eq(lists[0].parameters()) {
            let what =
                "the lists have the parameters in different orders, but labels have one order";
            return refuse(list.span, what);
        }
    }

    let mut instances = Vec::new();
    if lists.is_empty() {
        instances.push(Instance::new(function, Vec::new(), &[])?);
    }
    for list in lists {
        for values in combinations(&list.axes) {
            instances.push(Instance::new(function, list.cfgs.clone(), &values)?);
        }
    }
    let mut symbols = BTreeSet::new();
    for instance in &instances {
        if !symbols.insert(instance.symbol.to_string()) {
            let what = format!("two instances have the symbol `{}`", instance.symbol);
            return refuse(instance.symbol.span(), &what);
        }
    }
    Ok(instances)
}

/// Returns all combinations of one value of each axis. The last axis changes fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<(&Ident, &Value)>> {
    let mut combinations = vec![Vec::new()];
    for axis in axes {
        let shorter = std::mem::take(&mut combinations);
        for (combination, value) in
            (shorter.iter()).flat_map(|one| axis.values.iter().map(move |value| (one, value)))
        {
            let mut longer = combination.clone();
            longer.push((&axis.parameter, value));
            combinations.push(longer);
        }
    }
    combinations
}

impl Instance {
    fn new(
        function: &ItemFn,
        mut cfgs: Vec<Attribute>,
        values: &[(&Ident, &Value)],
    ) -> Result<Self> {
        let mut symbol = function.sig.ident.to_string();
        let mut labels = Vec::new();
        for (parameter, value) in values {
            symbol = format!("{symbol}_{}", value.label.in_symbol(parameter));
            labels.push(value.label.clone());
            cfgs.extend(value.cfgs.iter().cloned());
        }
        let mut arguments = Vec::new();
        let mut aliases = TokenStream::new();
        for generic in &function.sig.generics.params {
            let found = values
                .iter()
                .find(|(parameter, _)| *parameter == name(generic));
            let Some((parameter, value)) = found else {
                continue;
            };
            let argument = &value.argument;
            let (argument, alias) = match generic {
                GenericParam::Const(constant) => {
                    let ty = &constant.ty;
                    let is_plain = matches!(argument, GenericArgument::Const(_));
                    let argument = if is_plain {
                        quote! { #argument }
                    } else {
                        quote! { { #argument } }
                    };
                    let alias = quote! { const #parameter: #ty = #argument; };
                    (argument, alias)
                }
                _ => (
                    quote! { #argument },
                    quote! { type #parameter = #argument; },
                ),
            };
            arguments.push(argument);
            aliases.extend(quote! { #[allow(unused, unused_braces)] #alias });
        }
        Ok(Self {
            cfgs,
            symbol: format_ident!("{symbol}", span = function.sig.ident.span()),
            labels,
            arguments,
            aliases,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Instance, Label, instances};
    use crate::parse::Arguments;
    use syn::{ItemFn, parse_quote, parse_str};

    fn of(lists: &str, function: &ItemFn) -> syn::Result<Vec<Instance>> {
        instances(&parse_str::<Arguments>(lists)?.lists, function)
    }

    fn generic() -> ItemFn {
        parse_quote! { unsafe fn k<F: Format, const BLOCKS: u32>(x: *const F) {} }
    }

    fn symbols(instances: &[Instance]) -> Vec<String> {
        instances.iter().map(|one| one.symbol.to_string()).collect()
    }

    #[test]
    fn a_list_gives_every_combination_in_the_order_of_its_parameters() {
        let lists = "instances(BLOCKS: [1, 2], F: [f16, f16x2_f32: Split<A>])";
        let found = of(lists, &generic()).unwrap();
        assert_eq!(
            symbols(&found),
            [
                "k_blocks1_f16",
                "k_blocks1_f16x2_f32",
                "k_blocks2_f16",
                "k_blocks2_f16x2_f32"
            ]
        );
        let last = &found[3];
        assert_eq!(
            last.labels,
            [Label::Number(2), Label::Name("f16x2_f32".into())]
        );
        let arguments: Vec<_> = last.arguments.iter().map(ToString::to_string).collect();
        assert_eq!(arguments, ["Split < A >", "2"]);
    }

    #[test]
    fn several_lists_add_up_and_conditions_are_those_of_list_and_value() {
        let lists = "instances(BLOCKS: [1], F: [f16]), \
                     #[cfg(a)] instances(BLOCKS: [two: TWO], F: [f16, #[cfg(b)] bf16])";
        let found = of(lists, &generic()).unwrap();
        assert_eq!(
            symbols(&found),
            ["k_blocks1_f16", "k_two_f16", "k_two_bf16"]
        );
        let conditions: Vec<_> = found.iter().map(|one| one.cfgs.len()).collect();
        assert_eq!(conditions, [0, 1, 2]);
        assert_eq!(found[1].arguments[1].to_string(), "{ TWO }");
    }

    #[test]
    fn a_function_that_is_not_generic_is_its_one_instance() {
        let found = of("", &parse_quote! { unsafe fn k() {} }).unwrap();
        assert_eq!(symbols(&found), ["k"]);
        assert!(found[0].labels.is_empty() && found[0].arguments.is_empty());
    }

    #[test]
    fn lists_that_do_not_fit_the_function_are_refused() {
        let cases = [
            ("", "says nothing of its parameters"),
            ("instances(F: [f32])", "lacks values of `BLOCKS`"),
            (
                "instances(F: [f32], T: [f32])",
                "`T` is no generic parameter",
            ),
            (
                "instances(F: [f32], F: [f16], BLOCKS: [1])",
                "`F` is given twice",
            ),
            (
                "instances(F: [f32, f32], BLOCKS: [1])",
                "the symbol `k_f32_blocks1`",
            ),
            (
                "instances(F: [f32], BLOCKS: [1]), instances(BLOCKS: [2], F: [f32])",
                "different orders",
            ),
            ("instances(F: [], BLOCKS: [1])", "`F` has no values"),
            ("instances(F: [Split], BLOCKS: [1])", "`Split` has no label"),
            ("instances(F: [f32], BLOCKS: [{ A + 1 }])", "has no label"),
        ];
        for (lists, words) in cases {
            let refusal = of(lists, &generic()).err().expect(lists).to_string();
            assert!(refusal.contains(words), "{lists}: {refusal}");
        }
        let plain = parse_quote! { unsafe fn k() {} };
        let refusal = of("instances(T: [f32])", &plain)
            .err()
            .expect("no generics");
        assert!(refusal.to_string().contains("no generic parameter"));
    }
}

//! Writes mutants next to the expressions of a source file.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, Lit, Member};

use super::known::{Known, is_among};

/// A mutant.
#[derive(Debug, Clone)]
pub(super) struct Mutant {
    /// The file's path relative to the root of the repository.
    pub(super) file: String,
    /// The name of the function.
    pub(super) function: String,
    /// The line of the expression.
    pub(super) line: usize,
    /// The expression.
    pub(super) from: String,
    /// The replacement.
    pub(super) to: String,
}

/// Writes mutants into one file.
pub(super) struct Mutator<'a> {
    known: &'a Known,
    file: &'a str,
    mutants: &'a mut Vec<Mutant>,
    function: String,
    owner: String,
}

fn parsed(tokens: TokenStream) -> Expr {
    syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{error}: {tokens}"))
}

/// Whether the expression contains a `let` or leaves the function.
fn leaves(expression: &Expr) -> bool {
    let text = format!(" {} ", expression.to_token_stream());
    [" let ", " return ", " ? ", " break ", " continue "]
        .iter()
        .any(|word| text.contains(word))
}

impl<'a> Mutator<'a> {
    pub(super) fn new(known: &'a Known, file: &'a str, mutants: &'a mut Vec<Mutant>) -> Self {
        Self {
            known,
            file,
            mutants,
            function: String::new(),
            owner: String::new(),
        }
    }

    /// Registers a mutant, and returns the condition under which it runs.
    fn mutant(&mut self, span: Span, from: &str, to: impl Into<String>) -> TokenStream {
        let number = u32::try_from(self.mutants.len()).expect("few mutants");
        self.mutants.push(Mutant {
            file: self.file.to_owned(),
            function: self.function.clone(),
            line: span.start().line,
            from: from.to_owned(),
            to: to.into(),
        });
        quote!(::mutants::is_on(#number))
    }

    fn binary(&mut self, e: &syn::ExprBinary, text: &str, span: Span) -> Option<Expr> {
        let (l, op, r) = (&e.left, &e.op, &e.right);
        let sign = op.to_token_stream().to_string();
        Some(match op {
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                let others: [&str; 2] = match &sign[..] {
                    "<" => ["<=", ">="],
                    "<=" => ["<", ">"],
                    ">" => [">=", "<="],
                    _ => [">", "<"],
                };
                let [first, second] = others.map(|other| self.mutant(span, text, other));
                let [one, two] = others.map(operator);
                parsed(quote!(({
                    let (l, r) = (&(#l), &(#r));
                    if #first { l #one r } else if #second { l #two r } else { l #op r }
                })))
            }
            BinOp::Eq(_) | BinOp::Ne(_) => {
                let on = self.mutant(span, text, if sign == "==" { "!=" } else { "==" });
                parsed(quote!(((#l #op #r) ^ #on)))
            }
            BinOp::And(_) | BinOp::Or(_) if !leaves(l) && !leaves(r) => {
                let [first, second] =
                    ["without the left", "without the right"].map(|to| self.mutant(span, text, to));
                parsed(match op {
                    BinOp::And(_) => quote!((((#l) || #first) && ((#r) || #second))),
                    _ => quote!((((#l) && !#first) || ((#r) && !#second))),
                })
            }
            BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_) => {
                let other = match &sign[..] {
                    "+" => "-",
                    "-" => "+",
                    "*" => "/",
                    "/" => "*",
                    _ => "/",
                };
                let on = self.mutant(span, text, other);
                let other = operator(other);
                parsed(quote!(({
                    let (l, r) = (#l, #r);
                    if #on { l #other r } else { l #op r }
                })))
            }
            _ => return None,
        })
    }

    fn method(&mut self, e: &syn::ExprMethodCall, text: &str, span: Span) -> Option<Expr> {
        let receiver = &e.receiver;
        let name = e.method.to_string();
        let arguments: Vec<&Expr> = e.args.iter().collect();
        Some(match (&name[..], &arguments[..]) {
            ("min" | "max", [other]) => {
                let opposite = if name == "min" { "max" } else { "min" };
                let on = self.mutant(span, text, opposite);
                let [this, that] =
                    [&name[..], opposite].map(|name| syn::Ident::new(name, Span::call_site()));
                parsed(quote!(({
                    let (l, r) = (#receiver, #other);
                    if #on { l.#that(r) } else { l.#this(r) }
                })))
            }
            ("div_ceil", [other]) => {
                let on = self.mutant(span, text, "/");
                parsed(quote!(({
                    let (l, r) = (#receiver, #other);
                    if #on { l / r } else { l.div_ceil(r) }
                })))
            }
            ("next_multiple_of", [other]) => {
                let on = self.mutant(span, text, "as it is");
                parsed(quote!(({
                    let (l, r) = (#receiver, #other);
                    if #on { l } else { l.next_multiple_of(r) }
                })))
            }
            ("is_multiple_of", [other]) => {
                let [yes, no] = ["true", "false"].map(|to| self.mutant(span, text, to));
                parsed(quote!((((#receiver).is_multiple_of(#other) || #yes) && !#no)))
            }
            ("any" | "all", [closure]) if !leaves(closure) => {
                let opposite = if name == "any" { "all" } else { "any" };
                let on = self.mutant(span, text, opposite);
                let [this, that] =
                    [&name[..], opposite].map(|name| syn::Ident::new(name, Span::call_site()));
                parsed(quote!(({
                    let mut values = #receiver;
                    if #on { values.#that(#closure) } else { values.#this(#closure) }
                })))
            }
            _ => return None,
        })
    }

    fn literal(&mut self, e: &syn::ExprLit, text: &str, span: Span) -> Option<Expr> {
        match &e.lit {
            Lit::Int(int) => {
                let value: u128 = int.base10_parse().ok()?;
                let suffix = int.suffix();
                let others = match value {
                    0 => vec![1],
                    1..=16 => vec![value + 1, value - 1],
                    _ => vec![value + 1, value * 2],
                };
                let mut result = quote!(#e);
                for other in others {
                    let on = self.mutant(span, text, other.to_string());
                    let other = syn::LitInt::new(&format!("{other}{suffix}"), span);
                    result = quote!(if #on { #other } else { #result });
                }
                Some(parsed(quote!((#result))))
            }
            Lit::Float(float) => {
                let value: f64 = float.base10_parse().ok()?;
                let other = if value == 0.0 { 1.0 } else { 2.0 * value };
                let on = self.mutant(span, text, other.to_string());
                let other = syn::LitFloat::new(&format!("{other:?}{}", float.suffix()), span);
                Some(parsed(quote!((if #on { #other } else { #e }))))
            }
            Lit::Bool(bool) => {
                let on = self.mutant(span, text, (!bool.value).to_string());
                Some(parsed(quote!((#e ^ #on))))
            }
            _ => None,
        }
    }

    /// A constant of a primitive type.
    fn constant(&mut self, e: &syn::ExprPath, text: &str, span: Span) -> Option<Expr> {
        let name = e.path.get_ident()?.to_string();
        let of_type = self.known.constants.get(&name)?;
        let is_float = of_type.starts_with('f');
        let one = if is_float { quote!(1.0) } else { quote!(1) };
        let two = if is_float { quote!(2.0) } else { quote!(2) };
        let more = self.mutant(span, text, format!("{text} + 1"));
        let twice = self.mutant(span, text, format!("2 * {text}"));
        Some(parsed(
            quote!((if #more { #e + #one } else if #twice { #e * #two } else { #e })),
        ))
    }

    fn field(&mut self, e: &syn::ExprField, text: &str, span: Span) -> Option<Expr> {
        let Member::Named(name) = &e.member else {
            return None;
        };
        let other = self.known.other_axes.get(&name.to_string())?;
        let on = self.mutant(span, text, other);
        let other = syn::Ident::new(other, Span::call_site());
        let base = &e.base;
        Some(parsed(quote!((if #on { #base.#other } else { #e }))))
    }

    fn visit_function(&mut self, signature: &mut syn::Signature, visit: impl FnOnce(&mut Self)) {
        let name = signature.ident.to_string();
        let full = format!("{}::{name}", self.owner);
        if signature.constness.is_some() && is_among(&self.known.evaluated, &full) {
            return;
        }
        signature.constness = None;
        let before = std::mem::replace(&mut self.function, full);
        visit(self);
        self.function = before;
    }
}

fn operator(sign: &str) -> TokenStream {
    sign.parse().expect("an operator")
}

/// The tokens as text on one line.
pub(super) fn spaced(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace('\n', " ")
}

impl VisitMut for Mutator<'_> {
    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let (text, span) = (spaced(e), e.span());
        match e {
            // Do not mutate the target of an assignment, or expressions evaluated at compile time.
            Expr::Assign(assign) => return self.visit_expr_mut(&mut assign.right),
            Expr::Binary(b) if is_assignment(&b.op) => {
                return self.visit_expr_mut(&mut b.right);
            }
            Expr::Repeat(repeat) => return self.visit_expr_mut(&mut repeat.expr),
            Expr::Reference(reference) => {
                // Do not mutate a borrowed field.
                if matches!(*reference.expr, Expr::Field(_)) {
                    return;
                }
            }
            Expr::Const(_) | Expr::Macro(_) => return,
            Expr::Call(call) => {
                call.args
                    .iter_mut()
                    .for_each(|argument| self.visit_expr_mut(argument));
                return;
            }
            // A method may need the receiver's place, but its arguments can be mutated.
            Expr::MethodCall(call) if matches!(*call.receiver, Expr::Field(_)) => {
                call.args
                    .iter_mut()
                    .for_each(|argument| self.visit_expr_mut(argument));
            }
            Expr::Field(_) => {}
            _ => visit_mut::visit_expr_mut(self, e),
        }
        let mutated = match &*e {
            Expr::Binary(binary) => self.binary(&binary.clone(), &text, span),
            Expr::MethodCall(call) => self.method(&call.clone(), &text, span),
            Expr::Lit(literal) => self.literal(&literal.clone(), &text, span),
            Expr::Path(path) => self.constant(&path.clone(), &text, span),
            Expr::Field(field) => self.field(&field.clone(), &text, span),
            _ => None,
        };
        if let Some(mutated) = mutated {
            *e = mutated;
        }
    }

    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_attribute_mut(&mut self, _: &mut syn::Attribute) {}
    fn visit_generics_mut(&mut self, _: &mut syn::Generics) {}
    fn visit_path_arguments_mut(&mut self, _: &mut syn::PathArguments) {}
    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_variant_mut(&mut self, _: &mut syn::Variant) {}
    fn visit_macro_mut(&mut self, _: &mut syn::Macro) {}

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if module.ident != "tests" {
            visit_mut::visit_item_mod_mut(self, module);
        }
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let before = std::mem::replace(&mut self.owner, owner.unwrap_or_default());
        visit_mut::visit_item_impl_mut(self, item);
        self.owner = before;
    }

    fn visit_item_fn_mut(&mut self, item: &mut syn::ItemFn) {
        let block = &mut item.block;
        self.visit_function(&mut item.sig, |this| this.visit_block_mut(block));
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut syn::ImplItemFn) {
        let block = &mut item.block;
        self.visit_function(&mut item.sig, |this| this.visit_block_mut(block));
    }
}

fn is_assignment(op: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
        ShlAssign, ShrAssign, SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

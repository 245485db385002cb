//! The sources in macros: what they are given, and what they become. Tokens keep their places in the file, so
//! what is read here is changed there.

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Block, Expr, Stmt, Token};

/// Tokens that could be read.
pub(super) enum Nested {
    File(syn::File),
    Statements(Vec<Stmt>),
    Expressions(Vec<Expr>),
}

/// Macros whose arguments are no part of what a kernel computes.
const LEFT_OUT: [&str; 10] = [
    "assert",
    "assert_eq",
    "debug_assert",
    "cfg",
    "concat",
    "format",
    "matches",
    "panic",
    "stringify",
    "unreachable",
];

/// What a macro in a function is given, where that is expressions: `unroll!(4, |i| { .. })`.
pub(super) fn arguments(of: &syn::Macro) -> Option<Nested> {
    if LEFT_OUT.iter().any(|name| of.path.is_ident(name)) {
        return None;
    }
    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
    let mut all: Vec<Expr> = parser.parse2(of.tokens.clone()).ok()?.into_iter().collect();
    // How often something is written out chooses the macro's arm.
    if of.path.is_ident("unroll") && !all.is_empty() {
        all.remove(0);
    }
    Some(Nested::Expressions(all))
}

/// What the arms of a `macro_rules!` become, of those that can be read.
pub(super) fn bodies(rules: &TokenStream) -> Vec<Nested> {
    let mut bodies = Vec::new();
    let mut is_body = false;
    for tree in rules.clone() {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '>' => is_body = true,
            TokenTree::Group(group) if is_body => {
                is_body = false;
                bodies.extend(body(&group.stream()));
            }
            _ => {}
        }
    }
    bodies
}

fn body(tokens: &TokenStream) -> Option<Nested> {
    let tokens = without_fragments(tokens.clone());
    if let Ok(file) = syn::parse2::<syn::File>(tokens.clone())
        && !file.items.is_empty()
    {
        return Some(Nested::File(file));
    }
    let statements = Block::parse_within.parse2(tokens).ok()?;
    Some(Nested::Statements(statements))
}

/// The tokens with a name for each fragment, `$name`, and with what is repeated once.
fn without_fragments(tokens: TokenStream) -> TokenStream {
    let mut trees = tokens.into_iter().peekable();
    let mut plain = TokenStream::new();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Punct(dollar) if dollar.as_char() == '$' => match trees.next() {
                Some(TokenTree::Ident(name)) if name == "crate" => {
                    plain.extend([TokenTree::Ident(name)])
                }
                Some(TokenTree::Ident(name)) => {
                    let span = dollar
                        .span()
                        .join(name.span())
                        .unwrap_or_else(|| name.span());
                    plain.extend([TokenTree::Ident(Ident::new(
                        &format!("fragment_{name}"),
                        span,
                    ))]);
                }
                Some(TokenTree::Group(repeated)) => {
                    plain.extend(without_fragments(repeated.stream()));
                    // What stands between repetitions, and how many there are.
                    while let Some(TokenTree::Punct(punct)) = trees.next() {
                        if matches!(punct.as_char(), '*' | '+' | '?')
                            && punct.spacing() == Spacing::Alone
                            || matches!(punct.as_char(), '*' | '?')
                        {
                            break;
                        }
                    }
                }
                other => plain.extend(other),
            },
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_fragments(group.stream()));
                inner.set_span(group.span());
                if group.delimiter() == Delimiter::None {
                    plain.extend(inner.stream());
                } else {
                    plain.extend([TokenTree::Group(inner)]);
                }
            }
            other => plain.extend([other]),
        }
    }
    plain
}

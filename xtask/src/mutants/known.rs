//! Facts about all sources that the mutants of a file depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

use super::is_mutated;

const AXES: [(&str, &str); 4] = [("h", "w"), ("p", "q"), ("r", "s"), ("d", "h")];

/// Returns the same field of another axis.
fn other_axis(field: &str) -> Option<String> {
    let (stem, axis) = match field.rsplit_once('_') {
        Some((stem, axis)) => (format!("{stem}_"), axis),
        None => (String::new(), field),
    };
    let both = AXES.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
    let mut others = both.filter(|(one, _)| *one == axis);
    others.next().map(|(_, other)| format!("{stem}{other}"))
}

/// Facts about all sources.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Constants of numeric types, with their types.
    pub(super) constants: BTreeMap<String, String>,
    /// Functions that the compiler evaluates at compile time: `name`, or `Type::name`.
    pub(super) evaluated: BTreeSet<String>,
    /// Maps a field of an axis to the field of another axis, if every structure with the one has the other.
    pub(super) other_axes: BTreeMap<String, String>,
}

#[derive(Default)]
struct Reader {
    constants: BTreeMap<String, BTreeSet<String>>,
    evaluated: BTreeSet<String>,
    structures: Vec<BTreeSet<String>>,
    /// The functions that constant functions call, by caller.
    calls: BTreeMap<String, BTreeSet<String>>,
    owner: String,
    /// Whether this file is not mutated, so its constant functions stay constant.
    stays: bool,
}

impl Known {
    pub(super) fn of(root: &Path, files: &[&str]) -> Result<Known> {
        let mut reader = Reader::default();
        for file in files {
            let is_source = ["crates/", "kernels-gpu/src", "host/src"];
            if file.ends_with(".rs")
                && is_source.iter().any(|folder| file.starts_with(folder))
                && let Ok(source) = syn::parse_file(&fs::read_to_string(root.join(file))?)
            {
                reader.stays = !is_mutated(file);
                reader.visit_file(&source);
            }
        }
        let Reader {
            constants,
            mut evaluated,
            structures,
            calls,
            ..
        } = reader;
        loop {
            let called = calls.iter().filter(|(name, _)| is_among(&evaluated, name));
            let called: BTreeSet<String> = called.flat_map(|(_, called)| called.clone()).collect();
            let before = evaluated.len();
            evaluated.extend(called);
            if evaluated.len() == before {
                break;
            }
        }
        let numbers = [
            "u8", "u16", "u32", "u64", "usize", "i32", "i64", "isize", "f32", "f64",
        ];
        let constants = constants.into_iter().filter_map(|(name, types)| {
            let mut types = types.into_iter();
            let (Some(one), None) = (types.next(), types.next()) else {
                return None;
            };
            numbers.contains(&&one[..]).then_some((name, one))
        });
        let fields: BTreeSet<&String> = structures.iter().flatten().collect();
        let other_axes = fields.iter().filter_map(|&field| {
            let other = other_axis(field)?;
            let mut having = structures.iter().filter(|of| of.contains(field));
            having
                .all(|of| of.contains(&other))
                .then(|| (field.clone(), other))
        });
        Ok(Known {
            constants: constants.collect(),
            other_axes: other_axes.collect(),
            evaluated,
        })
    }
}

/// Whether function `Type::name` is in a set of names with and without types.
pub(super) fn is_among(evaluated: &BTreeSet<String>, function: &str) -> bool {
    let name = function.rsplit("::").next().unwrap_or(function);
    evaluated.contains(function)
        || evaluated.contains(&format!(".{name}"))
        || (function.starts_with("::") && evaluated.contains(name))
}

/// The functions that tokens call: `Type::name`, `name`, or `.name` for methods.
fn called(tokens: TokenStream, owner: &str, found: &mut BTreeSet<String>) {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in all.iter().enumerate() {
        match token {
            TokenTree::Group(group) => called(group.stream(), owner, found),
            TokenTree::Ident(name) => {
                let is_sign = |back: usize, sign: char| {
                    index.checked_sub(back).is_some_and(
                        |at| matches!(&all[at], TokenTree::Punct(p) if p.as_char() == sign),
                    )
                };
                let of = match index.checked_sub(3).map(|at| &all[at]) {
                    Some(TokenTree::Ident(of)) if is_sign(1, ':') && is_sign(2, ':') => {
                        Some(of.to_string())
                    }
                    _ => None,
                };
                found.insert(match of {
                    Some(of) if of == "Self" => format!("{owner}::{name}"),
                    Some(of) if of.starts_with(char::is_uppercase) => format!("{of}::{name}"),
                    _ if is_sign(1, '.') => format!(".{name}"),
                    _ => name.to_string(),
                });
            }
            _ => {}
        }
    }
}

impl Reader {
    fn evaluate(&mut self, tokens: &impl ToTokens) {
        called(tokens.to_token_stream(), &self.owner, &mut self.evaluated);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_some() {
            let name = format!("{}::{}", self.owner, signature.ident);
            let found = match self.stays {
                true => &mut self.evaluated,
                false => self.calls.entry(name).or_default(),
            };
            called(block.to_token_stream(), &self.owner, found);
        }
    }

    fn constant(&mut self, name: &syn::Ident, ty: &syn::Type, value: &syn::Expr) {
        let types = self.constants.entry(name.to_string()).or_default();
        types.insert(ty.to_token_stream().to_string());
        self.evaluate(value);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(&item.ident, &item.ty, &item.expr);
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(&item.ident, &item.ty, &item.expr);
        visit::visit_impl_item_const(self, item);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        if let Some((_, value)) = &item.default {
            self.constant(&item.ident, &item.ty, value);
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.evaluate(&item.expr);
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.evaluate(&array.len);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.evaluate(&repeat.len);
        visit::visit_expr_repeat(self, repeat);
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.evaluate(block);
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        if let syn::GenericArgument::Const(value) = argument {
            self.evaluate(value);
        }
        visit::visit_generic_argument(self, argument);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if !attribute.path().is_ident("doc") {
            self.evaluate(&attribute.meta);
        }
    }

    fn visit_macro(&mut self, one: &'ast syn::Macro) {
        // Arrays in shared memory, for example.
        let is_static = |token| matches!(token, TokenTree::Ident(word) if word == "static");
        if one.tokens.clone().into_iter().any(is_static) {
            self.evaluate(&one.tokens);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let names = item.fields.iter().filter_map(|field| field.ident.as_ref());
        self.structures
            .push(names.map(ToString::to_string).collect());
        visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let before = std::mem::replace(&mut self.owner, owner.unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

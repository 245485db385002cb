//! Names and what is likely their type, by the syntax alone: which others could have been meant.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, Lit, Member, Pat, ReturnType, Type};

use super::macros;

/// Types of fields, functions and constants by their names, of all sources; nothing for a name that has
/// several.
#[derive(Debug, Default)]
pub(crate) struct Types {
    fields: BTreeMap<String, Option<String>>,
    functions: BTreeMap<String, Option<String>>,
    constants: BTreeMap<String, Option<String>>,
}

/// A type's text without spaces.
fn text(of: &impl syn::spanned::Spanned) -> Option<String> {
    let text = of.span().source_text()?;
    Some(text.split_whitespace().collect())
}

fn note(types: &mut BTreeMap<String, Option<String>>, name: &syn::Ident, of: Option<String>) {
    types
        .entry(name.to_string())
        .and_modify(|known| {
            if *known != of {
                *known = None;
            }
        })
        .or_insert(of);
}

impl Types {
    /// Of these sources.
    ///
    /// # Errors
    /// A source that is not Rust.
    pub(crate) fn of<'a>(sources: impl IntoIterator<Item = &'a str>) -> syn::Result<Self> {
        let mut types = Self::default();
        for source in sources {
            types.visit_file(&syn::parse_file(source)?);
        }
        Ok(types)
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            note(&mut self.fields, name, text(&field.ty));
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let ReturnType::Type(_, returned) = &signature.output {
            note(&mut self.functions, &signature.ident, text(&**returned));
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        note(&mut self.constants, &item.ident, text(&*item.ty));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        note(&mut self.constants, &item.ident, text(&item.ty));
    }
}

/// The names of a function: those bound so far in each block around a place, with their types where these are
/// likely known, and the fields that it reads, with what they are of.
#[derive(Debug, Default)]
pub(crate) struct Names {
    blocks: Vec<Vec<(String, Option<String>)>>,
    fields: Vec<(String, String)>,
}

impl Names {
    /// Those of a function's parameters.
    pub(crate) fn of(signature: &syn::Signature, block: &syn::Block) -> Self {
        let mut names = Self::default();
        names.enter();
        for input in &signature.inputs {
            if let syn::FnArg::Typed(input) = input {
                names.bind(&input.pat, text(&*input.ty));
            }
        }
        names.visit_block(block);
        names
    }

    pub(crate) fn enter(&mut self) {
        self.blocks.push(Vec::new());
    }

    pub(crate) fn leave(&mut self) {
        self.blocks.pop();
    }

    /// Binds the names of a pattern whose value has this type.
    pub(crate) fn bind(&mut self, pattern: &Pat, of: Option<String>) {
        match pattern {
            Pat::Ident(name) => {
                // In a macro, a fragment's name is not its text.
                let name = name.ident.to_string();
                if let Some(block) = self.blocks.last_mut()
                    && !name.starts_with('_')
                    && !name.starts_with("fragment_")
                {
                    block.push((name, of));
                }
            }
            Pat::Type(typed) => self.bind(&typed.pat, text(&*typed.ty)),
            Pat::Reference(inner) => self.bind(&inner.pat, None),
            Pat::Tuple(tuple) => {
                let parts = of.map_or_else(Vec::new, |of| parts(&of));
                for (at, pattern) in tuple.elems.iter().enumerate() {
                    self.bind(pattern, parts.get(at).cloned());
                }
            }
            Pat::Slice(slice) => {
                let each = of.and_then(|of| element(&of));
                for pattern in &slice.elems {
                    self.bind(pattern, each.clone());
                }
            }
            _ => {}
        }
    }

    fn type_of_name(&self, name: &str) -> Option<String> {
        let mut all = self
            .blocks
            .iter()
            .rev()
            .flat_map(|block| block.iter().rev());
        all.find(|(known, _)| known == name)?.1.clone()
    }

    /// The variables bound before and behind this one that likely have its type.
    pub(crate) fn neighbours(&self, name: &str) -> Vec<String> {
        let Some(of) = self.type_of_name(name) else {
            return Vec::new();
        };
        let names = self.blocks.iter().flatten().map(|(name, _)| name.as_str());
        let same = names.filter(|other| self.type_of_name(other).as_ref() == Some(&of));
        beside(&same.collect::<Vec<_>>(), name)
    }

    /// The fields of the same value, read in this function before and behind this one, that have its type.
    pub(crate) fn neighbouring_fields(&self, types: &Types, base: &str, name: &str) -> Vec<String> {
        let of = |name: &str| types.fields.get(name).cloned().flatten();
        let Some(this) = of(name) else {
            return Vec::new();
        };
        let fields = self.fields.iter().filter(|(other, _)| other == base);
        let same = fields.filter(|(_, name)| of(name).as_ref() == Some(&this));
        beside(
            &same.map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
            name,
        )
    }

    /// What is likely the type of this.
    pub(crate) fn type_of(&self, types: &Types, of: &Expr) -> Option<String> {
        let known = |map: &BTreeMap<String, Option<String>>, name: &syn::Ident| {
            map.get(&name.to_string()).cloned().flatten()
        };
        match of {
            Expr::Paren(of) => self.type_of(types, &of.expr),
            Expr::Cast(of) => text(&*of.ty),
            Expr::Lit(of) => match &of.lit {
                Lit::Int(number) if !number.suffix().is_empty() => Some(number.suffix().into()),
                Lit::Float(_) => Some("f32".into()),
                Lit::Bool(_) => Some("bool".into()),
                _ => None,
            },
            Expr::Path(of) => {
                let name = &of.path.segments.last()?.ident;
                let variable = of.path.get_ident();
                let variable = variable.and_then(|name| self.type_of_name(&name.to_string()));
                variable.or_else(|| known(&types.constants, name))
            }
            Expr::Field(of) => match &of.member {
                Member::Named(name) => known(&types.fields, name),
                Member::Unnamed(_) => None,
            },
            Expr::MethodCall(of) => {
                const OF_RECEIVER: [&str; 7] = [
                    "min",
                    "max",
                    "div_ceil",
                    "next_multiple_of",
                    "wrapping",
                    "saturating",
                    "abs",
                ];
                let name = of.method.to_string();
                if OF_RECEIVER.iter().any(|prefix| name.starts_with(prefix)) {
                    let receiver = self.type_of(types, &of.receiver);
                    return receiver.or_else(|| self.type_of(types, of.args.first()?));
                }
                known(&types.functions, &of.method)
            }
            Expr::Call(of) => match &*of.func {
                Expr::Path(path) => known(&types.functions, &path.path.segments.last()?.ident),
                _ => None,
            },
            Expr::Unary(of) => self.type_of(types, &of.expr),
            Expr::Binary(of) => {
                use syn::BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
                if matches!(
                    of.op,
                    And(_) | Or(_) | Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_)
                ) {
                    return Some("bool".into());
                }
                let left = self.type_of(types, &of.left);
                left.or_else(|| self.type_of(types, &of.right))
            }
            Expr::Index(of) => element(&self.type_of(types, &of.expr)?),
            Expr::Range(of) => {
                let ends = [&of.start, &of.end].into_iter().flatten();
                ends.filter_map(|end| self.type_of(types, end)).next()
            }
            _ => None,
        }
    }
}

/// What a function reads of values that have names.
impl<'ast> Visit<'ast> for Names {
    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        if let (Some(base), Member::Named(name)) = (text(&*field.base), &field.member) {
            self.fields.push((base, name.to_string()));
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        if let Some(macros::Nested::Expressions(expressions)) = macros::arguments(of) {
            // Tokens of a macro live as long as this call; names are kept as texts.
            let mut inner = Self::default();
            for expression in &expressions {
                inner.visit_expr(expression);
            }
            self.fields.extend(inner.fields);
        }
    }
}

/// The types of a tuple.
fn parts(of: &str) -> Vec<String> {
    match syn::parse_str(of) {
        Ok(Type::Tuple(tuple)) => (tuple.elems.iter())
            .map(|part| text(part).unwrap_or_default())
            .collect(),
        _ => Vec::new(),
    }
}

/// The type of an array's or a slice's elements.
fn element(of: &str) -> Option<String> {
    match syn::parse_str(of.trim_start_matches('&')).ok()? {
        Type::Array(array) => text(&*array.elem),
        Type::Slice(slice) => text(&*slice.elem),
        _ => None,
    }
}

/// The last other name before the first place of this one in a list, and the first other one behind it.
fn beside(all: &[&str], name: &str) -> Vec<String> {
    let Some(at) = all.iter().position(|other| *other == name) else {
        return Vec::new();
    };
    let before = all[..at].iter().rev().find(|other| **other != name);
    let behind = all[at..].iter().find(|other| **other != name);
    let mut found: Vec<String> = before
        .into_iter()
        .chain(behind)
        .map(|&name| name.to_owned())
        .collect();
    found.dedup();
    found
}

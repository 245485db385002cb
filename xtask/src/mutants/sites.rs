//! Where a source can be changed, and to what.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Member, Stmt, UnOp};

use super::changes::is_named_constant;
use super::kinds::{Kind, other_axes};
use super::macros;
use super::names::{Names, Types};

/// A change of one place of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) kind: Kind,
    /// The bytes that are replaced: an expression, or a statement with its semicolon.
    pub(crate) range: Range<usize>,
    pub(crate) line: usize,
    /// What stands there instead; nothing for a statement that is left out.
    pub(crate) replacement: String,
    pub(crate) is_statement: bool,
    /// In a function that may also run when the source is compiled, where nothing can be switched.
    pub(crate) is_const: bool,
}

/// All sites of a source, in the order of their places.
///
/// # Errors
/// A source that is not Rust.
pub(crate) fn sites(source: &str, types: &Types) -> syn::Result<Vec<Site>> {
    let file = syn::parse_file(source)?;
    let mut visitor = Visitor {
        source,
        sites: Vec::new(),
        is_const: false,
        types,
        names: Names::default(),
    };
    visitor.visit_file(&file);
    let mut sites = visitor.sites;
    sites.sort_by_key(|site| (site.range.start, site.range.end));
    Ok(sites)
}

pub(super) struct Visitor<'a> {
    pub(super) source: &'a str,
    sites: Vec<Site>,
    is_const: bool,
    pub(super) types: &'a Types,
    pub(super) names: Names,
}

/// Whether these attributes leave something out of what the emulator runs.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote_text(attribute);
        attribute.path().is_ident("cfg")
            && (text.contains("test") || text.contains("nvptx64") && !text.contains("not"))
    })
}

fn quote_text(attribute: &Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

impl Visitor<'_> {
    pub(super) fn text(&self, node: &impl Spanned) -> &str {
        &self.source[node.span().byte_range()]
    }

    /// The texts of a call's arguments.
    pub(super) fn texts<'a>(&self, nodes: impl IntoIterator<Item = &'a Expr>) -> Vec<String> {
        let texts = nodes.into_iter().map(|node| self.text(node).to_owned());
        texts.collect()
    }

    pub(super) fn add_at(
        &mut self,
        kind: Kind,
        span: Span,
        replacement: String,
        is_statement: bool,
    ) {
        let line = span.start().line;
        self.add_range(kind, span.byte_range(), line, replacement, is_statement);
    }

    pub(super) fn add_range(
        &mut self,
        kind: Kind,
        range: Range<usize>,
        line: usize,
        replacement: String,
        is_statement: bool,
    ) {
        let site = Site {
            kind,
            range,
            line,
            replacement,
            is_statement,
            is_const: self.is_const,
        };
        if !self.sites.contains(&site) {
            self.sites.push(site);
        }
    }

    pub(super) fn add(&mut self, kind: Kind, node: &impl Spanned, replacement: String) {
        self.add_at(kind, node.span(), replacement, false);
    }

    fn function(&mut self, signature: &syn::Signature, block: &Block) {
        let was = std::mem::replace(&mut self.is_const, signature.constness.is_some());
        let names = std::mem::replace(&mut self.names, Names::of(signature, block));
        self.visit_block(block);
        self.names = names;
        self.is_const = was;
    }

    /// What a macro is given, or what it becomes, is sources as well.
    fn nested(&mut self, nested: macros::Nested) {
        match nested {
            macros::Nested::File(file) => self.visit_file(&file),
            macros::Nested::Statements(statements) => {
                self.exchanged_statements(&statements);
                for statement in &statements {
                    self.visit_stmt(statement);
                }
            }
            macros::Nested::Expressions(expressions) => {
                for expression in &expressions {
                    self.visit_expr(expression);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Binary(of) => self.binary(expression, &of.left, of.op, &of.right),
            Expr::Unary(of) => {
                let inner = self.text(&of.expr).to_owned();
                match of.op {
                    UnOp::Not(_) => self.add(Kind::Logic, expression, inner),
                    UnOp::Neg(_) => self.add(Kind::Arithmetic, expression, inner),
                    _ => {}
                }
            }
            Expr::MethodCall(of) => self.method(expression, of),
            Expr::Call(of) => self.call(expression, of),
            Expr::Lit(of) => self.literal(expression, &of.lit),
            Expr::If(of) => self.condition(&of.cond),
            Expr::While(of) => {
                self.condition(&of.cond);
                self.one_round(&of.body);
            }
            Expr::ForLoop(of) => self.one_round(&of.body),
            Expr::Cast(of) => self.conversion(expression, of),
            Expr::Range(of) => {
                if let Some(end) = &of.end {
                    self.one_more_and_less(Kind::Bound, end);
                }
            }
            Expr::Path(of) => {
                let name = of.path.segments.last().map(|last| last.ident.to_string());
                match name.as_deref() {
                    Some(name) if is_named_constant(name) => {
                        self.one_more_and_less(Kind::Constant, expression);
                    }
                    Some(name) if of.path.get_ident().is_some() => {
                        for other in other_axes(name) {
                            self.add(Kind::Axis, expression, other);
                        }
                        self.variable(expression, name);
                    }
                    _ => {}
                }
            }
            Expr::Field(of) => {
                if let Member::Named(name) = &of.member {
                    self.field(expression, &of.base, &name.to_string());
                    self.other_field(expression, &of.base, &name.to_string());
                }
            }
            Expr::Index(of) => {
                let base = self.text(&of.expr).to_owned();
                let other = match self.text(&of.index) {
                    "0" => "1",
                    "1" => "0",
                    "2" => "1",
                    _ => "",
                };
                if !other.is_empty() {
                    self.add(Kind::Axis, expression, format!("{base}[{other}]"));
                }
            }
            _ => {}
        }
        match expression {
            // Places, which are not values.
            Expr::Assign(of) => {
                if let Expr::Index(place) = &*of.left {
                    self.visit_expr(&place.index);
                }
                self.visit_expr(&of.right);
            }
            Expr::Binary(of)
                if self.text(&of.op).ends_with('=')
                    && self.text(&of.op).len() > 1
                    && !matches!(
                        of.op,
                        BinOp::Le(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_)
                    ) =>
            {
                if let Expr::Index(place) = &*of.left {
                    self.visit_expr(&place.index);
                }
                self.visit_expr(&of.right);
            }
            Expr::Reference(of) if of.mutability.is_some() => {}
            Expr::Reference(of)
                if matches!(&*of.expr, Expr::Field(_) | Expr::Path(_) | Expr::Index(_)) => {}
            // The function that is called, and the fields on the way to a field, are no values.
            Expr::Call(of) => of
                .args
                .iter()
                .for_each(|argument| self.visit_expr(argument)),
            Expr::Field(of) if matches!(&*of.base, Expr::Field(_) | Expr::Path(_)) => {}
            Expr::Index(of) => {
                if !matches!(&*of.expr, Expr::Field(_) | Expr::Path(_) | Expr::Index(_)) {
                    self.visit_expr(&of.expr);
                }
                self.visit_expr(&of.index);
            }
            Expr::Struct(of) => {
                for field in &of.fields {
                    // `Self { h }` has no value to replace.
                    if field.colon_token.is_some() {
                        self.visit_expr(&field.expr);
                    }
                }
            }
            Expr::MethodCall(of) => {
                if !matches!(&*of.receiver, Expr::Path(_)) {
                    self.visit_expr(&of.receiver);
                }
                of.args
                    .iter()
                    .for_each(|argument| self.visit_expr(argument));
            }
            // How many elements there are is known when it is compiled.
            Expr::Repeat(of) => self.visit_expr(&of.expr),
            Expr::Const(_) => {}
            _ => visit::visit_expr(self, expression),
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.exchanged_statements(&block.stmts);
        self.names.enter();
        visit::visit_block(self, block);
        self.names.leave();
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let value = local.init.as_ref();
        let of = value.and_then(|value| self.names.type_of(self.types, &value.expr));
        self.names.bind(&local.pat, of);
    }

    fn visit_expr_for_loop(&mut self, of: &'ast syn::ExprForLoop) {
        self.visit_expr(&of.expr);
        let each = self.names.type_of(self.types, &of.expr);
        self.names.enter();
        self.names.bind(&of.pat, each);
        self.visit_block(&of.body);
        self.names.leave();
    }

    fn visit_expr_closure(&mut self, of: &'ast syn::ExprClosure) {
        self.names.enter();
        for input in &of.inputs {
            self.names.bind(input, None);
        }
        self.visit_expr(&of.body);
        self.names.leave();
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.mac.path.is_ident("macro_rules") && !is_left_out(&item.attrs) {
            for nested in macros::bodies(&item.mac.tokens) {
                self.nested(nested);
            }
        }
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        if let Some(nested) = macros::arguments(of) {
            self.nested(nested);
        }
    }

    // Known when the source is compiled.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

//! What people get wrong more often than an operator: another name, a part or a statement left out or in
//! another place, a number that becomes too short, a loop that ends early.

use syn::spanned::Spanned;
use syn::{BinOp, Block, Expr, ExprCast, Lit, Stmt};

use super::changes::{callee, has_let};
use super::kinds::{Kind, is_store, is_synchronisation, other_axes};
use super::sites::Visitor;

/// The integer type of half the width.
fn shorter(of: &str) -> Option<&'static str> {
    match of {
        "u64" | "usize" => Some("u32"),
        "i64" | "isize" => Some("i32"),
        _ => None,
    }
}

fn is_one(of: &Expr) -> bool {
    matches!(of, Expr::Lit(of) if matches!(&of.lit, Lit::Int(number) if number.base10_digits() == "1"))
}

/// The variable or field that a place is, or is an element of: `a.b` of `a.b[i]`.
fn variable_of(place: &Expr) -> Option<&Expr> {
    match place {
        Expr::Path(_) | Expr::Field(_) => Some(place),
        Expr::Index(of) => variable_of(&of.expr),
        Expr::Unary(of) => variable_of(&of.expr),
        Expr::Paren(of) => variable_of(&of.expr),
        _ => None,
    }
}

/// What a statement assigns to.
fn assigned(statement: &Stmt) -> Option<&Expr> {
    match statement {
        Stmt::Expr(Expr::Assign(of), Some(_)) => Some(&of.left),
        Stmt::Expr(Expr::Binary(of), Some(_)) if is_assignment(of.op) => Some(&of.left),
        _ => None,
    }
}

fn is_assignment(operator: BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
        ShlAssign, ShrAssign, SubAssign,
    };
    matches!(
        operator,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | BitXorAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// Whether a text has this name, or this field, and not as a part of another.
fn has(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

fn synchronises(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Expr(of, Some(_)) if callee(of).is_some_and(|path| is_synchronisation(&path)))
}

impl Visitor<'_> {
    /// A name for another one of its type.
    pub(super) fn variable(&mut self, expression: &Expr, name: &str) {
        for other in self.names.neighbours(name) {
            if !other_axes(name).contains(&other) {
                self.add(Kind::Variable, expression, other);
            }
        }
    }

    /// The same of a field.
    pub(super) fn other_field(&mut self, expression: &Expr, base: &Expr, name: &str) {
        let base = self.text(base).to_owned();
        let plain: String = base.split_whitespace().collect();
        for other in self.names.neighbouring_fields(self.types, &plain, name) {
            if !other_axes(name).contains(&other) {
                self.add(Kind::Variable, expression, format!("{base}.{other}"));
            }
        }
    }

    /// A sum, product or condition without one of its parts, and a sum that keeps its last term alone.
    pub(super) fn part_left_out(
        &mut self,
        expression: &Expr,
        left: &Expr,
        operator: BinOp,
        right: &Expr,
    ) {
        use BinOp::{Add, And, BitAnd, BitOr, BitXor, Div, Mul, Or, Rem, Shl, Shr, Sub};
        let [l, r] = [left, right].map(|side| self.text(side).to_owned());
        match operator {
            // One less, and no factor: constants' mutants.
            Add(_) | Sub(_) | Mul(_) if is_one(right) => {}
            Add(_) | Mul(_) | BitAnd(_) | BitOr(_) | BitXor(_) => {
                self.add(Kind::Term, expression, format!("({l})"));
                self.add(Kind::Term, expression, format!("({r})"));
            }
            And(_) | Or(_) if !has_let(expression) => {
                self.add(Kind::Term, expression, format!("({l})"));
                self.add(Kind::Term, expression, format!("({r})"));
            }
            Sub(_) | Div(_) | Rem(_) | Shl(_) | Shr(_) => {
                self.add(Kind::Term, expression, format!("({l})"));
            }
            _ if is_assignment(operator) => {
                self.add(Kind::Term, expression, format!("{l} = {r}"));
            }
            _ => {}
        }
    }

    /// The same of functions that compute such: `arguments` with what the method is called on.
    pub(super) fn argument_left_out(
        &mut self,
        expression: &Expr,
        name: &str,
        arguments: &[String],
    ) {
        match (name, arguments) {
            ("fma", [a, b, c]) => {
                self.add(Kind::Term, expression, format!("({a}) * ({b})"));
                self.add(Kind::Term, expression, format!("({c})"));
            }
            ("min_nan" | "max_nan" | "larger" | "smaller", [a, b]) => {
                self.add(Kind::Term, expression, format!("({a})"));
                self.add(Kind::Term, expression, format!("({b})"));
            }
            (name, [a, _]) if name.starts_with("wrapping_") || name.starts_with("saturating_") => {
                self.add(Kind::Term, expression, format!("({a})"));
            }
            _ => {}
        }
    }

    /// A number that goes through a shorter type, or is multiplied before it becomes longer.
    pub(super) fn conversion(&mut self, expression: &Expr, cast: &ExprCast) {
        let [value, to] = [
            self.text(&cast.expr).to_owned(),
            self.text(&cast.ty).to_owned(),
        ];
        let from = self.names.type_of(self.types, &cast.expr);
        if let Some(shorter) = shorter(&to)
            && from.as_deref() != Some(shorter)
            && !matches!(&*cast.expr, Expr::Lit(_))
        {
            let replacement = format!("({value}) as {shorter} as {to}");
            self.add(Kind::Conversion, expression, replacement);
        }
    }

    pub(super) fn late_conversion(
        &mut self,
        expression: &Expr,
        left: &Expr,
        operator: BinOp,
        right: &Expr,
    ) {
        let (Expr::Cast(left), BinOp::Mul(_)) = (left, operator) else {
            return;
        };
        let right = match right {
            Expr::Cast(right) if self.text(&right.ty) == self.text(&left.ty) => &right.expr,
            _ => return,
        };
        let [a, b, to] = [self.text(&left.expr), self.text(right), self.text(&left.ty)];
        let replacement = format!("({a}).wrapping_mul({b}) as {to}");
        self.add(Kind::Conversion, expression, replacement);
    }

    /// Statements left out that nothing else leaves out.
    pub(super) fn statement_left_out(&mut self, statement: &Stmt) {
        let Stmt::Expr(expression, end) = statement else {
            return;
        };
        let is_left_out = match expression {
            Expr::Binary(of) => is_assignment(of.op),
            Expr::Call(_) | Expr::MethodCall(_) => callee(expression).is_some_and(|path| {
                !is_synchronisation(&path) && !is_store(path.rsplit("::").next().unwrap_or(&path))
            }),
            Expr::Break(_) | Expr::Continue(_) => true,
            Expr::If(of) => of.else_branch.is_none(),
            _ => false,
        };
        if is_left_out && (end.is_some() || matches!(expression, Expr::If(_))) {
            self.add_at(Kind::Statement, statement.span(), String::new(), true);
        }
    }

    /// Neighbours exchanged of which the one assigns what the other has, or waits for others. Each statement
    /// is in one pair at most, so that none overlaps another.
    pub(super) fn exchanged_statements(&mut self, statements: &[Stmt]) {
        let mut at = 0;
        while let [first, second, ..] = &statements[at..] {
            let [a, b] = [first, second].map(|statement| self.text(statement).to_owned());
            let is_plain = |of: &Stmt| matches!(of, Stmt::Expr(_, Some(_)));
            let depends = |on: &Stmt, text: &str| {
                let variable = assigned(on).and_then(variable_of);
                variable.is_some_and(|name| has(text, self.text(name))) || synchronises(on)
            };
            let is_loop_end = matches!(
                second,
                Stmt::Expr(Expr::Break(_) | Expr::Continue(_) | Expr::Return(_), _)
            );
            at += 1;
            if is_plain(first)
                && is_plain(second)
                && !is_loop_end
                && a != b
                && (depends(first, &b) || depends(second, &a))
            {
                let range = first.span().byte_range().start..second.span().byte_range().end;
                let line = first.span().start().line;
                self.add_range(Kind::Order, range, line, format!("{b} {a}"), true);
                at += 1;
            }
        }
    }

    /// A loop that ends behind its first round.
    pub(super) fn one_round(&mut self, body: &Block) {
        let end = body.brace_token.span.close();
        let at = end.byte_range().start;
        self.add_range(Kind::Loop, at..at, end.start().line, "break;".into(), true);
    }
}

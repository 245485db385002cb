//! What an expression or a statement is changed to.

use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprMethodCall, Lit, Stmt};

use super::kinds::{
    Kind, commutes, is_store, is_synchronisation, other_axes, other_function, other_operator,
    takes_index,
};
use super::sites::Visitor;

pub(super) fn is_named_constant(name: &str) -> bool {
    name.len() > 1
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The path or name that a call goes to.
pub(super) fn callee(call: &Expr) -> Option<String> {
    match call {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                let names = path
                    .path
                    .segments
                    .iter()
                    .map(|segment| segment.ident.to_string());
                Some(names.collect::<Vec<_>>().join("::"))
            }
            _ => None,
        },
        Expr::MethodCall(call) => Some(call.method.to_string()),
        _ => None,
    }
}

pub(super) fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

impl Visitor<'_> {
    pub(super) fn one_more_and_less(&mut self, kind: Kind, of: &Expr) {
        let text = self.text(of).to_owned();
        self.add(kind, of, format!("({text}) + 1"));
        self.add(kind, of, format!("({text}) - 1"));
    }

    pub(super) fn binary(&mut self, expression: &Expr, left: &Expr, operator: BinOp, right: &Expr) {
        let name = self.text(&operator).to_owned();
        let [l, r] = [left, right].map(|side| self.text(side).to_owned());
        if let Some((kind, other)) = other_operator(&name) {
            // What is assigned to stays a place.
            let l = if other.ends_with('=') && name.len() == 2 && kind == Kind::Arithmetic {
                l.clone()
            } else {
                format!("({l})")
            };
            self.add(kind, expression, format!("{l} {other} ({r})"));
        }
        self.part_left_out(expression, left, operator, right);
        self.late_conversion(expression, left, operator, right);
        match operator {
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                self.one_more_and_less(Kind::Bound, right);
            }
            BinOp::BitXor(_) if r == "1" => self.add(Kind::Parity, expression, format!("({l})")),
            BinOp::Div(_) => self.add(Kind::Rounding, expression, format!("({l}).div_ceil({r})")),
            _ => {}
        }
    }

    pub(super) fn method(&mut self, expression: &Expr, call: &ExprMethodCall) {
        let name = call.method.to_string();
        let receiver = self.text(&call.receiver).to_owned();
        let arguments = self.texts(&call.args);
        let all = arguments.join(", ");
        if let Some((kind, other)) = other_function(&name) {
            self.add(kind, expression, format!("{receiver}.{other}({all})"));
        }
        match (name.as_str(), arguments.as_slice()) {
            ("min" | "max", [_]) => self.add(Kind::Bound, expression, receiver.clone()),
            ("div_ceil", [by]) => {
                self.add(Kind::Rounding, expression, format!("({receiver}) / ({by})"))
            }
            ("next_multiple_of", [_]) => self.add(Kind::Rounding, expression, receiver.clone()),
            ("is_nan", []) => self.add(Kind::Nan, expression, "false".into()),
            ("is_finite", []) => self.add(Kind::Nan, expression, "true".into()),
            ("is_multiple_of", [_]) => {
                let text = self.text(expression).to_owned();
                self.add(Kind::Condition, expression, format!("!{text}"));
            }
            _ => {}
        }
        let with_receiver = [std::slice::from_ref(&receiver), &arguments].concat();
        self.argument_left_out(expression, &name, &with_receiver);
        if takes_index(&name)
            && let Some(first) = call.args.first()
        {
            let text = self.text(first).to_owned();
            self.add(Kind::Index, first, format!("({text}) + 1"));
        }
        if is_synchronisation(&name)
            && let Some(generics) = &call.turbofish
            && let Ok(left) = self.text(&generics.args).parse::<u32>()
        {
            let replacement = format!("{receiver}.{name}::<{}>({all})", left + 1);
            self.add(Kind::Wait, expression, replacement);
        }
        self.exchanged(&name, call.args.iter().collect());
    }

    pub(super) fn call(&mut self, expression: &Expr, call: &syn::ExprCall) {
        let Some(path) = callee(expression) else {
            return;
        };
        let name = path.rsplit("::").next().unwrap_or(&path).to_owned();
        let function = self.text(&call.func).to_owned();
        let arguments = self.texts(&call.args);
        let all = arguments.join(", ");
        let renamed = |to: &str| {
            function
                .strip_suffix(&name)
                .map(|path| format!("{path}{to}({all})"))
        };
        if let Some((kind, other)) = other_function(&name)
            && let Some(other) = renamed(other)
        {
            self.add(kind, expression, other);
        }
        if let "max_nan" | "min_nan" = name.as_str()
            && let Some(other) = renamed(&name[..3])
        {
            self.add(Kind::Nan, expression, other);
        }
        self.argument_left_out(expression, &name, &arguments);
        if let ("fma", [a, b, c]) = (name.as_str(), arguments.as_slice()) {
            self.add(Kind::Rounding, expression, format!("({a}) * ({b}) + ({c})"));
            self.add(
                Kind::Arithmetic,
                expression,
                format!("({c}) - ({a}) * ({b})"),
            );
        }
        self.exchanged(&name, call.args.iter().collect());
    }

    /// Exchanges neighbours among plain arguments; the compiler refuses those of other types.
    fn exchanged(&mut self, name: &str, arguments: Vec<&Expr>) {
        let is_plain = |of: &Expr| matches!(of, Expr::Path(_) | Expr::Field(_));
        for pair in arguments.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|of| self.text(of).to_owned());
            if is_plain(pair[0]) && is_plain(pair[1]) && a != b && !commutes(name) {
                let span = pair[0]
                    .span()
                    .join(pair[1].span())
                    .unwrap_or_else(|| pair[0].span());
                let between = &self.source
                    [pair[0].span().byte_range().end..pair[1].span().byte_range().start];
                let replacement = format!("{b}{between}{a}");
                self.add_at(Kind::Argument, span, replacement, false);
            }
        }
    }

    pub(super) fn literal(&mut self, expression: &Expr, literal: &Lit) {
        let text = self.text(expression).to_owned();
        match literal {
            Lit::Int(number) => {
                self.add(Kind::Constant, expression, format!("({text} + 1)"));
                if number.base10_digits() != "0" {
                    self.add(Kind::Constant, expression, format!("({text} - 1)"));
                }
            }
            Lit::Float(_) => self.add(Kind::Constant, expression, format!("({text} + 1.0)")),
            Lit::Bool(value) => self.add(Kind::Constant, expression, (!value.value).to_string()),
            _ => {}
        }
    }

    pub(super) fn field(&mut self, expression: &Expr, base: &Expr, name: &str) {
        let base = self.text(base).to_owned();
        for other in other_axes(name) {
            self.add(Kind::Axis, expression, format!("{base}.{other}"));
        }
        if name == "parity" {
            self.add(Kind::Parity, expression, format!("({base}.{name} ^ 1)"));
        }
    }

    pub(super) fn statement(&mut self, statement: &Stmt) {
        self.statement_left_out(statement);
        let Stmt::Expr(expression, Some(_)) = statement else {
            return;
        };
        let kind = match expression {
            Expr::Assign(_) => Kind::Reset,
            Expr::Call(_) | Expr::MethodCall(_) => match callee(expression) {
                Some(path) if is_synchronisation(&path) => Kind::Synchronisation,
                Some(path) if is_store(path.rsplit("::").next().unwrap_or(&path)) => Kind::Store,
                _ => return,
            },
            _ => return,
        };
        self.add_at(kind, statement.span(), String::new(), true);
    }

    pub(super) fn condition(&mut self, condition: &Expr) {
        if !has_let(condition) {
            let text = self.text(condition).to_owned();
            self.add(Kind::Condition, condition, format!("!({text})"));
        }
    }
}

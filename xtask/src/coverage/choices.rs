//! Branches of the kernels on constants of an instance, such as `if F::SCALED {`. An instance always takes
//! the same branch and contains no code of the others.
//!
//! The branches are found in the source's tokens. Constant expressions consist of generic parameters and
//! their constants, literals, and the variables of unrolled loops (`unroll!`), which take all of their
//! values. If one of two branches runs, the other one is excluded. A branch without an alternative is
//! excluded if its condition was evaluated and the branch did not run.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

/// A line and a column, both counted from 1.
pub(super) type Position = (u64, u64);

/// A choice between arms.
#[derive(Debug, PartialEq)]
pub(super) struct Choice {
    /// The range of the condition; empty if another condition precedes it.
    asked: Range<Position>,
    arms: Vec<Range<Position>>,
}

impl Choice {
    /// Whether the region that begins at `start` is excluded from an instance that reached the regions at
    /// `reached`.
    pub(super) fn excludes(&self, start: Position, reached: &BTreeSet<Position>) -> bool {
        let runs = |part: &Range<Position>| reached.range(part.clone()).next().is_some();
        let mine = self.arms.iter().find(|arm| arm.contains(&start));
        mine.is_some_and(|mine| {
            let mut others = self.arms.iter().filter(|arm| *arm != mine);
            !runs(mine) && (runs(&self.asked) || others.any(runs))
        })
    }
}

/// Finds the choices in a source.
pub(super) fn choices(source: &str) -> Result<Vec<Choice>> {
    let source: TokenStream = source.parse().map_err(|error| anyhow!("{error}"))?;
    let mut choices = Vec::new();
    collect(source, (u64::MAX, 0), &[], &mut choices);
    Ok(choices)
}

/// A token and its position. The text of a group is its opening bracket.
struct Token {
    text: String,
    at: Position,
    group: Option<Group>,
}

fn position(span: Span) -> Position {
    (span.start().line as u64, span.start().column as u64 + 1)
}

/// The tokens of a block without those of nested groups. Punctuation of `PAIRS` is one token.
fn tokens(stream: TokenStream) -> Vec<Token> {
    const PAIRS: [&str; 9] = ["&&", "||", "::", "=>", "==", "!=", "<=", ">=", "->"];
    let mut tokens: Vec<Token> = Vec::new();
    let mut is_joint = false;
    for tree in stream {
        let joins = matches!(&tree, TokenTree::Punct(mark) if mark.spacing() == Spacing::Joint);
        let at = position(tree.span());
        let (text, group) = match tree {
            TokenTree::Group(group) => match group.delimiter() {
                Delimiter::Brace => ("{".into(), Some(group)),
                _ => ("(".into(), Some(group)),
            },
            // A literal is not a name.
            TokenTree::Literal(_) => ("0".into(), None),
            other => (other.to_string(), None),
        };
        let last = tokens
            .last_mut()
            .filter(|last| is_joint && PAIRS.contains(&(last.text.clone() + &text).as_str()));
        match last {
            Some(last) => last.text += &text,
            None => tokens.push(Token { text, at, group }),
        }
        is_joint = joins;
    }
    tokens
}

/// Collects the choices of a block that ends at `end`, including nested blocks. `loops` are the variables of
/// the enclosing unrolled loops.
fn collect(block: TokenStream, end: Position, loops: &[String], choices: &mut Vec<Choice>) {
    let tokens = tokens(block);
    for (at, token) in tokens.iter().enumerate() {
        choices.extend(match token.text.as_str() {
            "if" => of_if(&tokens, at, end, loops),
            "match" => of_match(&tokens, at, loops),
            "&&" | "||" => of_operator(&tokens, at, loops),
            _ => None,
        });
        if let Some(group) = &token.group {
            let mut loops = loops.to_vec();
            if at > 1 && tokens[at - 2].text == "unroll" {
                let parts = self::tokens(group.stream());
                let variable = parts.windows(2).nth(2).filter(|pair| pair[0].text == "|");
                loops.extend(variable.map(|pair| pair[1].text.clone()));
            }
            collect(
                group.stream(),
                position(group.span_close()),
                &loops,
                choices,
            );
        }
    }
}

/// Whether an expression is constant in an instance.
fn is_constant(tokens: &[Token], loops: &[String]) -> bool {
    let mut before = "";
    // `Some(x)`, blocks and closures are not constant.
    !tokens.is_empty()
        && tokens.iter().all(|Token { text, group, .. }| {
            let is_name = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
            let is_member = before == "." || before == "::";
            let is_parameter = text.chars().all(|c| !c.is_lowercase());
            let is_other = ["as", "u32", "usize", "Self", "cfg", "hopper"].contains(&text.as_str());
            let is_known =
                !is_name || is_member || is_parameter || is_other || loops.contains(text);
            let inside = group.as_ref().map(|group| self::tokens(group.stream()));
            before = text;
            is_known
                && !["{", "|", ";", "="].contains(&before)
                && inside.is_none_or(|inside| inside.is_empty() || is_constant(&inside, loops))
        })
}

/// The first block from `at` on: its index, its start and end, and its tokens.
fn block(tokens: &[Token], at: usize) -> Option<(usize, Range<Position>, Vec<Token>)> {
    let found = tokens.iter().skip(at).position(|token| token.text == "{")? + at;
    let group = tokens[found].group.as_ref()?;
    let places = position(group.span_open())..position(group.span_close());
    Some((found, places, self::tokens(group.stream())))
}

/// The position after a bracket.
fn behind((line, column): Position) -> Position {
    (line, column + 1)
}

fn of_if(tokens: &[Token], at: usize, end: Position, loops: &[String]) -> Option<Choice> {
    let (mut last, then, inside) = block(tokens, at + 1)?;
    if !is_constant(&tokens[at + 1..last], loops) {
        return None;
    }
    let asked = tokens[at].at..then.start;
    // Without an `else`, the end of the block is a region of its own, which runs if the block does not.
    let mut other = then.end..behind(then.end);
    if is_else(tokens, last) {
        other.start = tokens[last + 1].at;
        while is_else(tokens, last) {
            let (next, places, _) = block(tokens, last + 2)?;
            (last, other.end) = (next, behind(places.end));
        }
    } else if returns(&inside) {
        // The rest of the enclosing block without its end, where functions return.
        other.end = end;
    }
    Some(Choice {
        asked,
        arms: vec![then, other],
    })
}

fn is_else(tokens: &[Token], block: usize) -> bool {
    tokens
        .get(block + 1)
        .is_some_and(|token| token.text == "else")
}

/// Whether a block ends with a `return`.
fn returns(block: &[Token]) -> bool {
    let Some((semicolon, statements)) = block.split_last() else {
        return false;
    };
    let is_end = |token: &Token| [";", "{"].contains(&token.text.as_str());
    let last = statements.iter().rposition(is_end).map_or(0, |end| end + 1);
    semicolon.text == ";"
        && statements
            .get(last)
            .is_some_and(|token| token.text == "return")
}

fn of_match(tokens: &[Token], at: usize, loops: &[String]) -> Option<Choice> {
    let (open, places, inside) = block(tokens, at + 1)?;
    if !is_constant(&tokens[at + 1..open], loops) {
        return None;
    }
    let arrows = inside.iter().filter(|token| token.text == "=>");
    let starts: Vec<Position> = arrows.map(|arrow| arrow.at).collect();
    let ends = starts.iter().skip(1).copied().chain([places.end]);
    Some(Choice {
        asked: tokens[at].at..places.start,
        arms: starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| start..end)
            .collect(),
    })
}

/// The operand after `CONSTANT &&` or `CONSTANT ||`; in the condition of an `if`, with the block.
fn of_operator(tokens: &[Token], at: usize, loops: &[String]) -> Option<Choice> {
    const BEFORE: [&str; 8] = ["if", "while", "{", ";", ",", "=", "return", "=>"];
    let is_before = |token: &Token| BEFORE.contains(&token.text.as_str());
    let first = tokens[..at]
        .iter()
        .rposition(is_before)
        .map_or(0, |before| before + 1);
    let operands = &tokens[first..at];
    let operator = &tokens[at].text;
    // Only the first operands of several are considered.
    let is_other =
        |token: &Token| ["&&", "||"].contains(&token.text.as_str()) && token.text != *operator;
    if operands.iter().any(is_other) || !is_constant(operands, loops) {
        return None;
    }
    let next = tokens.get(at + 1)?.at;
    let end = tokens[at + 1..]
        .iter()
        .find(|token| ["{", ";", ","].contains(&token.text.as_str()));
    let mut arm = next..end.map_or(behind(next), |end| end.at);
    if let Some(Token {
        text,
        group: Some(then),
        ..
    }) = end
    {
        let is_condition = first > 0 && tokens[first - 1].text == "if";
        if text == "{" && operator == "&&" && is_condition {
            arm.end = position(then.span_close());
        }
    }
    Some(Choice {
        asked: tokens[first].at..next,
        arms: vec![arm],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of a text.
    fn place(source: &str, text: &str) -> Position {
        let before = &source[..source.find(text).unwrap()];
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() as u64 + 1, column as u64 + 1)
    }

    /// The regions at `asked` that are excluded from an instance which reached the regions at `reached`.
    fn excluded<'a>(source: &str, reached: &[&str], asked: &[&'a str]) -> Vec<&'a str> {
        let reached = reached.iter().map(|text| place(source, text)).collect();
        let choices = choices(source).unwrap();
        let is = |text: &&&str| {
            choices
                .iter()
                .any(|one| one.excludes(place(source, text), &reached))
        };
        asked.iter().filter(is).copied().collect()
    }

    #[test]
    fn the_branch_that_constants_do_not_take_is_excluded() {
        let source = "fn f() {\n if F::SCALED { one() } else { two() }\n if x { three() } }\n";
        let all = ["one", "two", "three"];
        assert_eq!(excluded(source, &["one"], &all), ["two"]);
        assert_eq!(excluded(source, &["two"], &all), ["one"]);
        // If neither branch ran, nothing is known.
        assert!(excluded(source, &[], &all).is_empty());
        assert!(excluded(source, &["one", "two"], &all).is_empty());
    }

    #[test]
    fn a_branch_without_another_is_excluded_where_it_was_asked_for() {
        let source = "if S::TILE.has_store_epilogue(F::OPERANDS) && alone { one() }\nif F::PARTS > 1 { two() }";
        assert_eq!(
            excluded(source, &["S::TILE"], &["alone", "one", "two"]),
            ["alone", "one"]
        );
        assert!(excluded(source, &["S::TILE", "alone"], &["one"]).is_empty());
        assert_eq!(excluded(source, &["F::PARTS"], &["one", "two"]), ["two"]);
        let source = "let a = \"{\" != 'x' && (F::PARTS > 1 || alone);";
        assert_eq!(excluded(source, &["F::PARTS"], &["alone"]), ["alone"]);
    }

    #[test]
    fn what_follows_a_return_is_the_other_branch() {
        let all = ["one", "two", "three", "four"];
        let source = "fn f() { if I.is_multiple_of(2) { one(); return; } two(); if x { three() } } fn g() { four() }";
        assert_eq!(excluded(source, &["one"], &all), ["two", "three"]);
        assert_eq!(excluded(source, &["two"], &all), ["one"]);
        let source = "{ if I > 2 { one(); } two(); }";
        assert!(excluded(source, &["one"], &["two"]).is_empty());
    }

    #[test]
    fn what_is_known_at_run_time_alone_excludes_nothing() {
        for condition in [
            "g.alone != 0",
            "x && F::SCALED",
            "let Some(A) = b",
            "F::of(g) > 1",
            "i < F::N",
        ] {
            let source = format!("if {condition} {{ one() }} else {{ two() }}");
            assert!(
                excluded(&source, &["one"], &["two"]).is_empty(),
                "{condition}"
            );
        }
    }

    #[test]
    fn loops_that_are_written_out_and_matches_are_decided_by_constants() {
        let source = "unroll!(4, |i| { if i < S::ROWS { one() } });\nmatch TOGETHER { 4 => four(), 2 => two(), _ => { other() } }";
        assert_eq!(excluded(source, &["if i"], &["one"]), ["one"]);
        assert_eq!(
            excluded(source, &["two"], &["four", "two", "other"]),
            ["four", "other"]
        );
    }
}

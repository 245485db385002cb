//! Branches of the kernels that an instance's constants decide, as `if F::SCALED {`: which of them an
//! instance takes is always the same, and the others are no code of it.
//!
//! They are found in the source's text. Constant is what is made of generic parameters, their constants,
//! literals, and the variables of loops that are written out (`unroll!`), which take all of their values.
//! That one of two branches runs proves that the other one cannot; where a branch has no other, that its
//! condition was asked does.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::source::{Token, matching, tokens};

/// A line and a column, from 1 on.
pub(super) type Position = (u64, u64);

/// A choice between arms.
#[derive(Debug, PartialEq)]
pub(super) struct Choice {
    /// Where it is asked; empty where something in front is asked as well.
    asked: RangeInclusive<Position>,
    arms: Vec<RangeInclusive<Position>>,
}

impl Choice {
    /// Whether an instance that reached the regions which begin at `reached` cannot have those that begin at
    /// `start`.
    pub(super) fn excludes(&self, start: Position, reached: &BTreeSet<Position>) -> bool {
        let runs = |part: &RangeInclusive<Position>| reached.range(part.clone()).next().is_some();
        let mine = self.arms.iter().find(|arm| arm.contains(&start));
        mine.is_some_and(|mine| {
            let others = self.arms.iter().filter(|arm| *arm != mine);
            !runs(mine) && (runs(&self.asked) || others.into_iter().any(runs))
        })
    }
}

/// The choices in a source.
pub(super) fn choices(source: &str) -> Vec<Choice> {
    let tokens = tokens(source);
    let loops: BTreeSet<&str> = (tokens.windows(2))
        .enumerate()
        .filter(|(at, pair)| pair[0].text == "|" && is_unrolled(&tokens[..*at]))
        .map(|(_, pair)| pair[1].text)
        .collect();
    let mut choices = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let found = match token.text {
            "if" => of_if(&tokens, at, &loops),
            "match" => of_match(&tokens, at, &loops),
            "&&" | "||" => of_operator(&tokens, at, &loops),
            _ => None,
        };
        choices.extend(found);
    }
    choices
}

/// Whether these end with `unroll!(N,`.
fn is_unrolled(tokens: &[Token<'_>]) -> bool {
    let end = tokens
        .len()
        .checked_sub(5)
        .map_or(tokens, |from| &tokens[from..]);
    matches!(end, [name, not, open, _, comma]
        if [name.text, not.text, open.text, comma.text] == ["unroll", "!", "(", ","])
}

/// Whether an expression is constant in an instance.
fn is_constant(tokens: &[Token<'_>], loops: &BTreeSet<&str>) -> bool {
    let mut before = "";
    let all = tokens.iter().all(|token| {
        let text = token.text;
        let is_name = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_member = before == "." || before == "::";
        let is_parameter = text.chars().all(|c| !c.is_lowercase());
        let is_other = ["as", "u32", "usize", "Self", "cfg", "hopper"].contains(&text);
        before = text;
        !is_name || is_member || is_parameter || is_other || loops.contains(text)
    });
    // `Some(x)`, blocks and closures are more than that.
    !tokens.is_empty()
        && all
        && tokens
            .iter()
            .all(|token| !["{", "|", ";", "="].contains(&token.text))
}

/// The index of the first of `ends` from `at` on, outside of brackets that open after it.
fn until(tokens: &[Token<'_>], at: usize, ends: &[&str]) -> Option<usize> {
    let mut index = at;
    while let Some(token) = tokens.get(index) {
        if ends.contains(&token.text) {
            return Some(index);
        }
        index = match token.text {
            "(" | "[" | "{" => matching(tokens, index)? + 1,
            ")" | "]" | "}" => return None,
            _ => index + 1,
        };
    }
    None
}

fn between(tokens: &[Token<'_>], first: usize, last: usize) -> RangeInclusive<Position> {
    tokens[first].at..=tokens[last].at
}

fn of_if(tokens: &[Token<'_>], at: usize, loops: &BTreeSet<&str>) -> Option<Choice> {
    let open = until(tokens, at + 1, &["{"])?;
    let close = matching(tokens, open)?;
    if !is_constant(&tokens[at + 1..open], loops) {
        return None;
    }
    // The end of a block is a region of its own where there is no other: what runs if the block does not.
    let mut arms = vec![
        between(tokens, open, close - 1),
        between(tokens, close, close),
    ];
    let is_else = |end: usize| {
        tokens
            .get(end + 1)
            .is_some_and(|token| token.text == "else")
    };
    if is_else(close) {
        let mut end = close;
        while is_else(end) {
            end = matching(tokens, until(tokens, end + 2, &["{"])?)?;
        }
        arms[1] = between(tokens, close + 1, end);
    } else if returns(&tokens[open + 1..close]) {
        // All that follows in the block around, but for its end, where functions return.
        arms[1] = between(tokens, close, end_of_block(tokens, close + 1) - 1);
    }
    let asked = between(tokens, at, open - 1);
    Some(Choice { asked, arms })
}

/// The index of the bracket that closes the block which the token at `at` is in.
fn end_of_block(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len() - 1
}

/// Whether a block ends by leaving the function.
fn returns(block: &[Token<'_>]) -> bool {
    let Some((semicolon, statements)) = block.split_last() else {
        return false;
    };
    let is_end = |token: &Token<'_>| [";", "{", "}"].contains(&token.text);
    let last = statements.iter().rposition(is_end).map_or(0, |end| end + 1);
    semicolon.text == ";" && (statements.get(last)).is_some_and(|token| token.text == "return")
}

fn of_match(tokens: &[Token<'_>], at: usize, loops: &BTreeSet<&str>) -> Option<Choice> {
    let open = until(tokens, at + 1, &["{"])?;
    let close = matching(tokens, open)?;
    if !is_constant(&tokens[at + 1..open], loops) {
        return None;
    }
    let mut starts = Vec::new();
    let mut next = open + 1;
    while let Some(arrow) = until(&tokens[..close], next, &["=>"]) {
        starts.push(arrow);
        next = arrow + 1;
    }
    let ends = starts
        .iter()
        .skip(1)
        .map(|&arrow| arrow - 1)
        .chain([close - 1]);
    let arms = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| between(tokens, start, end));
    Some(Choice {
        asked: between(tokens, at, open - 1),
        arms: arms.collect(),
    })
}

/// What stands behind `CONSTANT &&` or `CONSTANT ||`, and, in the condition of an `if`, its block.
fn of_operator(tokens: &[Token<'_>], at: usize, loops: &BTreeSet<&str>) -> Option<Choice> {
    const BEFORE: [&str; 10] = ["if", "while", "{", "}", ";", ",", "=", "return", "=>", "("];
    let mut first = at;
    let mut depth = 0usize;
    while let Some(token) = first.checked_sub(1).map(|before| tokens[before]) {
        match token.text {
            ")" | "]" => depth += 1,
            "(" | "[" if depth > 0 => depth -= 1,
            text if depth == 0 && BEFORE.contains(&text) => break,
            // Of several operands the first ones.
            "&&" | "||" if depth == 0 && token.text != tokens[at].text => return None,
            _ => {}
        }
        first -= 1;
    }
    if !is_constant(&tokens[first..at], loops) {
        return None;
    }
    let mut end = until(tokens, at + 1, &["{", ";", ","]).unwrap_or(at + 2);
    let is_condition = first
        .checked_sub(1)
        .is_some_and(|before| tokens[before].text == "if");
    if is_condition && tokens[at].text == "&&" && tokens[end].text == "{" {
        end = matching(tokens, end)?;
    }
    Some(Choice {
        asked: between(tokens, first, at),
        arms: vec![between(tokens, at + 1, end - 1)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the regions begin that an instance cannot have, if it reached those at `reached`: by what stands
    /// there.
    fn excluded<'a>(source: &'a str, reached: &[&str], asked: &[&'a str]) -> Vec<&'a str> {
        let place = |text: &str| {
            let before = &source[..source.find(text).unwrap()];
            let line = before.lines().count().max(1) as u64;
            let column = before.rsplit('\n').next().unwrap().len() as u64 + 1;
            (
                if before.ends_with('\n') {
                    line + 1
                } else {
                    line
                },
                column,
            )
        };
        let reached: BTreeSet<Position> = reached.iter().map(|text| place(text)).collect();
        let choices = choices(source);
        let is = |text: &&&str| {
            choices
                .iter()
                .any(|one| one.excludes(place(text), &reached))
        };
        asked.iter().filter(is).copied().collect()
    }

    #[test]
    fn the_branch_that_constants_do_not_take_is_excluded() {
        let source = "fn f() {\n if F::SCALED { one() } else { two() }\n if x { three() } }\n";
        let all = ["one", "two", "three"];
        assert_eq!(excluded(source, &["one"], &all), ["two"]);
        assert_eq!(excluded(source, &["two"], &all), ["one"]);
        // If neither runs, nothing is known.
        assert!(excluded(source, &[], &all).is_empty());
        assert!(excluded(source, &["one", "two"], &all).is_empty());
    }

    #[test]
    fn a_branch_without_another_is_excluded_where_it_was_asked_for() {
        let source = "if S::TILE.ends(F::OPERANDS) && alone { one() }\nif F::PARTS > 1 { two() }";
        assert_eq!(
            excluded(source, &["S::TILE"], &["alone", "one", "two"]),
            ["alone", "one"]
        );
        assert!(excluded(source, &["S::TILE", "alone"], &["one"]).is_empty());
        assert_eq!(excluded(source, &["F::PARTS"], &["one", "two"]), ["two"]);
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

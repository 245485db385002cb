//! The tokens of a Rust source, as far as they matter here.

use super::constants::Position;

/// A name, a number, or punctuation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Where it begins.
    pub(super) at: Position,
}

/// Punctuation of two characters that is one token.
const PAIRS: [&str; 9] = ["&&", "||", "::", "=>", "==", "!=", "<=", ">=", "->"];

/// The tokens of a source without comments and without what is quoted.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut line, mut start) = (1, 0);
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            character(rest)
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if PAIRS.iter().any(|pair| rest.starts_with(pair)) {
            2
        } else {
            first.len_utf8()
        };
        let text = &rest[..len];
        if !first.is_whitespace() && !text.starts_with("//") && !text.starts_with(['"', '\'']) {
            let at = (line, (at - start) as u64 + 1);
            tokens.push(Token { text, at });
        }
        for (index, _) in text.match_indices('\n') {
            line += 1;
            start = at + index + 1;
        }
        at += len;
    }
    tokens
}

/// The length of a string.
fn quoted(rest: &str) -> usize {
    let mut escaped = true;
    let end = rest.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |end| end + 1)
}

/// The length of a character, or of a lifetime or label.
fn character(rest: &str) -> usize {
    let mut inside = rest[1..].char_indices();
    match inside.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |end| end + 4),
        Some((_, one)) if rest[1 + one.len_utf8()..].starts_with('\'') => 2 + one.len_utf8(),
        _ => {
            1 + rest[1..]
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(0)
        }
    }
}

/// The index of the bracket that closes the one at `open`.
pub(super) fn matching(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_what_is_neither_comment_nor_quoted() {
        let source = "if a && 'x' != \"{\\\"\" { // {\n  'b: f::<'_>(1.0) }";
        let texts: Vec<&str> = tokens(source).iter().map(|token| token.text).collect();
        let wanted = [
            "if", "a", "&&", "!=", "{", ":", "f", "::", "<", ">", "(", "1", ".", "0", ")", "}",
        ];
        assert_eq!(texts, wanted);
        assert_eq!(tokens(source).last().unwrap().at, (2, 20));
    }

    #[test]
    fn brackets_close_in_pairs() {
        let tokens = tokens("( [ ] { ( ) } ) }");
        assert_eq!(matching(&tokens, 0), Some(7));
        assert_eq!(matching(&tokens, 3), Some(6));
        assert_eq!(matching(&tokens, 8), None);
    }
}

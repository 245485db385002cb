//! The file with the required coverage and the marks.
//!
//! The figures are the required percentages. A mark has the text of a source line, the reason why nothing
//! reaches it, and, for a mark of certain instances, a list of texts, one of which each instance's name
//! contains. A mark covers all lines with its text, the following lines with a larger indentation, and the
//! closing brace.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::regions::Region;

/// The file's contents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    /// Required percentage of regions, with all instances taken together.
    pub(super) together: f64,
    /// Required percentage of regions, with each instance taken separately.
    pub(super) apart: f64,
    #[serde(default)]
    unreachable: Vec<Mark>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) file: String,
    pub(super) line: String,
    /// Parts of instance names; empty for all instances.
    #[serde(default, rename = "in")]
    instances: Vec<String>,
    because: String,
    #[serde(skip)]
    lines: Vec<RangeInclusive<u64>>,
}

impl Figures {
    /// Parses the file, and finds its marks in the sources in `src`.
    pub(super) fn read(text: &str, src: &Path) -> Result<(Self, Vec<Mark>)> {
        let mut figures: Self = toml::from_str(text)?;
        let figure = 0.0..=100.0;
        ensure!(
            figure.contains(&figures.together) && figure.contains(&figures.apart),
            "no per cents"
        );
        let mut marks = std::mem::take(&mut figures.unreachable);
        for mark in &mut marks {
            let shown = format!("{}: {}", mark.file, mark.line);
            ensure!(
                !mark.because.is_empty(),
                "{shown}: a mark without its reason"
            );
            let source = fs::read_to_string(src.join(&mark.file)).context(shown.clone())?;
            mark.lines = blocks(&source, &mark.line);
            ensure!(
                !mark.lines.is_empty(),
                "{shown}: a mark of a line that its file does not have"
            );
        }
        Ok((figures, marks))
    }
}

impl Mark {
    /// Whether the mark covers this region of the instance with this readable name.
    pub(super) fn is_for(&self, region: &Region, instance: &str) -> bool {
        self.file == region.file
            && self
                .lines
                .iter()
                .any(|lines| lines.contains(&region.start.0))
            && (self.instances.is_empty() || self.instances.iter().any(|of| instance.contains(of)))
    }
}

/// The lines with this text, counted from 1, each with the following lines of larger indentation.
fn blocks(source: &str, text: &str) -> Vec<RangeInclusive<u64>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = source.lines().collect();
    let heads = (0..lines.len()).filter(|&index| lines[index].trim() == text);
    heads
        .map(|head| {
            // The parameters of a function may end with `)` on its own line, before the body.
            let is_inside = |line: &&&str| {
                let (text, here, of_head) = (line.trim(), indent(line), indent(lines[head]));
                text.is_empty() || here > of_head || here == of_head && text.starts_with(')')
            };
            let inside = lines[head + 1..].iter().take_while(is_inside).count();
            let last = head + 1 + inside;
            let closes = lines.get(last).is_some_and(|line| line.trim() == "}");
            head as u64 + 1..=(last + usize::from(closes)) as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "together = 99.5\napart = 99.0\n[[unreachable]]\nfile = 'a.rs'\nline = 'if x {'\nbecause = 'x is false'\n";

    #[test]
    fn lines_that_say_nothing_are_refused() {
        let src = tempfile::tempdir().unwrap();
        let read = |text: &str| Figures::read(text, src.path());
        assert!(read(FILE).is_err());
        fs::write(src.path().join("a.rs"), "if y {\n}\n").unwrap();
        assert!(read(FILE).is_err());
        fs::write(src.path().join("a.rs"), "if x {\n    a();\n}\n").unwrap();
        let (figures, marks) = read(FILE).unwrap();
        assert_eq!((figures.together, figures.apart), (99.5, 99.0));
        let region = |line| Region {
            file: "a.rs".into(),
            start: (line, 1),
            end: (line, 5),
        };
        assert!(marks[0].is_for(&region(3), "f") && !marks[0].is_for(&region(4), "f"));
        for (part, wrong) in [
            ("99.5", "101"),
            ("'x is false'", "''"),
            ("because", "why"),
            ("apart", "alone"),
        ] {
            assert!(read(&FILE.replace(part, wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mark_is_for_its_line_and_what_is_indented_below_it() {
        let source = "fn f() {\n    if x {\n        a();\n\n        b();\n    } else {\n        c();\n    }\n    if x {\n        d();\n    }\n}\n";
        assert_eq!(blocks(source, "if x {"), [2..=5, 9..=11]);
        assert!(blocks(source, "if y {").is_empty());
        let source = "fn f(\n    a: u32,\n) {\n    a();\n}\nfn g() {}\n";
        assert_eq!(blocks(source, "fn f("), [1..=5]);
    }
}

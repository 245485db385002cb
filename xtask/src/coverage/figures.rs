//! The file of figures and marks.
//!
//! Two lines are figures, per cents that must be reached: `together 99.0` and `apart 99.0`. A mark is three
//! lines, and a fourth if it is for some instances alone:
//!
//! ```text
//! unreachable parts/moments.rs
//!     if count == 0 {
//! in parts::moments::merge or parts::moments::and
//! because every part that is launched has elements
//! ```
//!
//! It stands for the line of that text, for those below it that are indented further, and for the brace that
//! closes them. Lines of `#` are comments.

use std::fs;
use std::path::Path;

use super::error::CoverageError;
use super::regions::Region;

/// The file's contents.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Of regions with all instances taken together, in per cent.
    pub(super) together: f64,
    /// Of regions for each instance.
    pub(super) apart: f64,
    entries: Vec<Entry>,
}

#[derive(Debug, Default, PartialEq)]
struct Entry {
    line: usize,
    file: String,
    text: String,
    instances: Vec<String>,
    reason: String,
}

/// A mark, by the lines that it is for.
pub(super) struct Mark {
    /// Where it stands in the file of figures.
    pub(super) line: usize,
    file: String,
    lines: Vec<std::ops::RangeInclusive<u64>>,
    /// What the names of its instances contain, one of these; of all instances if there are none.
    instances: Vec<String>,
}

impl Figures {
    /// Reads the file.
    pub(super) fn parse(text: &str) -> Result<Self, CoverageError> {
        let mut figures = Self::default();
        let mut open: Option<Entry> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let wrong = |what: &str| CoverageError::Figures {
                line: number,
                what: what.to_owned(),
            };
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (word, &mut open) {
                ("#", _) | ("", _) if !line.starts_with("  ") => {}
                ("together", None) => {
                    figures.together = per_cent(rest).ok_or_else(|| wrong("no per cent"))?
                }
                ("apart", None) => {
                    figures.apart = per_cent(rest).ok_or_else(|| wrong("no per cent"))?
                }
                ("unreachable", None) => {
                    open = Some(Entry {
                        line: number,
                        file: rest.to_owned(),
                        ..Entry::default()
                    });
                }
                ("", Some(entry)) if entry.text.is_empty() => {
                    line.trim().clone_into(&mut entry.text)
                }
                ("in", Some(entry)) => {
                    entry.instances = rest.split(" or ").map(str::to_owned).collect()
                }
                ("because", Some(_)) => {
                    let entry = open.take().map(|entry| Entry {
                        reason: rest.to_owned(),
                        ..entry
                    });
                    let entry =
                        entry.filter(|entry| !entry.text.is_empty() && !entry.reason.is_empty());
                    figures
                        .entries
                        .push(entry.ok_or_else(|| wrong("a mark without its line or its reason"))?);
                }
                _ => return Err(wrong("not a line that belongs here")),
            }
        }
        if let Some(Entry { line, .. }) = open {
            let what = "a mark without its reason".to_owned();
            return Err(CoverageError::Figures { line, what });
        }
        Ok(figures)
    }

    /// The marks, each on the lines of the sources in `src` that it is for.
    pub(super) fn marks(&self, src: &Path) -> Result<Vec<Mark>, CoverageError> {
        let marks = self.entries.iter().map(|entry| {
            let source = fs::read_to_string(src.join(&entry.file));
            let source = source.map_err(|error| CoverageError::Figures {
                line: entry.line,
                what: format!("{}: {error}", entry.file),
            })?;
            let lines = blocks(&source, &entry.text);
            if lines.is_empty() {
                let what = "is of a line that its file does not have";
                return Err(CoverageError::UselessMark {
                    line: entry.line,
                    what,
                });
            }
            Ok(Mark {
                line: entry.line,
                file: entry.file.clone(),
                lines,
                instances: entry.instances.clone(),
            })
        });
        marks.collect()
    }
}

impl Mark {
    /// Whether it is for this region of this instance, whose readable name is given.
    pub(super) fn is_for(&self, region: &Region, instance: &str) -> bool {
        self.file == region.file
            && self
                .lines
                .iter()
                .any(|lines| lines.contains(&region.start.0))
            && (self.instances.is_empty()
                || self
                    .instances
                    .iter()
                    .any(|of| instance.contains(of.as_str())))
    }
}

fn per_cent(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    (0.0..=100.0).contains(&value).then_some(value)
}

/// The lines with this text, from 1 on, each with those below it that are indented further.
fn blocks(source: &str, text: &str) -> Vec<std::ops::RangeInclusive<u64>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = source.lines().collect();
    let heads = (0..lines.len()).filter(|&index| lines[index].trim() == text);
    heads
        .map(|head| {
            // The parameters of a function may end on a line of their own, behind which its block begins.
            let is_inside = |line: &&&str| {
                let (text, inner) = (line.trim(), indent(line) > indent(lines[head]));
                text.is_empty()
                    || inner
                    || indent(line) == indent(lines[head]) && text.starts_with(')')
            };
            let inside = lines[head + 1..].iter().take_while(is_inside).count();
            let closes = lines
                .get(head + 1 + inside)
                .is_some_and(|line| line.trim() == "}");
            head as u64 + 1..=(head + 1 + inside + usize::from(closes)) as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Of problem 85.\ntogether 99.5\napart 99.0\n\nunreachable a.rs\n    if x {\nbecause x is false\n";

    #[test]
    fn figures_and_marks_are_read_with_their_lines() {
        let figures = Figures::parse(FILE).unwrap();
        assert_eq!((figures.together, figures.apart), (99.5, 99.0));
        let entry = Entry {
            line: 5,
            file: "a.rs".into(),
            text: "if x {".into(),
            instances: vec![],
            reason: "x is false".into(),
        };
        assert_eq!(figures.entries, [entry]);
    }

    #[test]
    fn lines_that_say_nothing_are_refused() {
        for text in [
            "together all\n",
            "together 101\n",
            "unreachable a.rs\n    if x {\n",
            "unreachable a.rs\nbecause\n",
            "unreachable a.rs\n    if x {\nbecause\n",
            "because of it\n",
            "    if x {\n",
        ] {
            assert!(Figures::parse(text).is_err(), "{text}");
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

    #[test]
    fn a_mark_on_a_line_that_is_gone_is_refused() {
        let src = tempfile::tempdir().unwrap();
        let figures = Figures::parse(FILE).unwrap();
        assert!(matches!(
            figures.marks(src.path()),
            Err(CoverageError::Figures { line: 5, .. })
        ));
        fs::write(src.path().join("a.rs"), "if y {\n}\n").unwrap();
        assert!(matches!(
            figures.marks(src.path()),
            Err(CoverageError::UselessMark { line: 5, .. })
        ));
        fs::write(src.path().join("a.rs"), "if x {\n    a();\n}\n").unwrap();
        let marks = figures.marks(src.path()).unwrap();
        let region = |line| Region {
            file: "a.rs".into(),
            start: (line, 1),
            end: (line, 5),
        };
        assert!(marks[0].is_for(&region(3), "f") && !marks[0].is_for(&region(4), "f"));
    }
}

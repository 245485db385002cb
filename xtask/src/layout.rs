//! `cargo xtask layout`: every operator has its homes, files stay short, so do lines of prose, and packages
//! that are published have what that takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::packages;

/// A kind of thing that has one file, or folder, of its name in each of these places.
struct Kind {
    name: &'static str,
    homes: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "operator",
        homes: &[
            "crates/op-spec/src",
            "kernels-gpu/src",
            "crates/oracle/src/operators",
            "host/src/operators",
        ],
    },
    Kind {
        name: "pipeline in one launch",
        homes: &[
            "kernels-gpu/src/one_launch",
            "crates/launch-config/src/one_launch",
            "host/src/operators/one_launch",
        ],
    },
    Kind {
        name: "fused operator",
        homes: &["kernels-gpu/src/fused", "host/src/operators/fused"],
    },
];

/// Operators that have no file in one of their homes: what computes them there stands in another's.
const WITH_ANOTHER: &[(&str, &str)] = &[
    // A convolution without spatial dimensions.
    ("linear", "kernels-gpu/src"),
    ("linear", "host/src/operators"),
    // Another shape of the same memory, or a copy.
    ("flatten", "kernels-gpu/src"),
    ("flatten", "host/src/operators"),
    ("reshape", "kernels-gpu/src"),
    ("reshape", "host/src/operators"),
    // The padding of convolutions.
    ("pad", "kernels-gpu/src"),
    // Copies of parts of rows.
    ("cat", "kernels-gpu/src"),
    ("cat", "host/src/operators"),
    ("narrow", "kernels-gpu/src"),
    ("narrow", "host/src/operators"),
    // Copies of split axes.
    ("shuffle", "kernels-gpu/src"),
];

/// Names that hold no operator wherever they stand.
const SUPPORT: &[&str] = &[
    "mod",
    "lib",
    "main",
    "error",
    "fused",
    "one_launch",
    "tests",
];

/// A file that passes 400 lines by more than a little usually holds two ideas.
const MAX_LINES: usize = 450;

/// Columns of a line of comments or of Markdown prose.
const MAX_COLUMNS: usize = 110;

/// Documents whose lines may be longer: what tools wrote, and what is history.
const LONG_LINES: &[&str] = &["CHANGELOG.md", "docs/results"];

/// Prints what breaks the layout, and fails if anything does.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for kind in KINDS {
        faults.extend(missing_homes(root, kind));
    }
    let files = sources(root)?;
    faults.extend(long_files(&files));
    faults.extend(long_prose(&files));
    faults.extend(packages::faults(root)?);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    println!(
        "every operator has its homes, no file is longer than {MAX_LINES} lines, no prose than {MAX_COLUMNS} columns, published packages have their fields"
    );
    Ok(())
}

/// A stem that stands in two homes of a kind is of that kind, and must stand in all of them.
fn missing_homes(root: &Path, kind: &Kind) -> Vec<String> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for home in kind.homes {
        for stem in stems(&root.join(home)) {
            found.entry(stem).or_default().insert(home);
        }
    }
    found
        .into_iter()
        .filter(|(_, homes)| homes.len() > 1)
        .flat_map(|(stem, homes)| {
            let is_elsewhere = |home| WITH_ANOTHER.contains(&(&*stem, home));
            let missing = kind.homes.iter();
            let missing: Vec<_> = missing
                .filter(|home| !homes.contains(*home) && !is_elsewhere(home))
                .collect();
            let missing = missing.into_iter();
            missing.map(move |home| format!("{} {stem}: no {home}/{stem}.rs", kind.name))
        })
        .collect()
}

/// The names of sources and folders of sources in a folder.
fn stems(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = folder.read_dir() else {
        return BTreeSet::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|stem| !SUPPORT.contains(&stem.as_str()))
        .collect()
}

/// The texts of all Rust files and documents, by their paths from the root.
fn sources(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // What tools leave there is not the project's.
            let is_left = name.starts_with('.') || name.starts_with("target") || name == "venv";
            if path.is_dir() && !is_left {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|end| end == "rs" || end == "md")
            {
                let shown = path.strip_prefix(root)?.to_string_lossy();
                found.insert(shown.replace('\\', "/"), fs::read_to_string(&path)?);
            }
        }
    }
    Ok(found)
}

/// The Rust files that are too long.
fn long_files(files: &BTreeMap<String, String>) -> Vec<String> {
    let sources = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let lengths = sources.map(|(name, text)| (name, text.lines().count()));
    lengths
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines, limit {MAX_LINES}"))
        .collect()
}

/// The lines of prose that are too long: comments that have a line to themselves, and paragraphs of Markdown.
fn long_prose(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, text) in files {
        if LONG_LINES.iter().any(|long| name.starts_with(long)) {
            continue;
        }
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            let comment = line.trim_start().strip_prefix("//");
            let prose = match comment {
                Some(comment) => comment.trim_start_matches(['/', '!']).trim(),
                None if name.ends_with(".md") => line.trim(),
                None => continue,
            };
            if prose.starts_with("```") {
                is_code = !is_code;
            }
            // A table has a line for each row, and a long word no place to break.
            let is_prose = !is_code && !prose.starts_with('|') && prose.contains(' ');
            let columns = line.chars().count();
            if is_prose && columns > MAX_COLUMNS {
                faults.push(format!(
                    "{name}:{number}: {columns} columns of prose, limit {MAX_COLUMNS}"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_without_a_home_is_reported_with_the_file_it_lacks() {
        let root = tempfile::tempdir().unwrap();
        for home in KINDS[0].homes {
            fs::create_dir_all(root.path().join(home)).unwrap();
            fs::write(root.path().join(home).join("clamp.rs"), "").unwrap();
        }
        assert!(missing_homes(root.path(), &KINDS[0]).is_empty());
        fs::remove_file(root.path().join("host/src/operators/clamp.rs")).unwrap();
        assert_eq!(
            missing_homes(root.path(), &KINDS[0]),
            ["operator clamp: no host/src/operators/clamp.rs"]
        );
    }
    /// The faults of one file.
    fn faults(name: &str, text: &str) -> Vec<String> {
        let files = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        [long_files(&files), long_prose(&files)].concat()
    }

    #[test]
    fn prose_has_a_limit_and_code_and_tables_have_none() {
        let long = "word ".repeat(30);
        for text in [
            format!("/// {long}"),
            format!("    //! {long}"),
            format!("    // {long}"),
        ] {
            let columns = text.chars().count();
            let expected = format!("a.rs:2: {columns} columns of prose, limit 110");
            assert_eq!(faults("a.rs", &format!("\n{text}\n")), [expected]);
        }
        assert_eq!(faults("a.md", &long).len(), 1);
        for text in [
            format!("let x = \"{long}\";"),
            format!("/// | {long} |"),
            format!("//! ```\n//! {long}\n//! ```"),
        ] {
            assert_eq!(faults("a.rs", &text), [""; 0], "{text}");
        }
        assert_eq!(faults("a.md", &format!("```\n{long}\n```")), [""; 0]);
        assert_eq!(faults("docs/results/a.md", &long), [""; 0]);
    }

    #[test]
    fn files_have_a_limit() {
        assert_eq!(faults("a.rs", &"x\n".repeat(450)), [""; 0]);
        let expected = "a.rs: 451 lines, limit 450";
        assert_eq!(faults("a.rs", &"x\n".repeat(451)), [expected]);
    }
}

//! `cargo xtask layout`: checks that every operator has a file in each of its places, that files and lines
//! of prose are short, that modules do not import each other in circles, and that published packages are
//! complete.

mod circles;
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::packages;

/// A kind of item that has a file or folder of its name in each of these places.
struct Kind {
    name: &'static str,
    homes: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "operator",
        homes: &[
            "crates/op-spec/src/graph/layer",
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

/// Operators without a file in one of their places, because another operator's code computes them there.
const WITH_ANOTHER: &[(&str, &str)] = &[
    // A convolution without spatial dimensions.
    ("linear", "kernels-gpu/src"),
    ("linear", "host/src/operators"),
    // A view of the same memory, or a copy.
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

/// Names that are not operators in any place.
const SUPPORT: &[&str] = &[
    "mod",
    "lib",
    "main",
    "error",
    "fused",
    "one_launch",
    "tests",
];

/// A file of more than about 400 lines usually contains two ideas.
const MAX_LINES: usize = 450;

/// The column limit of comments and Markdown prose.
const MAX_COLUMNS: usize = 110;

/// Documents with longer lines, which tools write.
const LONG_LINES: &[&str] = &["docs/results"];

/// Prints all violations, and fails if there are any.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for kind in KINDS {
        faults.extend(missing_homes(root, kind));
    }
    let files = sources(root)?;
    faults.extend(long_files(&files));
    faults.extend(long_prose(&files));
    faults.extend(circles::faults(root, &files)?);
    faults.extend(packages::faults(root)?);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    println!(
        "every operator has its homes, no file is longer than {MAX_LINES} lines, no prose than {MAX_COLUMNS} columns, no modules import each other in a circle, published packages have their fields"
    );
    Ok(())
}

/// An item found in two places of a kind must exist in all of them.
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

/// The names of source files and folders in a folder.
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

/// Hidden folders with files of the project.
const HIDDEN: [&str; 2] = [".cargo", ".ci"];

/// Whether a file has lines of prose: comments of a language, or Markdown.
fn has_prose(path: &Path) -> bool {
    let extension = path.extension().and_then(|end| end.to_str());
    matches!(extension, Some("rs" | "md" | "toml" | "sh" | "py")) || path.ends_with(".ci/run")
}

/// The texts of all files with prose, by their paths relative to the root.
fn sources(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Skip the files of tools.
            let is_hidden = name.starts_with('.') && !HIDDEN.contains(&&*name);
            let is_left = is_hidden || name.starts_with("target") || name == "venv";
            if path.is_dir() && !is_left {
                folders.push(path);
            } else if path.is_file() && has_prose(&path) {
                let shown = path.strip_prefix(root)?.to_string_lossy();
                found.insert(shown.replace('\\', "/"), fs::read_to_string(&path)?);
            }
        }
    }
    Ok(found)
}

/// Finds Rust files that are too long.
fn long_files(files: &BTreeMap<String, String>) -> Vec<String> {
    let sources = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let lengths = sources.map(|(name, text)| (name, text.lines().count()));
    lengths
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines, limit {MAX_LINES}"))
        .collect()
}

/// Finds lines of prose that are too long: comments on their own lines, and Markdown paragraphs.
fn long_prose(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, text) in files {
        if LONG_LINES.iter().any(|long| name.starts_with(long)) {
            continue;
        }
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            let line_start = line.trim_start();
            let comment = match name.rsplit_once('.') {
                Some((_, "md")) => Some(line_start),
                Some((_, "rs")) => line_start.strip_prefix("//"),
                _ => line_start.strip_prefix('#'),
            };
            let Some(comment) = comment else {
                continue;
            };
            let prose = comment.trim_start_matches(['/', '!', '#']).trim();
            if prose.starts_with("```") {
                is_code = !is_code;
            }
            // A table needs one line per row, and a single long word cannot be broken.
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
        let comment = format!("# {long}");
        for name in ["a.py", "a.sh", "a.toml", ".ci/run"] {
            assert_eq!(faults(name, &comment).len(), 1, "{name}");
            assert_eq!(
                faults(name, &format!("value = '{long}'")),
                [""; 0],
                "{name}"
            );
        }
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

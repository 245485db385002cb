//! `cargo xtask layout`: every operator has its homes, and files stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

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
            "host/src/ops",
        ],
    },
    Kind {
        name: "pipeline in one launch",
        homes: &[
            "kernels-gpu/src/one_launch",
            "crates/launch-config/src/one_launch",
            "host/src/ops/one_launch",
        ],
    },
    Kind {
        name: "fused operator",
        homes: &["kernels-gpu/src/fused", "host/src/ops/fused"],
    },
];

/// Names that hold no operator wherever they stand.
const SUPPORT: &[&str] = &["mod", "lib", "main", "error", "fused", "tests", "chain"];

/// A file that passes 400 lines by more than a little usually holds two ideas.
const MAX_LINES: usize = 450;

/// Prints what breaks the layout, and fails if anything does.
pub(crate) fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut faults = Vec::new();
    for kind in KINDS {
        faults.extend(missing_homes(root, kind));
    }
    faults.extend(long_files(root)?);
    if faults.is_empty() {
        println!("every operator has its homes, no file is longer than {MAX_LINES} lines");
        Ok(())
    } else {
        Err(faults.join("\n").into())
    }
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
            let missing = kind.homes.iter().filter(move |home| !homes.contains(*home));
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

fn long_files(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut faults = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "host", "kernels-gpu", "tests", "xtask"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let lines = fs::read_to_string(&path)?.lines().count();
                let shown = path
                    .strip_prefix(root)?
                    .to_string_lossy()
                    .replace('\\', "/");
                if lines > MAX_LINES {
                    faults.push(format!("{shown}: {lines} lines, limit {MAX_LINES}"));
                }
            }
        }
    }
    faults.sort();
    Ok(faults)
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
        fs::remove_file(root.path().join("host/src/ops/clamp.rs")).unwrap();
        assert_eq!(
            missing_homes(root.path(), &KINDS[0]),
            ["operator clamp: no host/src/ops/clamp.rs"]
        );
    }
}

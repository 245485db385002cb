//! Checks that files and folders do not import each other in circles, and that the modules of a folder import
//! only from below where the folder's head gives an order.
//!
//! A module and its folder are one thing among their neighbours. An import from the files that surround a
//! module is free: the module is part of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::cmd;

use super::imports::{self, Imports};
use crate::paths::shell;

/// Workspaces, by their manifests.
const WORKSPACES: &[&str] = &[
    "Cargo.toml",
    "python/Cargo.toml",
    "examples/cudarc/Cargo.toml",
];

/// Returns the circles of all crates, and the imports against an order. `files` are the texts of files by
/// their paths.
pub(super) fn faults(root: &Path, files: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut imports = Imports::new();
    for target in targets(root)? {
        imports::collect(root, &target, &mut imports)?;
    }
    imports.retain(|(from, to), _| !from.starts_with(&format!("{}/", module(to))));
    let mut faults = circles(&imports);
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        let order = order(text);
        if !order.is_empty() {
            let folder = module(file);
            let modules = files.keys().filter_map(|file| inside(folder, file));
            faults.extend(out_of_place(folder, &order, &modules.collect()));
            faults.extend(against_order(folder, &order, &imports));
        }
    }
    Ok(faults)
}

/// The root files of all crates.
fn targets(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let sh = shell(root)?;
    let mut found = BTreeSet::new();
    for manifest in WORKSPACES {
        let command = cmd!(
            sh,
            "cargo metadata --no-deps --format-version 1 --manifest-path {manifest}"
        );
        let metadata: serde_json::Value = serde_json::from_str(&command.quiet().read()?)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let targets = packages.iter().filter_map(|one| one["targets"].as_array());
        let paths = targets.flatten().filter_map(|one| one["src_path"].as_str());
        for path in paths {
            found.insert(PathBuf::from(path).canonicalize()?);
        }
    }
    Ok(found)
}

/// The path of a file as a module, which is that of the folder with its own modules.
fn module(file: &str) -> &str {
    let path = file.trim_end_matches(".rs");
    let folder = ["/mod", "/lib", "/main"]
        .iter()
        .find_map(|end| path.strip_suffix(end));
    folder.unwrap_or(path)
}

/// Returns the circles among the modules of each folder.
fn circles(imports: &Imports) -> Vec<String> {
    // The imports between the modules of a folder.
    type Edges<'a> = BTreeMap<(&'a str, &'a str), Vec<String>>;
    let mut folders: BTreeMap<String, Edges<'_>> = BTreeMap::new();
    for ((from, to), (line, path)) in imports {
        let mut segments = module(from).split('/').zip(module(to).split('/'));
        let mut folder = String::new();
        let differing = segments.find(|(from, to)| {
            if from == to {
                folder += from;
                folder.push('/');
            }
            from != to
        });
        if let Some(edge) = differing {
            let import = format!("\n    {from}:{line}: {path} of {to}");
            folders
                .entry(folder)
                .or_default()
                .entry(edge)
                .or_default()
                .push(import);
        }
    }
    let mut faults = Vec::new();
    for (folder, edges) in &folders {
        let mut seen = BTreeSet::new();
        for &(start, _) in edges.keys() {
            let reached = reached(start, edges.keys());
            let circle = reached
                .iter()
                .filter(|end| self::reached(end, edges.keys()).contains(start));
            let circle: BTreeSet<&str> = circle.copied().collect();
            if circle.is_empty() || !seen.insert(circle.clone()) {
                continue;
            }
            let mut text = format!("{folder}: modules import each other:");
            let within = |edge: &&(&str, &str)| circle.contains(edge.0) && circle.contains(edge.1);
            for edge in edges.keys().filter(within) {
                text += &edges[edge].concat();
            }
            faults.push(text);
        }
    }
    faults
}

/// The modules that a module imports, directly or through others.
fn reached<'a>(
    start: &'a str,
    edges: impl Iterator<Item = &'a (&'a str, &'a str)> + Clone,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![start];
    while let Some(from) = left.pop() {
        let targets = edges
            .clone()
            .filter(|edge| edge.0 == from)
            .map(|edge| edge.1);
        left.extend(targets.filter(|to| found.insert(*to)));
    }
    found
}

/// Parses the lines ``//! 3. `one`, `another`: ...`` of a file's head: its modules from the bottom up.
fn order(text: &str) -> BTreeMap<&str, usize> {
    let mut order = BTreeMap::new();
    for line in text.lines().map_while(|line| line.strip_prefix("//!")) {
        let Some((number, names)) = line.trim().split_once(". `") else {
            continue;
        };
        if let (Ok(number), Some((names, _))) = (number.parse(), names.split_once("`:")) {
            order.extend(names.split("`, `").map(|name| (name, number)));
        }
    }
    order
}

/// The module of a folder that a file belongs to.
fn inside<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let rest = module(file).strip_prefix(folder)?.strip_prefix('/')?;
    rest.split('/').next()
}

/// Returns the modules without a place in their folder's order, and the places without a module.
fn out_of_place(
    folder: &str,
    order: &BTreeMap<&str, usize>,
    modules: &BTreeSet<&str>,
) -> Vec<String> {
    let placed = order.keys().copied().collect();
    let wrong = modules.symmetric_difference(&placed);
    let fault = |name| format!("{folder}: {name} is either no module or not in the order");
    wrong.map(fault).collect()
}

/// Returns the imports of a folder's modules that are not from lower lines of its order.
fn against_order(folder: &str, order: &BTreeMap<&str, usize>, imports: &Imports) -> Vec<String> {
    let mut faults = Vec::new();
    for ((from, to), (line, path)) in imports {
        if let (Some(own), Some(other)) = (inside(folder, from), inside(folder, to))
            && own != other
            && order.get(other) >= order.get(own)
        {
            faults.push(format!(
                "{from}:{line}: {path} is not below in the order of {folder}"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The imports of a crate of these files.
    fn imports_of(files: &[(&str, &str)]) -> Imports {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut imports = Imports::new();
        let main = root.path().join("src/lib.rs");
        imports::collect(root.path(), &main, &mut imports).unwrap();
        imports
    }

    /// The imports of a crate with modules `low` and `high`, and a re-export of what `high` has.
    fn of_low(low: &str) -> Vec<String> {
        let root = "mod low; mod high; pub use high::inner::ReExported; pub struct Own;";
        let imports = imports_of(&[
            ("src/lib.rs", root),
            ("src/low.rs", low),
            ("src/high/mod.rs", "pub mod inner; use crate::low::f;"),
            (
                "src/high/inner.rs",
                "pub struct Part; pub struct ReExported; use crate::Own;",
            ),
        ]);
        circles(&imports)
    }

    #[test]
    fn a_circle_is_found_however_its_imports_are_written() {
        for import in [
            "use super::high::inner::Part;",
            "use crate::{fmt, high::{inner::{self, Part}}};",
            "use crate::high::inner; fn g(_: inner::Part) {}",
            "fn g() { super::high::inner::Part::new(); }",
            "fn g(_: &crate::high::inner::Part) {}",
            "use super::ReExported;",
            "mod inner { use super::super::ReExported; }",
            "fn g() { assert!(crate::high::inner::Part.is_it()) }",
        ] {
            let found = of_low(&format!("pub fn f() {{}} {import}"));
            assert!(
                found.len() == 1 && found[0].starts_with("src/: modules"),
                "{import} {found:?}"
            );
            assert!(
                found[0].contains("src/low.rs:1: ") && found[0].contains("src/high/mod.rs:1: ")
            );
        }
    }

    #[test]
    fn neither_tests_nor_what_surrounds_a_module_closes_a_circle() {
        let low = r##"
            // use super::high::inner::Part;
            const A: &str = "super::high::inner::Part";
            #[cfg(test)]
            mod tests { use super::super::high::inner::Part; }
            pub(super) fn f(_: std::fmt::Error, _: super::Own) {}
        "##;
        assert_eq!(of_low(low), [""; 0]);
        let low = "pub fn f() {} use super::ReExported;";
        assert_eq!(of_low(low).len(), 1);
    }

    #[test]
    fn the_order_in_a_head_is_kept() {
        let against = |head: &str| {
            let root = format!("{head}\nmod a; mod b;");
            let files = [
                ("src/lib.rs", &*root),
                ("src/a.rs", "pub fn f() {}"),
                ("src/b.rs", "pub fn g() { crate::a::f() }"),
            ];
            against_order("src", &order(&root), &imports_of(&files))
        };
        assert_eq!(against("//! 1. `a`: this\n//! 2. `b`: that"), [""; 0]);
        assert_eq!(against("//! 1. `a`: this\n//! 1. `b`: that").len(), 1);
        assert_eq!(against("//! 1. `b`: this\n//! 2. `a`: that").len(), 1);
    }

    #[test]
    fn the_modules_of_an_order_are_those_of_the_folder() {
        let wrong = |modules| out_of_place("src", &order("//! 1. `a`, `b`: this"), &modules);
        assert_eq!(wrong(BTreeSet::from(["a", "b"])), [""; 0]);
        assert_eq!(wrong(BTreeSet::from(["a"])).len(), 1);
        assert_eq!(wrong(BTreeSet::from(["a", "b", "c"])).len(), 1);
    }
}

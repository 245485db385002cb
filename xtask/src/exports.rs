//! `cargo xtask exports`: every name that the library exports, as a list in the repository.
//!
//! A change to the library's interface is a change to that list, so that no review overlooks it. The names
//! are those that rustdoc finds, with all features for users: what is hidden from the documentation is not
//! part of the interface.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The list, a path to each line.
const LIST: &str = "host/exports.txt";

/// Writes the list anew.
pub(crate) fn renew(root: &Path) -> Result<(), Box<dyn Error>> {
    fs::write(root.join(LIST), exports(root)?)?;
    Ok(())
}

/// Fails unless the list is what the library exports.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let (listed, found) = (fs::read_to_string(root.join(LIST))?, exports(root)?);
    let wrong = differences(&listed, &found);
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join("\n");
    Err(
        format!("{LIST}: not what the library exports; `cargo xtask exports` renews it\n{wrong}")
            .into(),
    )
}

/// Documents the library and returns the list.
fn exports(root: &Path) -> Result<String, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = root.join("target");
    let status = Command::new(cargo)
        .current_dir(root)
        .args([
            "doc",
            "--quiet",
            "--locked",
            "--no-deps",
            "--package=convfuse",
            "--features=dlpack",
        ])
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    if !status.success() {
        return Err(format!("cargo doc: {status}").into());
    }
    let page = target.join("doc/convfuse/all.html");
    let page = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let names = names(&page);
    if names.is_empty() {
        return Err("rustdoc's page of all items lists none: has its form changed?".into());
    }
    Ok(names.join("\n") + "\n")
}

/// The names on rustdoc's page of all items, sorted: `<li><a href="ops/fn.clamp.html">ops::clamp</a></li>`.
fn names(page: &str) -> Vec<String> {
    let items = page.split("<li><a href=\"").skip(1);
    let mut names: Vec<String> = items
        .filter_map(|item| {
            let (href, rest) = item.split_once("\">")?;
            let (name, _) = rest.split_once("</a>")?;
            let kind = href.rsplit('/').next()?.split('.').next()?;
            (!href.starts_with('#')).then(|| format!("{kind} convfuse::{name}"))
        })
        .map(|line| line.replace("<wbr>", ""))
        .collect();
    names.sort_by(|a, b| {
        a.split_once(' ')
            .map(|a| a.1)
            .cmp(&b.split_once(' ').map(|b| b.1))
    });
    names.dedup();
    names
}

/// The lines that only one of the two lists has.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let lacks = |list: &str, line: &str| list.lines().all(|other| other != line);
    let gone = listed.lines().filter(|line| lacks(found, line));
    let new = found.lines().filter(|line| lacks(listed, line));
    gone.map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_named_by_their_kinds_and_paths() {
        let page = r##"<ul><li><a href="#structs">Structs</a></li></ul><ul class="all-items">
            <li><a href="struct.Tensor.html">Tensor</a></li><li><a href="chain/enum.Layer.html">chain::Layer</a></li></ul>"##;
        assert_eq!(
            names(page),
            ["struct convfuse::Tensor", "enum convfuse::graph::Layer"]
        );
    }

    #[test]
    fn lines_of_either_list_alone_are_told() {
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert!(differences("a\nb\n", "a\nb\n").is_empty());
    }
}

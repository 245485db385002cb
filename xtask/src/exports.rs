//! `cargo xtask exports`: every name that the library exports, as a list in the repository.
//!
//! A change of the library's interface also changes that list, so a review cannot overlook it. The names are
//! those in rustdoc, with all user features. Items hidden from the documentation are not part of the
//! interface.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::paths::shell;

/// The list, with one path per line.
const LIST: &str = "host/exports.txt";

/// Rewrites the list.
pub(crate) fn renew(root: &Path) -> Result<()> {
    fs::write(root.join(LIST), exports(root)?)?;
    Ok(())
}

/// Fails unless the list matches the library's exports.
pub(crate) fn check(root: &Path) -> Result<()> {
    let (listed, found) = (fs::read_to_string(root.join(LIST))?, exports(root)?);
    let wrong = differences(&listed, &found);
    ensure!(
        wrong.is_empty(),
        "{LIST}: not what the library exports; `cargo xtask exports` renews it\n{}",
        wrong.join("\n")
    );
    Ok(())
}

/// Documents the library and returns the list.
fn exports(root: &Path) -> Result<String> {
    let (shell, target) = (shell(root)?, root.join("target"));
    cmd!(
        shell,
        "cargo doc --quiet --locked --no-deps -p convfuse --features dlpack --target-dir {target}"
    )
    .quiet()
    .run()?;
    let page = target.join("doc/convfuse/all.html");
    let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    let names = names(&page);
    ensure!(
        !names.is_empty(),
        "rustdoc's page of all items lists none: has its form changed?"
    );
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
    names.sort_by_cached_key(|line| line.split(' ').nth(1).map(str::to_owned));
    names.dedup();
    names
}

/// The lines that only one of the two lists has.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let [listed, found] = [listed, found].map(|list| list.lines().collect::<BTreeSet<_>>());
    let gone = listed.difference(&found).map(|line| format!("- {line}"));
    let new = found.difference(&listed).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_named_by_their_kinds_and_paths() {
        let page = r##"<ul><li><a href="#structs">Structs</a></li></ul><ul class="all-items">
            <li><a href="struct.Tensor.html">Tensor</a></li><li><a href="graph/enum.Layer.html">graph::Layer</a></li></ul>"##;
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

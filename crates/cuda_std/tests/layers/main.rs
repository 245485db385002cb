//! The emulator's modules import only from layers below their own.

#[path = "../../../../tests/layers/check.rs"]
mod check;

use std::path::Path;

use check::{Folder, imports};

#[test]
fn the_emulator_imports_only_downwards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/emulator");
    let folder = Folder::read(&path, "crate::emulator").unwrap();
    let wrong = folder.violations();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The public modules build on the emulator, so it must not build on them.
#[test]
fn the_emulator_imports_nothing_that_builds_on_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/emulator");
    let folder = Folder::read(&path, "crate::emulator").unwrap();
    let beneath = ["Instance", "Kernel", "KernelArgs", "common"].map(str::to_owned);
    assert_eq!(folder.outside(), beneath.into());
}

/// Two modules, `low` beneath `high`.
fn folder(low: &str, high: &str) -> Folder {
    let head = "//! 1. `low`: this\n//! 2. `high`: that\n";
    let files = [("mod.rs", head), ("low.rs", low), ("high/inner.rs", high)];
    Folder::new(&files, "crate::folder")
}

#[test]
fn imports_from_below_are_fine() {
    let low = "use crate::other::Thing; use std::fmt; mod inner { use super::Part; }";
    let high = "use super::super::low::{self, Part}; use crate::folder::low; use super::Own;";
    assert_eq!(folder(low, high).violations(), [""; 0]);
}

#[test]
fn imports_from_above_are_found_however_they_are_written() {
    for source in [
        "use super::high;",
        "use super::{fmt::Part, high::Part};",
        "use crate::{folder::{high::Part}, other};",
        "fn f() { super::high::g(); }",
        "fn f(a: &crate::folder::high::Part) {}",
        "mod inner { use super::super::high; }",
        "use super::*;",
        "pub use super::ReExported;",
    ] {
        assert_ne!(folder(source, "").violations(), [""; 0], "{source}");
    }
}

#[test]
fn comments_strings_and_tests_are_no_imports() {
    let source = r##"
        // use super::high;
        /* super::high /* super::high */ super::high */
        const A: &str = "super::high \" super::high";
        const B: &str = r#"super::high " super::high"#;
        const C: char = '"'; fn f<'a>(_: &'a u8) {} const D: char = '\'';
        #[cfg(test)]
        mod tests { use super::super::high; fn f() { super::super::high::g() } }
        pub(super) fn g() {}
    "##;
    assert_eq!(imports(source, &["crate", "folder", "low"]), [""; 0]);
}

#[test]
fn modules_without_a_place_in_the_order_are_found() {
    let files = [("mod.rs", "//! 1. `low`, `gone`: this\n"), ("new.rs", "")];
    let wrong = Folder::new(&files, "crate::folder").violations();
    assert_eq!(
        wrong,
        [
            "gone: in the order, but no module",
            "low: in the order, but no module",
            "new: a module without a place in the order",
        ]
    );
}

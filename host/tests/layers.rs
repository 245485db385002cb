//! Modules import only from lower layers: those below streams and tensors, the emulator's, and those of the
//! implicit GEMM.

#[path = "layers/check.rs"]
mod check;

use std::path::{Path, PathBuf};

use check::{Folder, imports};

/// Returns the path of a folder of the repository.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[test]
fn modules_import_only_downwards() {
    for (folder, path) in [
        ("host/src/device", "crate::device"),
        ("host/src/device/gpu", "crate::device::gpu"),
        ("crates/cuda_std/src/emulator", "crate::emulator"),
        (
            "kernels-gpu/src/fused/implicit_gemm",
            "crate::fused::implicit_gemm",
        ),
    ] {
        let wrong = Folder::read(&source(folder), path).unwrap().violations();
        assert!(wrong.is_empty(), "{folder}:\n{}", wrong.join("\n"));
    }
}

/// The folders import none of the modules that build on them.
#[test]
fn folders_import_nothing_that_builds_on_them() {
    let outside = |folder, path| Folder::read(&source(folder), path).unwrap().outside();
    let beneath = ["contract", "dtype", "error", "host_memory", "sync"].map(str::to_owned);
    assert_eq!(outside("host/src/device", "crate::device"), beneath.into());
    let beneath = ["Instance", "Kernel", "KernelArgs", "common", "map_modes"].map(str::to_owned);
    assert_eq!(
        outside("crates/cuda_std/src/emulator", "crate::emulator"),
        beneath.into()
    );
}

/// Errors and their parts do not import devices.
#[test]
fn what_is_beneath_devices_imports_none() {
    for module in [
        "contract",
        "dtype",
        "error",
        "host_memory",
        "parameters",
        "sync",
        "tensor_file",
    ] {
        let text =
            std::fs::read_to_string(source("host/src").join(module).with_extension("rs")).unwrap();
        let beneath = [
            "contract",
            "dtype",
            "host_memory",
            "parameters",
            "tensor_file",
        ];
        for import in imports(&text, &["crate", module]) {
            let target = import.split("::").nth(1).unwrap_or_default();
            let is_below = beneath.contains(&target) || target == module;
            assert!(is_below, "{module}: {import}");
        }
    }
}

/// A folder of two modules, with `low` below `high`.
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

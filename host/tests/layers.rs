//! The modules beneath streams and tensors import only from layers below their own.

#[path = "../../tests/layers/check.rs"]
mod check;

use std::path::{Path, PathBuf};

use check::{Folder, imports};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn devices_and_gpus_import_only_downwards() {
    for (folder, path) in [
        ("device", "crate::device"),
        ("device/gpu", "crate::device::gpu"),
    ] {
        let folder = Folder::read(&source().join(folder), path).unwrap();
        let wrong = folder.violations();
        assert!(wrong.is_empty(), "{path}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn devices_import_nothing_that_builds_on_them() {
    let folder = Folder::read(&source().join("device"), "crate::device").unwrap();
    let beneath = ["contract", "dtype", "error"].map(str::to_owned);
    assert_eq!(folder.outside(), beneath.into());
}

/// Errors, and what they are made of, know no devices.
#[test]
fn what_is_beneath_devices_imports_none() {
    for module in ["contract", "dtype", "error", "parameters", "tensor_file"] {
        let text = std::fs::read_to_string(source().join(module).with_extension("rs")).unwrap();
        let beneath = ["contract", "dtype", "parameters", "tensor_file"];
        for import in imports(&text, &["crate", module]) {
            let target = import.split("::").nth(1).unwrap_or_default();
            let is_below = beneath.contains(&target) || target == module;
            assert!(is_below, "{module}: {import}");
        }
    }
}

//! The modules of the implicit matrix product import only from layers below their own.

#[allow(dead_code)] // The emulator's test asks for more.
#[path = "../../tests/layers/check.rs"]
mod check;

use std::path::Path;

use check::Folder;

#[test]
fn the_implicit_matrix_product_imports_only_downwards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fused/implicit_gemm");
    let folder = Folder::read(&path, "crate::fused::implicit_gemm").unwrap();
    let wrong = folder.violations();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

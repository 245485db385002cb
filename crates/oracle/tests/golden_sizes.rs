//! Golden files with shapes too large for any memory are refused, without a crash.

use std::path::PathBuf;

use oracle::golden;
use serde_json::json;

/// A golden file of `relu` with these header entries for tensors, without data, and this description.
fn file(name: &str, tensors: serde_json::Value, case: serde_json::Value) -> PathBuf {
    let mut header = tensors;
    header["__metadata__"] = json!({"case": case.to_string()});
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.into_bytes());
    let path = std::env::temp_dir().join(format!("{name}-{}.safetensors", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn flaw(path: &PathBuf) -> String {
    let flaw = golden::load(path).unwrap_err();
    std::fs::remove_file(path).unwrap();
    let source = std::error::Error::source(&flaw).map(ToString::to_string);
    format!("{flaw}: {}", source.unwrap_or_default())
}

#[test]
fn shapes_that_no_array_has_though_they_hold_nothing() {
    let shape = [0_u64, 1 << 62, 1 << 62];
    let path = file(
        "empty",
        json!({
            "x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]},
            "out": {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]},
        }),
        json!({"op": "relu", "attributes": {}, "shapes": {"x": shape}, "out_shape": shape}),
    );
    let flaw = flaw(&path);
    assert!(flaw.contains("4611686018427387904"), "{flaw}");
}

#[test]
fn inputs_from_a_seed_that_no_memory_holds() {
    let shape = [1_u64, 1 << 44];
    let path = file(
        "seeded",
        json!({
            "index": {"dtype": "I64", "shape": [0], "data_offsets": [0, 0]},
            "out": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]},
        }),
        json!({"op": "relu", "attributes": {"x_seed": 1}, "shapes": {"x": shape},
            "out_shape": shape, "out_mean": 0.5}),
    );
    let flaw = flaw(&path);
    assert!(flaw.contains("17592186044416"), "{flaw}");
}

use std::collections::HashSet;
use std::path::Path;

use super::*;

fn all_cases() -> Vec<Case> {
    [tables::smoke(), tables::ragged(), tables::realistic()].concat()
}

fn golden_files() -> Vec<std::path::PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let folder = std::env::var_os("CONVFUSE_GOLDEN").map_or(own, Into::into);
    let files = golden::files(folder).unwrap();
    assert!(!files.is_empty(), "golden files are missing");
    files
}

#[test]
fn case_names_are_unique_and_start_with_the_operator() {
    let mut names = HashSet::new();
    for case in all_cases() {
        assert!(
            case.name
                .starts_with(&format!("{}/", case.operation.name()))
        );
        assert!(names.insert(case.name.clone()), "{} twice", case.name);
    }
}

#[test]
fn tolerances_surround_the_reference() {
    for case in all_cases() {
        let reference = case.operation.reference().unwrap();
        let expected = case.operation.expected(&Precision::F32).unwrap();
        let agreement = expected.check_f64(reference.view()).unwrap();
        assert!(
            agreement.largest_error < 1e-12,
            "{}: {agreement:?}",
            case.name
        );
    }
}

#[test]
fn the_reference_agrees_with_pytorch_in_float64() {
    let mut failures = Vec::new();
    for file in golden_files() {
        let golden = golden::load(&file).unwrap();
        if golden.is_full_size() && cfg!(debug_assertions) {
            continue;
        }
        let expected = golden.expected(&Precision::F64).unwrap();
        let reference = golden.case.operation.reference().unwrap();
        if let Err(error) = expected.check_f64(reference.view()) {
            failures.push(format!("{}: {error}", golden.case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_cpu_backend_agrees_with_the_reference() {
    let mut failures = Vec::new();
    for case in all_cases() {
        let expected = case.operation.expected(&Precision::F32).unwrap();
        let got = crate::cpu::run(&case.operation).unwrap();
        if let Err(error) = expected.check(got.view()) {
            failures.push(format!("{}: {error}", case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_cpu_backend_agrees_with_pytorch() {
    let mut failures = Vec::new();
    for file in golden_files() {
        let golden = golden::load(&file).unwrap();
        if golden.is_full_size() && cfg!(debug_assertions) {
            continue;
        }
        let got = crate::cpu::run(&golden.case.operation).unwrap();
        let expected = golden.expected(&Precision::F32).unwrap();
        if let Err(error) = expected.check(got.view()) {
            failures.push(format!("{}: {error}", golden.case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

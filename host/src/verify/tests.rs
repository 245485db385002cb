use std::collections::HashSet;

use super::*;

fn all_cases() -> Vec<Case> {
    [tables::smoke(), tables::ragged(), tables::realistic()].concat()
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

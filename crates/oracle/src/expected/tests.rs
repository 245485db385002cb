//! Tests of agreement and disagreement.

use super::*;
use ndarray::arr1;

fn expected(values: &[f64], tolerance: f64) -> Expected {
    Expected::new(bounded(values, tolerance), &Precision::F32)
}

fn bounded(values: &[f64], tolerance: f64) -> Bounded {
    Bounded {
        values: arr1(values).into_dyn(),
        tolerance: arr1(&vec![tolerance; values.len()]).into_dyn(),
    }
}

#[test]
fn every_output_is_compared() {
    let outputs = [
        ("y".to_owned(), bounded(&[1.0, 2.0], 0.5)),
        ("skip".to_owned(), bounded(&[3.0], 0.25)),
    ];
    let expected = Expected::of_outputs(outputs, &Precision::F32);
    let check = |second: &[f32]| {
        let got = [arr1(&[1.0, 2.125]).into_dyn(), arr1(second).into_dyn()];
        expected.check_all(&got)
    };
    let agreement = Agreement {
        largest_error: 0.125,
        tolerance_used: 0.5,
        elements: 3,
    };
    assert_eq!(check(&[3.125]), Ok(agreement));
    let told = |second| check(second).unwrap_err().to_string();
    assert!(
        told(&[3.5]).starts_with("output skip: 1 of 1 elements are off"),
        "{}",
        told(&[3.5])
    );
    assert_eq!(
        told(&[3.0, 3.0]),
        "output skip: output has shape [2], expected [1]"
    );
    let one = arr1(&[1.0, 2.0]).into_dyn();
    let of_one = "there are 1 outputs, expected 2";
    assert_eq!(expected.check(one.view()).unwrap_err().to_string(), of_one);
    assert_eq!(expected.check_all(&[one]).unwrap_err().to_string(), of_one);
}

#[test]
fn nan_and_infinities_must_be_where_they_should() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0];
    let expected = expected(&values, 0.1);
    let check = |got: [f32; 4]| expected.check(arr1(&got).view().into_dyn());
    let right = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.05];
    assert_eq!(check(right).unwrap().elements, 4);
    for i in 0..4 {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0] {
            let mut got = right;
            got[i] = wrong;
            let same = got[i] == right[i] || got[i].is_nan() && right[i].is_nan();
            assert_eq!(check(got).is_ok(), same, "{got:?}");
        }
    }
}

#[test]
fn a_value_beyond_f32_may_be_infinite() {
    let expected = expected(&[1e39, -1e39], 0.0);
    let check = |got: [f32; 2]| expected.check(arr1(&got).view().into_dyn());
    assert!(check([f32::INFINITY, f32::NEG_INFINITY]).is_ok());
    assert!(check([f32::INFINITY, f32::INFINITY]).is_err());
}

#[test]
fn a_failure_names_the_worst_element() {
    let expected = expected(&[1.0, 2.0, 3.0], 0.25);
    let error = expected
        .check(arr1(&[1.5, 2.0, 5.0]).view().into_dyn())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 of 3 elements are off, the worst at [2]: got 5e0, want 3e0, \
         difference 2.000e0, tolerance 2.500e-1"
    );
}

use op_spec::ClampSpec;
use op_spec::graph::presets::KernelBench85;

use super::*;
use crate::data;
use crate::device::Device;

fn compare(actual: &[f32], expected: &[f32], equal_nan: bool) -> Comparison {
    let tolerance = Tolerance {
        equal_nan,
        ..Tolerance::of(DType::F32)
    };
    let actual = ArrayViewD::from_shape(vec![actual.len()], actual).unwrap();
    let expected = ArrayViewD::from_shape(vec![expected.len()], expected).unwrap();
    Comparison::of(&actual, &expected.to_owned(), &tolerance)
}

#[test]
fn elements_are_close_by_the_rule_of_pytorch() {
    let close = |actual, expected| compare(&[actual], &[expected], false).is_close();
    // atol is 1e-5, rtol 1.3e-6.
    assert!(close(0.9e-5, 0.0) && !close(1.1e-5, 0.0));
    assert!(close(1000.0012, 1000.0) && !close(1000.0015, 1000.0));
    assert!(close(f32::INFINITY, f32::INFINITY));
    assert!(!close(f32::INFINITY, f32::NEG_INFINITY) && !close(1.0, f32::INFINITY));
    assert!(!close(f32::INFINITY, 1.0) && !close(f32::NAN, 1.0) && !close(1.0, f32::NAN));
    assert!(!close(f32::NAN, f32::NAN));
    assert!(compare(&[f32::NAN], &[f32::NAN], true).is_close());
}

#[test]
fn the_largest_differences_are_told_with_their_places() {
    let comparison = compare(&[1.0, 2.5, 100.75], &[1.0, 2.0, 100.0], false);
    assert_eq!((comparison.elements, comparison.outside), (3, 2));
    let [absolute, relative] = [&comparison.largest_absolute, &comparison.largest_relative];
    let found =
        |largest: &Option<Difference>| largest.as_ref().map(|one| (one.index[0], one.amount));
    assert_eq!(found(absolute), Some((2, 0.75)));
    assert_eq!(found(relative), Some((1, 0.25)));
    let lost = compare(&[1.0, f32::NAN], &[9.0, 2.0], false);
    assert_eq!(found(&lost.largest_absolute), Some((1, f64::INFINITY)));
    assert_eq!(
        compare(&[f32::NAN], &[f32::NAN], false).to_string(),
        "1 of 1 elements are not close"
    );
}

#[test]
fn a_wrong_parameter_is_noticed() {
    let stream = Device::emulator().stream().unwrap();
    let problem = KernelBench85 {
        clamp: ClampSpec::new(-10.0, 10.0),
        ..KernelBench85::default()
    };
    let chain = problem.chain().unwrap();
    let model = Model::init(&stream, &chain, 3).unwrap();
    let x = Tensor::from_array(&stream, &data::fill(1, (1, 8, 9, 10))).unwrap();
    let (options, tolerance) = (Options::default(), Tolerance::of(DType::F32));
    let right = model.compare_with_cpu(&x, &options, &tolerance).unwrap();
    assert!(right.is_close(), "{right}");
    assert_eq!(right.elements, 128);
    // The bias of one of 64 channels is wrong.
    let mut wrong = model.parameters().unwrap().clone();
    let mut bias = wrong.get("group_norm.bias").unwrap().to_owned();
    bias[[5]] -= 0.05;
    wrong.set("group_norm.bias", bias).unwrap();
    let found = model.compare_with(&wrong, (&x).into(), &options, &tolerance);
    let found = found.unwrap();
    assert_eq!(found.outside, 2, "{found}");
    assert_eq!(found.largest_absolute.unwrap().index[..2], [0, 5]);
}

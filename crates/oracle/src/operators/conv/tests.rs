use ndarray::array;
use op_spec::graph::LayerProblem;
use op_spec::{Conv1dSpec, Conv2dSpec, Padding};

use super::*;
use crate::Bounded;
use crate::data::signed;

/// Whether all values are within the tolerance of the wanted ones.
fn allowed(wanted: &Bounded, got: &ArrayD<f64>) -> bool {
    let mut pairs = got.iter().zip(&wanted.values).zip(&wanted.tolerance);
    pairs.all(|((got, want), t)| (got - want).abs() <= *t)
}

/// Whether the precision's tolerance allows for a sum of 72 products, with factors rounded to this number of
/// bits.
fn allows(precision: &Precision, bits: i32) -> bool {
    let shape = [1, 8, 20, 20];
    let (x, weight) = (signed(3, &shape), signed(4, &[16, 8, 3, 3]));
    let spec = Conv2dSpec::default();
    let problem = spec.problem(&shape, weight.shape(), None).unwrap();
    let layer = LayerProblem::Conv2d(problem);
    let wide = weight.mapv(f64::from);
    let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
    let rounded = |values: &ArrayD<f32>| {
        values.mapv(|v| {
            let v = f64::from(v);
            let unit = (v.abs().log2().floor() + 1.0 - f64::from(bits)).exp2();
            (v / unit).round() * unit
        })
    };
    allowed(
        &wanted,
        &problem.reference(&rounded(&x), &[&rounded(&weight)]),
    )
}

#[test]
fn factors_of_fewer_bits_than_fast_products_have_are_noticed() {
    assert!(allows(&Precision::TF32, 11) && !allows(&Precision::TF32, 8));
    assert!(allows(&Precision::F32, 24) && !allows(&Precision::F32, 16));
}

/// A sum as tensor cores compute it, 16 products at a time: they truncate each addend and the result, see
/// `cuda_std::mma`.
fn cut_off(products: &[f64]) -> f64 {
    let cut = |v: f64, largest: f64, bits: i32| {
        let unit = (largest.log2().floor() - f64::from(bits)).exp2();
        (v / unit).trunc() * unit
    };
    products.chunks(16).fold(0.0, |sum, products| {
        let addends = [&[sum], products].concat();
        let largest = addends.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        let sum = addends.iter().map(|v| cut(*v, largest, 25)).sum::<f64>();
        cut(sum, sum.abs(), 23)
    })
}

/// The largest share of the tolerance that truncation by tensor cores uses, in sums of `terms` products; and
/// the share for ten times the largest truncation error.
fn used_by_cutting(precision: &Precision, terms: usize) -> (f64, f64) {
    let shape = [1, terms, 40, 50];
    let (x, weight) = (signed(3, &shape), signed(4, &[1, terms, 1, 1]));
    let problem = Conv2dSpec::default().problem(&shape, weight.shape(), None);
    let layer = LayerProblem::Conv2d(problem.unwrap());
    let wide = weight.mapv(f64::from);
    let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
    let (mut used, mut of_ten_times) = (0.0, f64::INFINITY);
    let outputs = wanted.values.iter().zip(&wanted.tolerance);
    for (at, (want, t)) in outputs.enumerate() {
        let factors =
            (0..terms).map(|c| f64::from(x[[0, c, at / 50, at % 50]]) * wide[[0, c, 0, 0]]);
        let products: Vec<f64> = factors.collect();
        used = f64::max(used, (cut_off(&products) - want).abs() / t);
        let magnitudes: f64 = products.iter().map(|v| v.abs()).sum();
        let most = terms.div_ceil(16) as f64 * 5.25 * f64::exp2(-23.0) * magnitudes;
        of_ten_times = of_ten_times.min(10.0 * most / t);
    }
    (used, of_ten_times)
}

#[test]
fn what_tensor_cores_cut_off_of_short_sums_is_allowed_and_ten_times_that_is_not() {
    for terms in [1, 2, 5, 16, 17, 40, 200] {
        for precision in [Precision::BF16X3, Precision::F16X2] {
            let (used, of_ten_times) = used_by_cutting(&precision, terms);
            assert!(used <= 1.0, "{terms} terms: {used}");
            assert!(of_ten_times > 1.0, "{terms} terms: {of_ten_times}");
        }
    }
    // A sum of 16 terms may lose as much as one instruction truncates, in addition to the omitted products
    // of the split.
    let of_one = |precision: &Precision| used_by_cutting(precision, 16).1 / 10.0;
    assert!(of_one(&Precision::BF16X3) < 0.8 && of_one(&Precision::F32) > 1.0);
}

#[test]
fn a_bias_is_no_factor() {
    let shape = [1, 8, 9, 9];
    let (x, weight) = (signed(3, &shape), signed(4, &[4, 8, 3, 3]));
    let bias = ArrayD::from_elem(vec![4], 1000.0);
    let spec = Conv2dSpec::default();
    let problem = spec.problem(&shape, weight.shape(), Some(&[4])).unwrap();
    let wide = weight.mapv(f64::from);
    let products = sums_of(&problem, &x.mapv(f64::from), &wide, None, Terms::Magnitudes);
    let layer = LayerProblem::Conv2d(problem);
    let precision = Precision::TF32;
    let wanted = Bounded::exact(x.view()).through(&layer, &[&wide, &bias], &precision);
    let errors = products.mapv(|sum| sum * precision.factors);
    let is_within = |parts: f64| {
        let pairs = errors.iter().zip(&wanted.tolerance);
        pairs
            .map(|(error, t)| parts * error <= *t)
            .collect::<Vec<_>>()
    };
    assert!(is_within(1.0).iter().all(|&is| is));
    assert!(!is_within(10.0).contains(&true));
}

#[test]
fn what_is_far_below_its_samples_or_filters_largest_lacks_a_part_of_that() {
    // The second channel is 2^14 times smaller, with weights that compensate.
    let shape = [1, 2, 6, 6];
    let far = f32::exp2(-14.0);
    let (mut x, mut weight) = (signed(3, &shape), signed(4, &[3, 2, 3, 3]));
    x.index_axis_mut(Axis(1), 1).mapv_inplace(|v| v * far);
    weight.index_axis_mut(Axis(1), 1).mapv_inplace(|v| v / far);
    let problem = Conv2dSpec::default()
        .problem(&shape, weight.shape(), None)
        .unwrap();
    let (layer, wide) = (LayerProblem::Conv2d(problem), weight.mapv(f64::from));
    let allows = |part: f64, precision: &Precision| {
        let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
        let rounded = x.mapv(|v| (f64::from(v) / part).round() * part);
        allowed(&wanted, &problem.reference(&rounded, &[&wide]))
    };
    let part = f64::exp2(-33.0);
    assert!(allows(2.0 * part, &Precision::F32) && !allows(256.0 * part, &Precision::F32));
    let without = Precision {
        factors_of_largest: 0.0,
        ..Precision::F32
    };
    assert!(!allows(64.0 * part, &without));
}

#[test]
fn inputs_that_no_power_of_two_brings_into_range_lack_what_is_below_it() {
    // As in the single-launch kernel: multiplied by 2^100, and rounded to multiples of the smallest f16
    // number.
    let spec = Conv2dSpec::default();
    let wide = signed(4, &[16, 8, 3, 3]).mapv(f64::from);
    let problem = spec.problem(&[1, 8, 20, 20], wide.shape(), None).unwrap();
    let layer = LayerProblem::Conv2d(problem);
    let allows = |least: f64, precision: &Precision| {
        let x = signed(3, &[1, 8, 20, 20]).mapv(|v| v * f32::exp2(-122.0));
        let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
        let rounded = x.mapv(|v| (f64::from(v) / least).round() * least);
        allowed(&wanted, &problem.reference(&rounded, &[&wide]))
    };
    let least = f64::exp2(-124.0);
    assert!(allows(least, &Precision::F32) && !allows(16.0 * least, &Precision::F32));
    let unlimited = Precision {
        factors_underflow: 0.0,
        ..Precision::F32
    };
    assert!(!allows(least, &unlimited));
}

#[test]
fn factors_lack_what_is_little_beside_the_largest_of_their_own_sample_or_filter() {
    let spec = Conv2dSpec::default().groups(2);
    // The last sample and the last filter have a large value.
    let large = f32::exp2(30.0);
    let with_large = |mut values: ArrayD<f32>| {
        *values.last_mut().unwrap() = large;
        values
    };
    let mut x = with_large(signed(3, &[2, 4, 6, 5]));
    // The factors of the filter's large value in the first sample.
    x.index_axis_mut(Axis(0), 0)
        .index_axis_mut(Axis(0), 3)
        .fill(0.0);
    let weight = with_large(signed(4, &[6, 2, 3, 2]));
    let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
    let (wide, wide_weight) = (x.mapv(f64::from), weight.mapv(f64::from));
    let layer = LayerProblem::Conv2d(problem);
    let wanted = Bounded::exact(x.view()).through(&layer, &[&wide_weight], &Precision::TF32);
    let allows =
        |x: &ArrayD<f64>, weight: &ArrayD<f64>| allowed(&wanted, &problem.reference(x, &[weight]));
    // Adds a multiple of the permitted error to the small values of one sample or filter.
    let off = |values: &ArrayD<f64>, which: usize, times: f64| {
        let mut values = values.clone();
        let small = values.index_axis_mut(Axis(0), which);
        let lack = f64::from(large) * Precision::TF32.factors_of_largest;
        small
            .into_iter()
            .filter(|v| v.abs() <= 1.0)
            .for_each(|v| *v += times * lack);
        values
    };
    assert!(allows(&off(&wide, 1, 1.0), &wide_weight));
    assert!(allows(&wide, &off(&wide_weight, 5, 1.0)));
    assert!(!allows(&off(&wide, 1, 16.0), &wide_weight));
    assert!(!allows(&wide, &off(&wide_weight, 5, 16.0)));
    assert!(!allows(&off(&wide, 0, 1.0), &wide_weight));
    assert!(!allows(&wide, &off(&wide_weight, 0, 1.0)));
}

#[test]
fn a_convolution_worked_by_hand() {
    // Columns 0 and 2 of the padded row 0 1 2 3 0, then columns 2 and 4.
    let x = array![[[[1.0, 2.0, 3.0]]]].into_dyn();
    let weight = array![[[[10.0, 1.0]]]].into_dyn();
    let bias = array![100.0].into_dyn();
    let spec = Conv2dSpec::default()
        .stride([1, 2])
        .padding([0, 1])
        .dilation([1, 2]);
    let problem = spec
        .problem(x.shape(), weight.shape(), Some(bias.shape()))
        .unwrap();
    let y = problem.reference(&x, &[&weight, &bias]);
    assert_eq!(y, array![[[[102.0, 120.0]]]].into_dyn());
}
#[test]
fn pads_worked_by_hand() {
    let x = array![[[1.0, 2.0, 3.0]]].into_dyn();
    let weight = array![[[100.0, 10.0, 1.0]]].into_dyn();
    let rows = [
        (PaddingMode::Zeros, [12.0, 123.0, 230.0]),
        (PaddingMode::Reflect, [212.0, 123.0, 232.0]),
        (PaddingMode::Replicate, [112.0, 123.0, 233.0]),
        (PaddingMode::Circular, [312.0, 123.0, 231.0]),
    ];
    for (padding_mode, wanted) in rows {
        let spec = Conv1dSpec::default()
            .padding(Padding::Same)
            .padding_mode(padding_mode);
        let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
        let y = problem.reference(&x, &[&weight]);
        assert_eq!(y.as_slice(), Some(&wanted[..]), "{}", padding_mode.name());
    }
    // With an even filter, the odd padding element is at the end.
    let weight = array![[[10.0, 1.0]]].into_dyn();
    let spec = Conv1dSpec::default().padding(Padding::Same);
    let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
    let y = problem.reference(&x, &[&weight]);
    assert_eq!(y, array![[[12.0, 23.0, 30.0]]].into_dyn());
}

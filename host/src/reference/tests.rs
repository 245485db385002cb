//! The reference against definitions: small cases worked by hand, and laws on random ones.

use ndarray::{Array, Array1, Array4, Axis, Ix4, array};
use op_spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::data::{fill, signed};
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights, Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
};

#[test]
fn a_convolution_worked_by_hand() {
    // Columns 0 and 2 of the padded row 0 1 2 3 0, then columns 2 and 4.
    let x = array![[[[1.0, 2.0, 3.0]]]];
    let weight = array![[[[10.0, 1.0]]]];
    let bias = array![100.0];
    let spec = Conv2dSpec {
        stride: [1, 2],
        padding: [0, 1],
        dilation: [1, 2],
        ..Conv2dSpec::default()
    };
    let y = conv2d(x.view(), weight.view(), Some(bias.view()), &spec).unwrap();
    assert_eq!(y, array![[[[102.0, 120.0]]]]);
}

#[test]
fn a_norm_worked_by_hand() {
    let x = array![[1.0, 3.0], [5.0, 5.0]].into_dyn();
    let (weight, bias) = (array![2.0, 4.0], array![10.0, 20.0]);
    let spec = GroupNormSpec {
        num_groups: 1,
        eps: 3.0,
    };
    let y = group_norm(x.view(), Some(weight.view()), Some(bias.view()), &spec).unwrap();
    assert_eq!(y, array![[9.0, 22.0], [10.0, 20.0]].into_dyn());
}

#[test]
fn nan_wins_in_maxima_and_padding_never_does() {
    let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
    let x = array![[[[-5.0, nan, minus, minus]]]];
    let bordered = MaxPool2dSpec {
        stride: Some([1, 2]),
        padding: [0, 1],
        ..MaxPool2dSpec::new([1, 2])
    };
    let y = max_pool2d(x.view(), &bordered).unwrap();
    assert_eq!(y.dim(), (1, 1, 1, 3));
    assert!(y[[0, 0, 0, 0]] == -5.0 && y[[0, 0, 0, 1]].is_nan() && y[[0, 0, 0, 2]] == minus);

    let x = array![[[1.0, nan, minus], [2.0, 7.0, minus]]].into_dyn();
    let y = channel_max(x.view()).unwrap();
    assert!(y[[0, 0]] == 2.0 && y[[0, 1]].is_nan() && y[[0, 2]] == minus);
}

#[test]
fn clamp_follows_pytorch_where_bounds_cross_or_are_nan() {
    let x = array![-1.0, 0.5, 2.0, f64::NAN].into_dyn();
    let clamped = |min, max| clamp(x.view(), &ClampSpec { min, max }).unwrap();
    let crossed = clamped(Some(1.0), Some(0.0));
    assert!(crossed.iter().take(3).all(|&v| v == 0.0) && crossed[3].is_nan());
    assert!(
        clamped(Some(f64::NAN), Some(1.0))
            .iter()
            .all(|v| v.is_nan())
    );
    let ignored = clamped(None, Some(f64::NAN));
    assert!(ignored.iter().zip(&x).take(3).all(|(y, x)| y == x) && ignored[3].is_nan());
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(85),
        ..ProptestConfig::default()
    }
}

/// A batch of images with its seed.
fn images() -> impl Strategy<Value = Array4<f64>> {
    (any::<u32>(), 1..3_usize, 1..7_usize, 2..9_usize, 2..9_usize)
        .prop_map(|(seed, n, c, h, w)| signed(seed.into(), (n, c, h, w)).mapv(f64::from))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn instance_norm_is_group_norm_with_a_group_per_channel(x in images(), eps in 0.0..0.1) {
        let c = x.dim().1;
        let weight = signed(1, c).mapv(f64::from);
        let instance = instance_norm(x.view().into_dyn(), Some(weight.view()), None, &InstanceNormSpec { eps });
        let spec = GroupNormSpec { num_groups: c, eps };
        let group = group_norm(x.view().into_dyn(), Some(weight.view()), None, &spec);
        prop_assert_eq!(instance, group);
    }

    #[test]
    fn constant_input_gives_the_bias(value in -1e3..1e3_f64, c in 1..6_usize, spatial in 2..50_usize) {
        let x = Array::from_elem((2, c, spatial), value).into_dyn();
        let (weight, bias) = (signed(1, c).mapv(f64::from), signed(2, c).mapv(f64::from));
        let spec = InstanceNormSpec::default();
        let y = instance_norm(x.view(), Some(weight.view()), Some(bias.view()), &spec).unwrap();
        for (channel, bias) in y.axis_iter(Axis(1)).zip(bias) {
            // The mean of equal numbers may round; its error meets 1 / sqrt(eps).
            prop_assert!(channel.iter().all(|v| (v - bias).abs() < 1e-9));
        }
    }

    #[test]
    fn a_shift_of_the_input_does_not_change_a_norm(x in images(), shift in -1e3..1e3_f64) {
        let spec = GroupNormSpec::new(1);
        let y = group_norm(x.view().into_dyn(), None, None, &spec).unwrap();
        let shifted = (&x + shift).into_dyn();
        let shifted = group_norm(shifted.view(), None, None, &spec).unwrap();
        prop_assert!((&y - &shifted).iter().all(|difference| difference.abs() < 1e-9));
    }

    #[test]
    fn maxima_commute_with_increasing_maps(
        x in images(),
        gain in 0.01..100.0_f64,
        kernel in 1..3_usize,
    ) {
        let map = |v: f64| (v * gain + 0.5).exp();
        let spec = MaxPool2dSpec { padding: [kernel / 2; 2], ..MaxPool2dSpec::new([kernel; 2]) };
        let pooled = max_pool2d(x.view(), &spec).unwrap().mapv(map);
        prop_assert_eq!(pooled, max_pool2d(x.mapv(map).view(), &spec).unwrap());
        let largest = channel_max(x.view().into_dyn()).unwrap().mapv(map);
        prop_assert_eq!(largest, channel_max(x.mapv(map).view().into_dyn()).unwrap());
    }

    #[test]
    fn a_convolution_is_linear(x in images(), gain in -10.0..10.0_f64) {
        let weight = signed(1, (3, x.dim().1, 2, 2)).mapv(f64::from);
        let spec = Conv2dSpec { padding: [1, 0], ..Conv2dSpec::default() };
        let y = conv2d(x.view(), weight.view(), None, &spec).unwrap() * gain;
        let scaled = conv2d((&x * gain).view(), weight.view(), None, &spec).unwrap();
        prop_assert!((y - scaled).iter().all(|difference| difference.abs() < 1e-12));
    }

    #[test]
    fn a_group_is_a_convolution_of_its_own(x in images(), padding in 0..3_usize) {
        let (n, c, h, w) = x.dim();
        let pair = ndarray::concatenate![Axis(1), x, x.mapv(|v| v - 1.0)];
        let weight = signed(1, (4, c, 2, 2)).mapv(f64::from);
        let spec = Conv2dSpec { padding: [padding; 2], ..Conv2dSpec::default() };
        let grouped = Conv2dSpec { groups: 2, ..spec };
        let y = conv2d(pair.view(), weight.view(), None, &grouped).unwrap();
        prop_assert_eq!(pair.dim(), (n, 2 * c, h, w));
        for group in 0..2 {
            let part = |len: usize| (group * len..(group + 1) * len).into();
            let x = pair.slice_axis(Axis(1), part(c));
            let weight = weight.slice_axis(Axis(0), part(2));
            let alone = conv2d(x, weight, None, &spec).unwrap();
            prop_assert_eq!(y.slice_axis(Axis(1), part(2)), alone);
        }
    }

    #[test]
    fn pipelines_are_the_compositions_of_their_operators(
        seed in any::<u32>(),
        n in 1..4_usize,
        extents in (5..12_usize, 5..12_usize),
        num_groups in prop_oneof![Just(1), Just(2), Just(6)],
    ) {
        let spec = Conv2dGroupNormScaleMaxPoolClampSpec {
            in_channels: 2,
            out_channels: 6,
            group_norm: GroupNormSpec::new(num_groups),
            max_pool: MaxPool2dSpec::new([2, 3]),
            ..Conv2dGroupNormScaleMaxPoolClampSpec::kernelbench()
        };
        let mut weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec, seed.into());
        weights.scale = signed(seed.into(), 6);
        let x = fill(seed.into(), (n, 2, extents.0, extents.1));
        let fused = conv2d_group_norm_scale_max_pool_clamp(x.view(), &weights, &spec).unwrap();
        let wide = |v: &Option<Array1<f32>>| v.as_ref().unwrap().mapv(f64::from);
        let (bias, gamma) = (wide(&weights.conv_bias), wide(&weights.group_norm_weight));
        let weight = weights.conv_weight.mapv(f64::from);
        let x = x.mapv(f64::from);
        let y = conv2d(x.view(), weight.view(), Some(bias.view()), &spec.conv).unwrap();
        let y = group_norm(y.view().into_dyn(), Some(gamma.view()), None, &spec.group_norm).unwrap();
        let y = scale(y.view(), weights.scale.mapv(f64::from).view()).unwrap();
        let y = y.into_dimensionality::<Ix4>().unwrap();
        let y = max_pool2d(y.view(), &spec.max_pool).unwrap();
        let y = clamp(y.view().into_dyn(), &spec.clamp).unwrap();
        prop_assert_eq!(fused.into_dyn(), y);

        let spec = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
            in_channels: 2,
            out_channels: 3,
            ..Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::kernelbench()
        };
        let weights = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::init(&spec, seed.into());
        let x = fill(seed.into(), (n, 2, 4, extents.0, extents.1));
        let fused = conv3d_multiply_instance_norm_clamp_multiply_max(x.view(), &weights, &spec);
        let (weight, bias) = (weights.conv_weight.mapv(f64::from), wide(&weights.conv_bias));
        let multiplier = weights.multiplier.mapv(f64::from);
        let x = x.mapv(f64::from);
        let y = conv3d(x.view(), weight.view(), Some(bias.view()), &spec.conv).unwrap();
        let y = scale(y.view().into_dyn(), multiplier.view()).unwrap();
        let y = instance_norm(y.view(), None, None, &spec.instance_norm).unwrap();
        let y = clamp(y.view(), &spec.clamp).unwrap();
        let y = scale(y.view(), multiplier.view()).unwrap();
        prop_assert_eq!(fused.unwrap().into_dyn(), channel_max(y.view()).unwrap());
    }
}

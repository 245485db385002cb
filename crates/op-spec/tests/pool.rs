//! Pools: shapes, divisors, files, normal forms, and random extents.

use super::properties::extent;
use launch_config::KernelGeometry;
use op_spec::graph::{Chain, Layer, NormalForm};
use op_spec::{AdaptiveAvgPoolSpec, AvgPool2dSpec, AvgPoolSpec, MAX_ELEMENTS, MaxPool3dSpec};
use proptest::array::uniform3;
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn images_are_one_voxel_deep() {
    let spec = AvgPool2dSpec::new([2, 3]).padding([1, 0]);
    let problem = spec.problem(&[4, 5, 6, 7]).unwrap();
    assert_eq!(*problem.output_shape(), [4, 5, 4, 2]);
    let pool = problem.pool;
    assert_eq!((pool.input, pool.output), ([1, 6, 7], [1, 4, 2]));
    assert_eq!((pool.kernel_size, pool.padding), ([1, 2, 3], [0, 1, 0]));
    assert_eq!(pool.of_whole_planes(), None);
    assert_eq!(*pool.input_shape(), [4, 5, 6, 7]);
}

#[test]
fn one_window_over_everything_is_a_whole_plane() {
    let whole = |spec: AvgPoolSpec<2>| spec.problem(&[1, 2, 3, 4]).unwrap().pool.of_whole_planes();
    assert_eq!(whole(AvgPoolSpec::new([3, 4])), Some(12.0));
    let divided = AvgPoolSpec::new([3, 4]).divisor_override(-5);
    assert_eq!(whole(divided), Some(-5.0));
    let padded = AvgPoolSpec::new([3, 4]).padding([0, 1]);
    assert_eq!(whole(padded), None);
    let adaptive = AdaptiveAvgPoolSpec::<3>::default();
    let pool = adaptive.problem(&[1, 2, 3, 4, 5]).unwrap().pool;
    assert_eq!(pool.of_whole_planes(), Some(60.0));
    let maximum = MaxPool3dSpec::new([3, 4, 5]).problem(&[1, 2, 3, 4, 5]);
    assert_eq!(maximum.unwrap().pool.of_whole_planes(), None);
}

/// Reads a chain of one layer on two channels.
fn read(layer: &str) -> Result<Chain, serde_json::Error> {
    serde_json::from_str(&format!(r#"{{"in_channels":2,"layers":[{layer}]}}"#))
}

#[test]
fn pools_are_files_and_back() {
    let rows = [
        (
            r#"{"max_pool3d":{"kernel_size":[1,2,3],"stride":2,"dilation":[1,1,2]}}"#,
            Layer::from(Layer::max_pool3d([1, 2, 3]).stride(2).dilation([1, 1, 2])),
        ),
        (
            r#"{"avg_pool2d":{"kernel_size":3,"padding":1,"ceil_mode":true,"count_include_pad":false}}"#,
            Layer::avg_pool2d(3)
                .padding(1)
                .ceil_mode(true)
                .count_include_pad(false)
                .into(),
        ),
        (
            r#"{"avg_pool3d":{"kernel_size":2,"divisor_override":-3}}"#,
            Layer::avg_pool3d(2).divisor_override(-3).into(),
        ),
        (
            r#"{"adaptive_avg_pool2d":{"output_size":1}}"#,
            Layer::adaptive_avg_pool2d(1),
        ),
        (
            r#"{"adaptive_avg_pool3d":{"output_size":1}}"#,
            Layer::adaptive_avg_pool3d(1),
        ),
    ];
    for (layer, wanted) in rows {
        let chain = read(layer).unwrap();
        assert_eq!(chain.layers(), [wanted]);
        let json = format!(r#"{{"in_channels":2,"layers":[{layer}]}}"#);
        assert_eq!(serde_json::to_string(&chain).unwrap(), json);
    }
    says! {
        read(r#"{"avg_pool2d": {"kernel_size": [1, 2, 3]}}"#) => "3 entries";
        read(r#"{"avg_pool2d": {"kernel_size": 2, "dilation": 2}}"#) => "dilation";
        read(r#"{"adaptive_avg_pool2d": {}}"#) => "output_size";
        read(r#"{"adaptive_avg_pool2d": {"output_size": [1, 0]}}"#) => "output_size[1] is 0, minimum 1";
        read(r#"{"avg_pool3d": {"kernel_size": 2, "divisor_override": 0}}"#) => "divisor_override is 0";
    }
}

#[test]
fn every_pool_is_a_reduction() {
    let pool = || Layer::avg_pool2d(2);
    let chain = Chain::new(4, (Layer::scale("s"), pool(), Layer::relu(), pool())).unwrap();
    let problem = chain.problem(&[1, 4, 8, 8]).unwrap();
    let form = |layers| NormalForm::of(&problem, layers);
    assert_eq!(form(1..2).unwrap().summary().to_string(), "avg_pool2d");
    assert_eq!(
        form(0..3).unwrap().summary().to_string(),
        "scale, avg_pool2d, relu"
    );
    assert_eq!(form(1..4).unwrap_err().layer, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_are_refused_or_add_up(
        input in vec(extent(), 0..7),
        kernel_size in uniform3(extent()),
        stride in proptest::option::of(uniform3(extent())),
        padding in uniform3(extent()),
        dilation in uniform3(extent()),
        modes in uniform3(any::<bool>()),
        divisor_override in proptest::option::of(any::<i64>()),
    ) {
        let [ceil_mode, count_include_pad, _] = modes;
        let maximum = MaxPool3dSpec::new(kernel_size).stride(stride.unwrap_or(kernel_size)).padding(padding).dilation(dilation).ceil_mode(ceil_mode);
        let volumes = AvgPoolSpec::new(kernel_size).stride(stride.unwrap_or(kernel_size)).padding(padding).ceil_mode(ceil_mode).count_include_pad(count_include_pad).divisor_override(divisor_override);
        let last = |[_, h, w]: [usize; 3]| [h, w];
        let images = AvgPoolSpec::new(last(kernel_size)).stride(last(stride.unwrap_or(kernel_size))).padding(last(padding)).ceil_mode(ceil_mode).count_include_pad(count_include_pad).divisor_override(divisor_override);
        let pools = [
            maximum.problem(&input).map(|problem| problem.pool),
            volumes.problem(&input).map(|problem| problem.pool),
            images.problem(&input).map(|problem| problem.pool),
            AdaptiveAvgPoolSpec::<2>::default().problem(&input).map(|problem| problem.pool),
            AdaptiveAvgPoolSpec::<3>::default().problem(&input).map(|problem| problem.pool),
        ];
        for pool in pools.into_iter().flatten() {
            prop_assert_eq!(&pool.input_shape()[..], &input[..]);
            prop_assert!(pool.output_shape().elements() <= MAX_ELEMENTS);
            let last = pool.output.map(|extent| extent - 1);
            prop_assert!(pool.divisor(last, 1) != 0.0);
            let divisor = pool.of_whole_planes();
            prop_assert!(divisor != Some(0.0));
            if let Ok(g) = pool.geometry() {
                let outputs = pool.output_shape().elements() as u64;
                prop_assert_eq!(g.planes * g.plane_outputs(), outputs);
                for axis in 0..3 {
                    // The kernel's index sums stay below 2^32, and every window begins before the input's
                    // end.
                    let start = u64::from(g.output[axis] - 1) * u64::from(g.stride[axis]);
                    prop_assert!(start < u64::from(g.input[axis]) + u64::from(g.padding[axis]));
                    let span = u64::from(g.kernel[axis] - 1) * u64::from(g.dilation[axis]);
                    prop_assert!(span < 1 << 31 && start + span < 1 << 32);
                }
            }
        }
    }
}

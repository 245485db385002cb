//! Layers from setters, compared with the equivalent files.

use op_spec::graph::{Chain, Initialisation, Layer};
use op_spec::{MaxPool2dSpec, Padding, PaddingMode, PointwiseSpec};

fn read(layer: &str) -> Layer {
    serde_json::from_str(layer).expect(layer)
}

#[test]
fn every_attribute_has_a_method() {
    let rows: [(Layer, &str); 11] = [
        (
            Layer::conv1d("c", 4, 3).padding(Padding::Same).into(),
            r#"{"conv1d": {"name": "c", "out_channels": 4, "kernel_size": 3, "padding": "same"}}"#,
        ),
        (
            Layer::conv2d("c", 4, [3, 5])
                .stride([2, 1])
                .padding(1)
                .padding_mode(PaddingMode::Reflect)
                .dilation(2)
                .groups(2)
                .bias(false)
                .into(),
            r#"{"conv2d": {"name": "c", "out_channels": 4, "kernel_size": [3, 5], "stride": [2, 1], "padding": 1,
                "padding_mode": "reflect", "dilation": 2, "groups": 2, "bias": false}}"#,
        ),
        (
            Layer::group_norm("n", 2).eps(1e-3).affine(false).into(),
            r#"{"group_norm": {"name": "n", "num_groups": 2, "eps": 1e-3, "affine": false}}"#,
        ),
        (
            Layer::instance_norm("n").eps(1e-3).affine(true).into(),
            r#"{"instance_norm": {"name": "n", "eps": 1e-3, "affine": true}}"#,
        ),
        (
            Layer::layer_norm("n", &[4, 5])
                .eps(1e-3)
                .elementwise_affine(true)
                .bias(false)
                .into(),
            r#"{"layer_norm": {"name": "n", "normalized_shape": [4, 5], "eps": 1e-3, "bias": false}}"#,
        ),
        (
            Layer::batch_norm("n").eps(1e-3).affine(false).into(),
            r#"{"batch_norm": {"name": "n", "eps": 1e-3, "affine": false}}"#,
        ),
        (
            Layer::scale("s")
                .initialisation(Initialisation::Normal)
                .into(),
            r#"{"scale": {"name": "s", "initialisation": "normal"}}"#,
        ),
        (
            Layer::prelu("p", 4).init(0.5).into(),
            r#"{"prelu": {"name": "p", "num_parameters": 4, "init": 0.5}}"#,
        ),
        (
            Layer::max_pool2d([3, 2])
                .stride(2)
                .padding(1)
                .dilation([1, 2])
                .ceil_mode(true)
                .into(),
            r#"{"max_pool2d": {"kernel_size": [3, 2], "stride": 2, "padding": 1, "dilation": [1, 2],
                "ceil_mode": true}}"#,
        ),
        (
            Layer::avg_pool3d(2)
                .stride(1)
                .padding([1, 0, 1])
                .ceil_mode(true)
                .count_include_pad(false)
                .divisor_override(7)
                .into(),
            r#"{"avg_pool3d": {"kernel_size": 2, "stride": 1, "padding": [1, 0, 1], "ceil_mode": true,
                "count_include_pad": false, "divisor_override": 7}}"#,
        ),
        (PointwiseSpec::Relu {}.into(), r#"{"relu": {}}"#),
    ];
    for (built, file) in rows {
        assert_eq!(built, read(file), "{file}");
    }
}

#[test]
fn tuples_arrays_and_iterators_make_the_same_chain() {
    let tuple = (
        Layer::conv2d("conv", 4, 3),
        MaxPool2dSpec::new(2),
        Layer::relu(),
    );
    let array: [Layer; 3] = [tuple.0.clone().into(), tuple.1.into(), Layer::relu()];
    let chain = Chain::new(3, tuple).unwrap();
    assert_eq!(chain, Chain::new(3, array.clone()).unwrap());
    assert_eq!(chain, Chain::new(3, array.iter().cloned()).unwrap());
    assert_eq!(chain, Chain::new(3, array.to_vec()).unwrap());
    let one = Chain::new(3, [Layer::conv2d("conv", 4, 3)]).unwrap();
    assert_eq!(one, Chain::new(3, (Layer::conv2d("conv", 4, 3),)).unwrap());
}

#[test]
fn parameters_that_a_layer_leaves_out_are_known_with_their_attributes() {
    let chain = Chain::new(
        4,
        (
            Layer::conv2d("conv", 4, 1).bias(false),
            Layer::instance_norm("norm"),
            Layer::layer_norm("last", &[4, 2, 2]).bias(false),
            // An empty name is accepted only without parameters.
            Layer::group_norm("", 2).affine(false),
            Layer::scale("scale"),
        ),
    )
    .unwrap();
    let absent = chain.absent_parameters().iter();
    let absent: Vec<_> = absent
        .map(|one| (&*one.name, one.layer, one.attribute))
        .collect();
    assert_eq!(
        absent,
        [
            ("conv.bias", 0, "bias"),
            ("norm.weight", 1, "affine"),
            ("norm.bias", 1, "affine"),
            ("last.bias", 2, "bias"),
        ]
    );
    let names: Vec<&str> = chain.layers().iter().map(Layer::name).collect();
    assert_eq!(names, ["conv", "norm", "last", "", "scale"]);
}

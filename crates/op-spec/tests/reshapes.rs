//! Reshapes of samples, padding, and layers of the channels of each position.

use op_spec::graph::{Chain, GateLayer, Graph, Layer, NormalForm};
use op_spec::{Layout, PadSpec, PaddingMode};

use super::layers::{read, written};

/// Returns the shape of a single layer's output.
fn output(layer: impl Into<Layer>, input: &[usize]) -> Vec<usize> {
    let chain = Chain::new(input[1], [layer.into()]).unwrap();
    chain.problem(input).unwrap().output_shape().to_vec()
}

#[test]
fn shapes_are_those_of_pytorch() {
    assert_eq!(
        output(Layer::reshape(&[4, -1, 3]), &[2, 6, 10]),
        [2, 4, 5, 3]
    );
    assert_eq!(output(Layer::reshape(&[-1]), &[0, 6, 10]), [0, 60]);
    assert_eq!(output(Layer::reshape(&[-1, 1]), &[2, 6, 0]), [2, 0, 1]);
    assert_eq!(
        output(Layer::reshape(&[3, 2, 1, 1]), &[2, 6]),
        [2, 3, 2, 1, 1]
    );
    assert_eq!(output(Layer::pad([1, 2]), &[2, 3, 5]), [2, 3, 8]);
    assert_eq!(
        output(Layer::pad([1, 2, 3, 4]), &[2, 3, 5, 7]),
        [2, 3, 12, 10]
    );
    let volume = output(Layer::pad([1, 2, 3, 4, 5, 6]), &[2, 3, 5, 7, 9]);
    assert_eq!(volume, [2, 3, 16, 14, 12]);
    assert_eq!(
        output(Layer::pad([1, 0, 0, 1]), &[2, 3, 0, 4]),
        [2, 3, 1, 5]
    );
    assert_eq!(
        output(Layer::linear("l", 3, 5).dim(1), &[2, 3, 4, 6]),
        [2, 5, 4, 6]
    );
    assert_eq!(output(Layer::linear("l", 3, 5).dim(1), &[2, 3]), [2, 5]);
    assert_eq!(
        output(Layer::layer_norm("n", &[3]).dim(1), &[2, 3, 4, 6]),
        [2, 3, 4, 6]
    );
}

#[test]
fn what_follows_sees_the_channels_of_another_shape() {
    let layers = |shape: &[isize]| {
        [
            Layer::reshape(shape),
            Layer::from(Layer::conv2d("conv", 5, 1)),
        ]
    };
    let chain = Chain::new(24, layers(&[6, 2, -1])).unwrap();
    assert_eq!(chain.parameters()[0].shape, [5, 6, 1, 1]);
    assert_eq!(
        chain.problem(&[3, 24, 4]).unwrap().output_shape(),
        [3, 5, 2, 8]
    );
    says! {
        Chain::new(24, layers(&[-1, 2, 2])) => "layer 1: conv2d: the input has no channels, or not known how many";
        Chain::new(24, layers(&[6, -1])) => "layer 1: conv2d: spatial dimensions are 1, expected 2";
    }
    let norm = Layer::layer_norm("norm", &[24]).dim(1);
    let map = Layer::linear("map", 24, 7).dim(1);
    let next = Layer::conv2d("next", 2, 3);
    let chain = Chain::new(24, (norm, map, next)).unwrap();
    let shapes = chain.parameters().iter().map(|one| &one.shape[..]);
    let wanted: [&[usize]; 6] = [&[24], &[24], &[7, 24], &[7], &[2, 7, 3, 3], &[2]];
    assert!(shapes.eq(wanted));
    // The linear map is a convolution and may be followed by a function.
    let problem = chain.problem(&[1, 24, 5, 5]).unwrap();
    let form = NormalForm::of(&problem, [1]).unwrap();
    assert_eq!(form.summary().to_string(), "convolution");
}

#[test]
fn a_gate_of_positions_has_one_channel() {
    let of = |channels: usize| {
        Graph::builder("x", 6)
            .layer("map", "x", Layer::conv2d("map", channels, 1))
            .layer("y", "x", GateLayer::new("map").dim(1))
            .build("y")
    };
    let graph = of(1).unwrap();
    assert_eq!(
        graph.problem(&[2, 6, 3, 4]).unwrap().output_shape(),
        [2, 6, 3, 4]
    );
    says! {
        of(6) => "gate: residual[1] is 6, expected 1";
    }
    let chain = Chain::new(6, [GateLayer::new("g").dim(1)]).unwrap();
    let problem = chain.problem(&[2, 6, 3, 4]).unwrap();
    assert_eq!(problem.inputs[0].shape, [2, 1, 3, 4]);
}

#[test]
fn files_have_attributes_under_their_names() {
    for layer in [
        r#"{"reshape":{"shape":[3,-1]}}"#,
        r#"{"pad":{"padding":[1,2,3,4],"padding_mode":"reflect"}}"#,
        r#"{"gate":{"input":"g","dim":1}}"#,
        r#"{"linear":{"name":"l","in_features":3,"out_features":4,"dim":1}}"#,
        r#"{"layer_norm":{"name":"n","normalized_shape":[3],"eps":0.5,"dim":1}}"#,
    ] {
        assert_eq!(written(&read(layer).unwrap()), layer);
    }
    let zeros = read(r#"{"pad":{"padding":[1,2]}}"#).unwrap();
    assert_eq!(zeros.layers()[0], Layer::from(Layer::pad([1, 2])));
    says! {
        read(r#"{"pad":{"padding":[1,2,3]}}"#)
            => "layer 0: pad: padding: expected a list of two numbers for each spatial axis, the last axis first";
        read(r#"{"pad":{"padding":[1,-2]}}"#) => "expected a list of two numbers";
        read(r#"{"reshape":{"shape":[1.5]}}"#) => "layer 0: reshape: shape: invalid type: floating point";
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let reshape = |shape: &[isize], input: &[usize]| {
        Chain::new(6, [Layer::reshape(shape)]).map(|chain| chain.problem(input).map(drop))
    };
    says! {
        reshape(&[], &[2, 6]) => "layer 0: reshape: shape has rank 0, minimum 1";
        reshape(&[1, 1, 1, 1, 6], &[2, 6]) => "layer 0: reshape: shape has rank 5, limit 4";
        reshape(&[0, 6], &[2, 6]) => "layer 0: reshape: shape[0] is 0, minimum 1, or -1 once";
        reshape(&[-1, -1], &[2, 6]) => "layer 0: reshape: shape[1] is -1, minimum 1, or -1 once";
        reshape(&[3, -2], &[2, 6]) => "layer 0: reshape: shape[1] is -2, minimum 1, or -1 once";
        reshape(&[isize::MAX, 2], &[2, 6]) => "layer 0: reshape: output has more elements";
        reshape(&[4, 2], &[2, 6]).unwrap() => "layer 0: reshape: a sample has 6 elements, expected 8 by shape";
        reshape(&[4, -1], &[2, 6]).unwrap()
            => "layer 0: reshape: a sample has 6 elements, expected a multiple of 4 by shape";
        reshape(&[6], &[6]).unwrap() => "layer 0: reshape: input has rank 1, minimum 2";
    }
    let reflect = |padding: [usize; 4]| PadSpec::new(padding).padding_mode(PaddingMode::Reflect);
    let around = PadSpec::new([4, 0, 0, 0]).padding_mode(PaddingMode::Circular);
    refused! {
        PadSpec::new([1, 1]).problem(&[2, 3, 4, 5]) => "pad: input has rank 4, expected 3";
        PadSpec::new([1, 1, 1, 1]).problem(&[]) => "pad: input has rank 0, expected 4";
        reflect([0, 4, 0, 0]).problem(&[2, 3, 5, 4])
            => "pad: padding[1] is 4, limit 3 with padding_mode reflect";
        reflect([0, 0, 1, 0]).problem(&[2, 3, 0, 4]) => "pad: input[2] is 0, minimum 1";
        around.problem(&[2, 3, 5, 3]) => "pad: padding[0] is 4, limit 3 with padding_mode circular";
        PadSpec::new([usize::MAX, 1]).problem(&[2, 3, 5])
            => "pad: padded input has more elements than memory addresses, limit 2305843009213693951";
        PadSpec::new([usize::MAX >> 4, 1]).problem(&[2, 3, 5])
            => "pad: output has more elements than memory addresses, limit 2305843009213693951";
    }
    let norm = |layer: op_spec::graph::LayerNormLayer| Chain::new(6, [layer]);
    let map = Layer::linear("l", 6, 2);
    says! {
        norm(Layer::layer_norm("n", &[6]).dim(2)) => "layer_norm: dim is 2, expected 1 (the channels)";
        norm(Layer::layer_norm("n", &[6, 5]).dim(1)) => "layer_norm: normalized_shape has rank 2, expected 1";
        norm(Layer::layer_norm("n", &[5]).dim(1)) => "layer_norm: normalized_shape";
        Chain::new(6, [GateLayer::new("g").dim(2)]) => "gate: dim is 2, expected 1 (the channels)";
        Chain::new(6, [map.clone().dim(0)]) => "linear: dim is 0, expected 1 (the channels)";
        Chain::new(5, [map.clone().dim(1)]) => "linear: input[1] is 5, expected 6";
        Chain::new(6, [map.clone()]).unwrap().problem(&[2, 6, 4]) => "linear: input has rank 3";
        Chain::new(6, [map.dim(1)]).unwrap().problem(&[2, 6, 4, 4, 4, 4]) => "linear: input has rank 6, limit 5";
    }
}

#[test]
fn planes_are_those_of_memory() {
    let planes = |spec: PadSpec, input: &[usize], layout| {
        let problem = spec.problem(input).unwrap();
        let planes = problem.planes(layout);
        planes.map(|(pad, planes)| (pad.inner, pad.before, pad.outer(), planes))
    };
    let image = PadSpec::new([1, 2, 3, 4]);
    let nchw = ([1, 5, 7], [0, 3, 1], [1, 12, 10], 6);
    assert_eq!(planes(image, &[2, 3, 5, 7], Layout::Nchw), Some(nchw));
    let nhwc = ([5, 7, 3], [3, 1, 0], [12, 10, 3], 2);
    assert_eq!(planes(image, &[2, 3, 5, 7], Layout::Nhwc), Some(nhwc));
    let volume = PadSpec::new([1, 2, 3, 4, 5, 6]);
    let of = [2, 3, 7, 8, 9];
    let nhwc = ([7, 8, 27], [5, 3, 3], [18, 15, 36], 2);
    assert_eq!(planes(volume, &of, Layout::Nhwc), Some(nhwc));
    let edges = volume.padding_mode(PaddingMode::Replicate);
    assert_eq!(planes(edges, &of, Layout::Nhwc), None);
}

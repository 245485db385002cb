//! Upsampling refuses and accepts the same as PyTorch, and its files use PyTorch's names.

use op_spec::graph::{Chain, Layer};
use op_spec::{UpsampleMode, UpsampleSpec};

#[test]
fn sizes_and_factors_are_of_all_axes_or_of_each() {
    let output =
        |spec: UpsampleSpec, input: &[usize]| spec.problem(input).unwrap().output_shape().to_vec();
    assert_eq!(
        output(UpsampleSpec::scale_factor(2.0), &[2, 3, 5]),
        [2, 3, 10]
    );
    assert_eq!(
        output(UpsampleSpec::scale_factor([1.5, 0.6]), &[0, 3, 5, 7]),
        [0, 3, 7, 4]
    );
    assert_eq!(
        output(UpsampleSpec::size(4), &[2, 3, 5, 6, 7]),
        [2, 3, 4, 4, 4]
    );
    let bilinear = UpsampleSpec::size([9, 1]).mode(UpsampleMode::Bilinear);
    assert_eq!(output(bilinear, &[2, 3, 5, 7]), [2, 3, 9, 1]);
}

/// Expected values from `torch.nn.functional.interpolate` of `arange`: indices, and weights of the values
/// behind.
#[test]
fn positions_are_pytorchs() {
    let sources = |spec: UpsampleSpec, extent: usize| {
        let problem = spec.problem(&[1, 1, extent]).unwrap();
        let outputs = 0..problem.output[2] as u32;
        let source = |output| problem.axes[2].source(output, extent as u32);
        outputs.map(source).collect::<Vec<_>>()
    };
    let indices = |spec, extent| {
        sources(spec, extent)
            .iter()
            .map(|of| of.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        indices(UpsampleSpec::scale_factor(2.0), 3),
        [0, 0, 1, 1, 2, 2]
    );
    assert_eq!(
        indices(UpsampleSpec::scale_factor(1.7), 5),
        [0, 0, 1, 1, 2, 2, 3, 4]
    );
    assert_eq!(indices(UpsampleSpec::size(8), 5), [0, 0, 1, 1, 2, 3, 3, 4]);
    let exact = UpsampleSpec::size(3).mode(UpsampleMode::NearestExact);
    assert_eq!(indices(exact, 8), [1, 4, 6]);
    let linear = UpsampleSpec::scale_factor(2.0).mode(UpsampleMode::Linear);
    assert_eq!(
        sources(linear, 2),
        [(0, 0.0), (0, 0.25), (0, 0.75), (1, 0.25)]
    );
    let corners = UpsampleSpec::size(5)
        .mode(UpsampleMode::Linear)
        .align_corners(true);
    assert_eq!(
        sources(corners, 3),
        [(0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (2, 0.0)]
    );
    let one = UpsampleSpec::size(1)
        .mode(UpsampleMode::Linear)
        .align_corners(true);
    assert_eq!(sources(one, 3), [(0, 0.0)]);
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let of = |spec: UpsampleSpec, input: &[usize]| spec.problem(input);
    let read = |text: &str| serde_json::from_str::<UpsampleSpec>(text).unwrap();
    let bilinear = UpsampleSpec::scale_factor(2.0).mode(UpsampleMode::Bilinear);
    refused! {
        of(read("{}"), &[1, 2, 3]) => "upsample: size and scale_factor are both absent, expected one of them";
        of(read(r#"{"size":2,"scale_factor":1.5}"#), &[1, 2, 3])
            => "upsample: size and scale_factor are both given, expected one of them";
        of(UpsampleSpec::size(2).align_corners(true), &[1, 2, 3])
            => "upsample: align_corners is true with mode nearest, expected a mode that interpolates";
        of(bilinear, &[1, 2, 3]) => "upsample: input has rank 3, expected 4";
        of(UpsampleSpec::size([2, 3]), &[1, 2, 3, 4, 5]) => "upsample: input has rank 5, expected 4";
        of(UpsampleSpec::size([2, 3]).mode(UpsampleMode::Linear), &[1, 2, 3])
            => "upsample: entries of size is 2, expected 1";
        of(UpsampleSpec::size(2), &[1, 2]) => "upsample: input has rank 2, minimum 3";
        of(UpsampleSpec::size(2), &[1]) => "upsample: input has rank 1, minimum 3";
        of(UpsampleSpec::size(2), &[1, 2, 3, 4, 5, 6]) => "upsample: input has rank 6, limit 5";
        of(UpsampleSpec::size(2), &[1, 2, 3, 0]) => "upsample: input[3] is 0, minimum 1";
        of(UpsampleSpec::scale_factor(0.2), &[1, 2, 4]) => "upsample: output[2] is 0, minimum 1";
        of(UpsampleSpec::scale_factor([1.0, -2.0]), &[1, 2, 4, 4])
            => "upsample: scale_factor[1] is -2, expected a finite number above 0";
        of(UpsampleSpec::scale_factor(f64::NAN), &[1, 2, 4])
            => "upsample: scale_factor[0] is NaN, expected a finite number above 0";
    }
    says! {
        of(UpsampleSpec::scale_factor(1e300), &[1, 2, 4]) => "upsample: output has more elements";
        Chain::new(3, [Layer::from(Layer::conv3d("c", 2, 1)), Layer::upsample(bilinear)])
            => "layer 1: upsample: spatial dimensions are 3, expected 2";
    }
}

#[test]
fn an_upsampling_is_a_file_and_back() {
    let spec = UpsampleSpec::scale_factor([2.0, 1.5]).mode(UpsampleMode::Bilinear);
    let chain = Chain::new(3, [Layer::upsample(spec.align_corners(true))]).unwrap();
    let file = serde_json::to_string(&chain).unwrap();
    assert_eq!(
        file,
        r#"{"in_channels":3,"layers":[{"upsample":{"scale_factor":[2.0,1.5],"mode":"bilinear","align_corners":true}}]}"#
    );
    assert_eq!(serde_json::from_str::<Chain>(&file).unwrap(), chain);
    // Without a batch an image has three axes.
    assert_eq!(chain.problem(&[3, 4, 4]).unwrap().output_shape(), [3, 8, 6]);
}

//! The layers at the end of classifiers: flatten and linear.

use op_spec::graph::{Chain, Layer, NormalForm};

use super::layers::{read, written};

#[test]
fn a_classifier_is_flattened_and_linear() {
    let head = |in_features| {
        Chain::new(
            3,
            (
                Layer::conv2d("conv", 8, 3),
                Layer::flatten(),
                Layer::relu(),
                Layer::linear("fc1", in_features, 5),
                Layer::batch_norm("bn"),
                Layer::linear("fc2", 5, 2).bias(false),
            ),
        )
    };
    let chain = head(8 * 4 * 6).unwrap();
    let problem = chain.problem(&[2, 3, 6, 8]).unwrap();
    let outputs: Vec<&[usize]> = problem.steps.iter().map(|step| &step.output[..]).collect();
    let wanted = [
        &[2, 8, 4, 6][..],
        &[2, 192],
        &[2, 192],
        &[2, 5],
        &[2, 5],
        &[2, 2],
    ];
    assert_eq!(outputs, wanted);
    let shapes = chain
        .parameters()
        .iter()
        .map(|one| (&*one.name, one.shape.clone()));
    let shapes: Vec<_> = shapes.collect();
    assert!(
        shapes.contains(&("fc1.weight", vec![5, 192])) && shapes.contains(&("bn.weight", vec![5]))
    );
    assert!(!shapes.iter().any(|(name, _)| *name == "fc2.bias"));
    assert_eq!(chain.absent_parameters()[0].name, "fc2.bias");
    let json = serde_json::to_string(&chain).unwrap();
    assert_eq!(serde_json::from_str::<Chain>(&json).unwrap(), chain);
    assert_eq!(
        written(
            &read(r#"{"linear":{"name":"l","in_features":3,"out_features":2,"bias":true}}"#)
                .unwrap()
        ),
        r#"{"linear":{"name":"l","in_features":3,"out_features":2}}"#
    );
    // A flatten is a form by itself, and a linear map is a convolution.
    let form = |layers: std::ops::Range<usize>| NormalForm::of(&problem, layers);
    assert!(form(0..2).is_err() && form(1..3).is_err() && form(1..2).is_ok());
    assert_eq!(
        form(3..5).unwrap().summary().to_string(),
        "convolution, batch_norm"
    );
    // A linear layer accepts a vector, a matrix without a batch. Behind a flatten there is always a batch.
    let alone = Chain::new(4, [Layer::linear("l", 4, 3)]).unwrap();
    assert_eq!(alone.problem(&[4]).unwrap().output_shape(), [3]);
    assert_eq!(alone.problem(&[7, 4]).unwrap().output_shape(), [7, 3]);
    let of = |layers: Vec<Layer>| Chain::new(3, layers);
    let flattened = |layer: Layer| of(vec![Layer::flatten(), layer]);
    says! {
        chain.problem(&[2, 3, 6, 9]) => "layer 3: linear: input[1] is 224, expected 192";
        chain.problem(&[3, 6, 8]) => "layer 1: flatten: the input has rank 3 and no batch, expected rank 4";
        alone.problem(&[7, 5]) => "layer 0: linear: input[1] is 5, expected 4";
        alone.problem(&[7, 4, 1]) => "layer 0: linear: input has rank 3, expected 2";
        flattened(Layer::linear("l", 4, 3).into()).unwrap().problem(&[3]) => "layer 0: flatten: input has rank 1, minimum 2";
        of(vec![Layer::linear("l", 4, 3).into()]) => "layer 0: linear: input[1] is 3, expected 4";
        of(vec![Layer::linear("l", 3, 0).into()]) => "layer 0: linear: out_features is 0, minimum 1";
        of(vec![Layer::adaptive_avg_pool2d(1), Layer::linear("l", 3, 2).into()])
            => "layer 1: linear: spatial dimensions are 2, expected 0";
        flattened(Layer::batch_norm("bn").into()) => "layer 1: batch_norm: the input has no channels";
        flattened(Layer::conv2d("c", 1, 1).into()) => "layer 1: conv2d: the input has no channels";
        read(r#"{"linear":{"name":"l","in_features":3}}"#) => "layer 0: linear: missing field `out_features`";
        read(r#"{"flatten":{"start_dim":1}}"#) => "layer 0: flatten: unknown field `start_dim`";
    }
    // Flattening a matrix keeps the number of channels known.
    let layers = vec![
        Layer::linear("l", 3, 2).into(),
        Layer::flatten(),
        Layer::scale("s").into(),
    ];
    assert!(of(layers).is_ok());
}

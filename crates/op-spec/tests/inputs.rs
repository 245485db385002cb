//! Chains with further inputs: the residuals that layers add.

use op_spec::graph::{Chain, ConvLayer, GraphError, Layer, NormalForm, Operand, Pointwise};
use op_spec::{ArithmeticOp, ArithmeticOperand, ArithmeticProblem, ArithmeticSpec};

fn block() -> Vec<Layer> {
    let conv = ConvLayer::new("conv", 8, [3, 3]);
    vec![
        Layer::from(conv),
        Layer::from(Layer::group_norm("norm", 4)),
        Layer::add("shortcut"),
        Layer::relu(),
        Layer::from(Layer::max_pool2d(2)),
        Layer::add("late"),
        Layer::add("late"),
    ]
}

#[test]
fn further_inputs_are_named_once_and_have_the_shapes_of_their_places() {
    let chain = Chain::new(8, block()).unwrap();
    assert_eq!(chain.inputs(), ["shortcut", "late"]);
    let of_layers: Vec<&[Operand]> = (0..7).map(|layer| &chain.operands(layer)[1..]).collect();
    let [first, second] = [&[Operand::Input(1)][..], &[Operand::Input(2)]];
    assert_eq!(of_layers, [&[], &[], first, &[], &[], second, second]);
    let problem = chain.problem(&[3, 8, 12, 14]).unwrap();
    let shapes: Vec<(&str, &[usize])> = (problem.inputs.iter())
        .map(|input| (&*input.name, &*input.shape))
        .collect();
    assert_eq!(
        shapes,
        [("shortcut", &[3, 8, 10, 12][..]), ("late", &[3, 8, 5, 6])]
    );
    assert!(chain.parameters_of(2).is_empty());
    let without = Chain::new(8, [Layer::relu()]).unwrap();
    assert!(without.inputs().is_empty());
}

#[test]
fn a_residual_has_a_name_and_one_shape() {
    refused! {
        Chain::new(8, (Layer::relu(), Layer::add("")))
            => "layer 1: add: input is empty, the chain's further inputs have names";
    }
    let pool = Layer::max_pool2d(2);
    let chain = Chain::new(8, (Layer::add("r"), pool, Layer::add("r"))).unwrap();
    let shared = chain.problem(&[1, 8, 4, 6]);
    assert!(matches!(
        shared,
        Err(GraphError::SharedInput { layer: 2, .. })
    ));
    refused! {
        shared => "layer 2: input r would have shape [1, 8, 2, 3], an earlier layer takes it with shape [1, 8, 4, 6]";
    }
    // One input may be added twice if both places have the same shape.
    let chain = Chain::new(8, (Layer::add("r"), Layer::add("r"))).unwrap();
    assert_eq!(chain.problem(&[1, 8, 4, 6]).unwrap().inputs.len(), 1);
}

#[test]
fn shapes_that_pytorch_would_repeat_are_refused() {
    let add = ArithmeticSpec::new(ArithmeticOp::Add);
    let sub = ArithmeticSpec::new(ArithmeticOp::Sub);
    refused! {
        add.problem(&[2, 3, 4], &[3, 4]) => "add: other[1] is 4, expected 1";
        add.problem(&[2, 3, 4], &[2, 1, 4]) => "add: other[0] is 2, expected 1";
        add.problem(&[2, 3, 4], &[2, 1]) => "add: other[0] is 2, expected 3";
        sub.problem(&[3, 4], &[1, 1, 1]) => "sub: other has rank 3, limit 2";
    }
    assert_eq!(add.problem(&[2, 3, 4], &[2, 3, 4]).unwrap().len(), 24);
    assert_eq!(add.problem(&[], &[]).unwrap().len(), 1);
    let huge = [1 << 40, 1 << 40];
    assert!(add.problem(&huge, &huge).is_err());
    let values = |input: &[usize], other: &[usize]| match sub.problem(input, other).unwrap() {
        ArithmeticProblem {
            operand: ArithmeticOperand::Channels { values, .. },
            ..
        } => values,
        other => panic!("{other:?}"),
    };
    for other in [&[3, 1, 1][..], &[1, 3, 1, 1]] {
        assert_eq!(values(&[2, 3, 4, 5], other), 3);
    }
    for other in [&[][..], &[1], &[1, 1, 1]] {
        assert_eq!(values(&[2, 3, 4, 5], other), 1);
    }
    assert_eq!((values(&[5, 4], &[4]), values(&[4], &[1])), (4, 1));
}

#[test]
fn a_residual_is_a_file_and_back() {
    let chain = Chain::new(2, (Layer::add("shortcut"), Layer::relu())).unwrap();
    let json = r#"{"in_channels":2,"layers":[{"add":{"input":"shortcut"}},{"relu":{}}]}"#;
    assert_eq!(serde_json::to_string(&chain).unwrap(), json);
    assert_eq!(serde_json::from_str::<Chain>(json).unwrap(), chain);
    let read = |attributes: &str| {
        let json = format!(r#"{{"in_channels": 2, "layers": [{{"add": {attributes}}}]}}"#);
        serde_json::from_str::<Chain>(&json)
    };
    says! {
        read("{}") => "add: missing field `value`, `name`, `input` or `layer`";
        read(r#"{"input": "r", "value": 2}"#) => "add: expected only one of value, name, input and layer";
        read(r#"{"input": "r", "layer": 0}"#)
            => "add: expected only one of value, name, input and layer";
        read(r#"{"input": "r", "alpha": 2}"#) => "unknown field `alpha`";
        read(r#"{"value": 2, "shape": [1]}"#)
            => "add: shape and initialisation are those of a parameter, which has a name";
        read(r#"{"name": "r", "shape": [3]}"#)
            => "add: the product of shape is 3, expected 1 or 2, the number of channels";
        read(r#"{"input": ""}"#) => "input is empty";
    }
}

#[test]
fn the_normal_form_says_where_a_residual_is_added() {
    let chain = Chain::new(8, block()).unwrap();
    let problem = chain.problem(&[3, 8, 12, 14]).unwrap();
    let form = NormalForm::of(&problem, 0..7).unwrap();
    assert_eq!(
        form.summary().to_string(),
        "convolution, moments of 4 groups, affine, add, relu, max_pool2d, add, add"
    );
    assert!(matches!(
        form.epilogue.list[..],
        [(2, Pointwise::Residual(_)), (3, Pointwise::Function(_))]
    ));
    let (mut list, mut after) = (form.epilogue.list.iter(), form.epilogue.after.iter());
    assert!(list.all(|(layer, of)| of.keeps_order() == (*layer == 3)));
    assert!(after.all(|(_, of)| of.as_clamp().is_none()));
    // A norm cannot follow a sum, and factors before the sum belong to no norm.
    let layers = [
        Layer::from(Layer::scale("s")),
        Layer::add("r"),
        Layer::from(Layer::group_norm("n", 2)),
    ];
    let chain = Chain::new(8, layers).unwrap();
    let problem = chain.problem(&[1, 8, 5]).unwrap();
    assert_eq!(NormalForm::of(&problem, 0..3).unwrap_err().layer, 2);
    let form = NormalForm::of(&problem, 0..2).unwrap();
    assert_eq!(form.summary().to_string(), "scale, add");
}

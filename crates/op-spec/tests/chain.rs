//! Chains: shapes, parameters, refusals, files, partitions, normal forms.

use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::graph::{
    BroadcastParameter, Chain, ConvLayer, GraphError, Initialisation, Layer, NormalForm, Partition,
    Pointwise, Reduction,
};
use op_spec::{ClampSpec, GeluApproximation, MaxPool2dSpec, PointwiseSpec, SpecError};

fn chain_85() -> Chain {
    KernelBench85::default().chain().unwrap()
}

fn chain_79() -> Chain {
    KernelBench79::default().chain().unwrap()
}

/// Reads a chain from a file.
fn read(json: &str) -> Result<Chain, serde_json::Error> {
    serde_json::from_str(json)
}

fn written(chain: &Chain) -> String {
    serde_json::to_string(chain).unwrap()
}

/// Reads a chain of these layers on two channels.
fn of_layers(layers: &str) -> Result<Chain, serde_json::Error> {
    read(&format!(r#"{{"in_channels":2,"layers":[{layers}]}}"#))
}

#[test]
fn shapes_follow_from_the_input() {
    let shapes = |chain: &Chain, input: &[usize]| -> Vec<Vec<usize>> {
        let steps = chain.problem(input).unwrap().steps;
        steps.into_iter().map(|step| step.output).collect()
    };
    let of_85 = shapes(&chain_85(), &KernelBench85::INPUT);
    assert_eq!(of_85[0], [128, 64, 126, 126]);
    assert_eq!(of_85[4], [128, 64, 31, 31]);
    let of_79 = shapes(&chain_79(), &KernelBench79::INPUT);
    assert_eq!(of_79[4], [128, 16, 14, 30, 30]);
    assert_eq!(of_79[5], [128, 14, 30, 30]);
}

#[test]
fn parameters_are_pytorchs_each_once() {
    let names = |chain: &Chain| -> Vec<String> {
        let parameters = chain.parameters().iter();
        parameters.map(|parameter| parameter.name.clone()).collect()
    };
    let of_85 = chain_85();
    let norm = ["group_norm.weight", "group_norm.bias", "scale"];
    assert_eq!(
        names(&of_85),
        [&["conv.weight", "conv.bias"][..], &norm].concat()
    );
    assert_eq!(of_85.parameters()[4].shape, [64, 1, 1]);
    assert_eq!(
        of_85.parameters()[1].initialisation,
        Initialisation::Uniform { fan_in: 72 }
    );
    let of_79 = chain_79();
    assert_eq!(names(&of_79), ["conv.weight", "conv.bias", "multiplier"]);
    // Both products take the same factor.
    assert_eq!(of_79.parameters_of(1), of_79.parameters_of(4));
    assert_eq!(of_79.parameters()[2].shape, [16, 1, 1, 1]);
    // A parameter's random stream does not depend on the presence of other parameters.
    let bare = KernelBench79 {
        bias: false,
        ..KernelBench79::default()
    };
    let bare = bare.chain().unwrap();
    assert_eq!(bare.parameters()[1].stream, of_79.parameters()[2].stream);
}

#[test]
fn what_no_input_can_mend_is_refused_at_once() {
    let of = |layers: &[Layer]| Chain::new(8, layers.to_vec());
    let mut strided = ConvLayer::new("conv", 4, [3, 3]);
    strided.attributes.stride = [1, 0];
    let volumes = Layer::conv3d("conv", 4, 3);
    let pool = MaxPool2dSpec::new(3);
    refused! {
        of(&[]) => "graph: layers are none, minimum 1";
        of(&[Layer::group_norm("norm", 3).into()])
            => "layer 0: group_norm: channels is 8, which is not a multiple of num_groups 3";
        of(&[Layer::from(strided)]) => "layer 0: conv2d: stride[1] is 0, minimum 1";
        of(&[volumes.into(), Layer::from(pool)])
            => "layer 1: max_pool2d: spatial dimensions are 3, expected 2";
    }
    let late = [
        Layer::from(Layer::max(&[1])),
        Layer::clamp(0.0, 1.0),
        Layer::from(Layer::scale("scale")),
    ];
    let padded = Layer::from(pool.padding([2, 0]));
    says! {
        of(&late) => "layer 2: scale: the input has no channels";
        of(&[Layer::scale("").into()]) => "name is empty";
        of(&[padded]) => "padding[0] is 2";
    }
}

#[test]
fn layers_that_share_a_parameter_must_agree_about_it() {
    let conv = Layer::conv2d("conv", 4, 3);
    refused! {
        Chain::new(8, (Layer::scale("factor"), conv, Layer::scale("factor")))
            => "layer 2: factor has shape [4, 1, 1], an earlier layer shares it with shape [8, 1, 1]";
    }
    let chain = Chain::new(8, (Layer::scale("factor"), Layer::scale("factor"))).unwrap();
    assert_eq!(chain.parameters().len(), 1);
}

#[test]
fn an_input_that_does_not_fit_is_refused_by_the_layer_that_finds_it() {
    let error = chain_85().problem(&[1, 8, 5, 5]).unwrap_err();
    assert!(matches!(
        error,
        GraphError::Layer {
            layer: 3,
            source: SpecError::WindowTooLarge { .. }
        }
    ));
    refused! { chain_85().problem(&[1, 7, 9, 9]) => "layer 0: conv2d: input[1] is 7, expected 8"; }
    assert!(chain_85().problem(&[1, 8, 9, 9, 9]).is_err());
    assert!(chain_85().problem(&[]).is_err());
}

#[test]
fn a_wrong_number_of_channels_is_refused_in_words() {
    let error = read(r#"{"in_channels": "two", "layers": []}"#).unwrap_err();
    let wanted = "in_channels: invalid type: string \"two\", expected a whole number";
    assert!(error.to_string().starts_with(wanted), "{error}");
}

#[test]
fn a_chain_is_a_file_and_back() {
    for chain in [chain_85(), chain_79()] {
        assert_eq!(read(&written(&chain)).unwrap(), chain);
    }
    // Attributes that differ from axis to axis, and one number for all.
    let json = r#"{"in_channels": 2, "layers": [
        {"conv2d": {"name": "c", "out_channels": 4, "kernel_size": [1, 7], "padding": [0, 3], "bias": false}},
        {"max_pool2d": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": true}},
        {"clamp": {"min": 0}}]}"#;
    let chain = read(json).unwrap();
    let problem = chain.problem(&[1, 2, 8, 8]).unwrap();
    assert_eq!(problem.output_shape(), [1, 4, 5, 5]);
    assert_eq!(read(&written(&chain)).unwrap(), chain);
}

#[test]
fn a_pointwise_function_is_written_under_its_own_name() {
    let chain = Chain::new(2, (Layer::relu(), Layer::clamp(0.0, 1.0))).unwrap();
    let json = r#"{"in_channels":2,"layers":[{"relu":{}},{"clamp":{"min":0.0,"max":1.0}}]}"#;
    assert_eq!(written(&chain), json);
    assert_eq!(read(json).unwrap(), chain);
    assert_eq!(chain.operators(), "relu clamp");
    let problem = chain.problem(&[1, 2, 3]).unwrap();
    let form = NormalForm::of(&problem, 0..1).unwrap();
    assert_eq!(form.summary().to_string(), "relu");
    let clamp = form.epilogue.list[0].1.as_clamp().unwrap();
    assert_eq!((clamp.min, clamp.max), (0.0, f64::INFINITY));
}

#[test]
fn attributes_that_pytorch_has_defaults_for_may_be_left_out() {
    let tanh = Layer::gelu(GeluApproximation::Tanh);
    let rows = [
        (r#"{"leaky_relu":{}}"#, Layer::leaky_relu(0.01)),
        (
            r#"{"leaky_relu":{"negative_slope":-2}}"#,
            Layer::leaky_relu(-2.0),
        ),
        (r#"{"silu":{}}"#, Layer::silu()),
        (r#"{"gelu":{}}"#, Layer::gelu(GeluApproximation::None)),
        (r#"{"gelu":{"approximate":"tanh"}}"#, tanh),
        (r#"{"sigmoid":{}}"#, Layer::sigmoid()),
        (r#"{"tanh":{}}"#, Layer::tanh()),
        (r#"{"hardswish":{}}"#, Layer::hardswish()),
        (r#"{"elu":{}}"#, Layer::elu(1.0)),
        (r#"{"elu":{"alpha":0.5}}"#, Layer::elu(0.5)),
        (r#"{"softplus":{}}"#, Layer::softplus(1.0, 20.0)),
        (r#"{"softplus":{"beta":-2}}"#, Layer::softplus(-2.0, 20.0)),
        (r#"{"mish":{}}"#, Layer::mish()),
        (r#"{"hardtanh":{}}"#, Layer::hardtanh(-1.0, 1.0)),
        (r#"{"hardtanh":{"max_val":6}}"#, Layer::hardtanh(-1.0, 6.0)),
        (r#"{"hardsigmoid":{}}"#, Layer::hardsigmoid()),
        (r#"{"add":{"value":0.5}}"#, Layer::add(0.5)),
        (r#"{"sub":{"value":2}}"#, Layer::sub(2.0)),
        (
            r#"{"sub":{"name":"b"}}"#,
            Layer::sub(BroadcastParameter::new("b")),
        ),
        (
            r#"{"div":{"name":"d","shape":[2,1,1],"initialisation":"normal"}}"#,
            Layer::div(
                BroadcastParameter::new("d")
                    .shape(&[2, 1, 1])
                    .initialisation(Initialisation::Normal),
            ),
        ),
        (r#"{"mul":{"value":-0.0}}"#, Layer::mul(-0.0)),
        (r#"{"div":{"value":3.0}}"#, Layer::div(3.0)),
        (r#"{"minimum":{"value":1}}"#, Layer::minimum(1.0)),
        (r#"{"maximum":{"value":1}}"#, Layer::maximum(1.0)),
    ];
    for (json, layer) in rows {
        let chain = of_layers(json).unwrap();
        assert_eq!(chain.layers(), [layer]);
        assert_eq!(read(&written(&chain)).unwrap(), chain);
    }
    says! {
        of_layers(r#"{"gelu":{"approximate":"sigmoid"}}"#) => "expected `none` or `tanh`";
        of_layers(r#"{"mul":{}}"#) => "mul: missing field `value`";
        of_layers(r#"{"hardtanh":{"min_val":2}}"#) => "hardtanh: min_val is 2, above max_val, which is 1";
    }
}

#[test]
fn every_parameter_is_random_by_itself() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let factor =
        |name: &str| Layer::from(Layer::scale(name).initialisation(Initialisation::Normal));
    let chain = Chain::new(1, names.map(factor)).unwrap();
    let mut values = std::collections::HashSet::new();
    for seed in 0..100 {
        for parameter in chain.parameters() {
            let bits = [0, 1].map(|index| parameter.initial(seed, index).to_bits());
            assert!(values.insert(bits), "{} of seed {seed}", parameter.name);
        }
    }
}

#[test]
fn a_file_with_mistakes_is_refused_by_name() {
    let three = r#"{"conv2d": {"name": "c", "out_channels": 4, "kernel_size": [1, 2, 3]}}"#;
    says! {
        of_layers(r#"{"relu6": {}}"#) => "layer 0", "`relu6`", "`relu`", "`conv2d`", "`max`";
        of_layers(r#"{"relu": {}}, {"clamp": {"mni": 0}}"#) => "layer 1: clamp: unknown field `mni`";
        of_layers(r#"{"relu": {"inplace": true}}"#) => "inplace";
        of_layers(r#"{"channel_max": {}}"#) => "layer 0: unknown operator `channel_max`";
        of_layers(r#"{"conv2d": 3}"#) => "layer 0: conv2d: invalid type: integer `3`, expected an object of attributes";
        of_layers(r#"{"elu": []}"#) => "layer 0: elu: invalid type: sequence, expected an object of attributes";
        of_layers(r#"{"scale": null}"#) => "layer 0: scale: invalid type: null, expected an object of attributes";
        of_layers(r#"{"mean": 1}"#) => "layer 0: mean: invalid type: integer `1`, expected an object of attributes";
        of_layers(r#"{"group_norm": {"name": "n", "num_groups": "3"}}"#)
            => "group_norm: num_groups: invalid type: string \"3\", expected a whole number at line 1 column ";
        of_layers(r#"{"elu": {"alpha": "1"}}"#)
            => "elu: alpha: invalid type: string \"1\", expected a number at line 1 column ";
        of_layers(r#"{"conv2d": {"name": 3, "out_channels": 4, "kernel_size": 1}}"#)
            => "layer 0: conv2d: name: invalid type: integer `3`, expected a string";
        of_layers(r#"{"scale": {"name": "s", "initialisation": {"constant": "1"}}}"#)
            => "layer 0: scale: initialisation: invalid type: string \"1\", expected a number";
        of_layers(r#"{"mean": {"dim": "1"}}"#) => "layer 0: mean: dim: expected a whole number, or a list of them";
        of_layers(r#"{"add": {"value": "1"}}"#) => "layer 0: add: value: invalid type: string \"1\"";
        of_layers(r#"{"clamp": {"min": true}}"#) => "layer 0: clamp: min: invalid type: boolean `true`";
        of_layers(r#"{"conv3d": {"name": "c", "out_channels": 4, "kernel_size": "3"}}"#)
            => "layer 0: conv3d: kernel_size: expected a number that is not negative";
        of_layers("{}") => "no operator";
        of_layers(r#"{"relu": {}, "clamp": {"min": 0}}"#) => "relu and clamp";
        of_layers(three) => "layer 0: conv2d: kernel_size has 3 entries, expected a number or 2 entries";
        of_layers(r#"{"group_norm": {"name": "n", "num_groups": 3}}"#) => "num_groups 3";
    }
    let unknown = of_layers(r#"{"relu6": {}}"#).unwrap_err().to_string();
    for operator in ["relu", "conv2d", "max", "clamp"] {
        assert_eq!(
            unknown.matches(&format!("`{operator}`")).count(),
            1,
            "{unknown}"
        );
    }
}

#[test]
fn partitions_are_read_as_they_are_written() {
    let chain = chain_85();
    let texts = [
        "conv2d group_norm scale max_pool2d clamp",
        "conv2d | group_norm | scale | max_pool2d | clamp",
        "conv2d @direct | group_norm scale @folded | max_pool2d clamp",
    ];
    for text in texts {
        let partition = Partition::parse(&chain, text).unwrap();
        assert_eq!(partition.display(&chain), text);
    }
    assert_eq!(Partition::whole(&chain).display(&chain), texts[0]);
    assert_eq!(Partition::single(&chain).display(&chain), texts[1]);
    let long = "conv2d group_norm scale max_pool2d clamp clamp";
    says! {
        Partition::parse(&chain, "conv2d | clamp") => "layer 1 is clamp, the graph has group_norm";
        Partition::parse(&chain, "conv2d group_norm") => "layer 2 is missing, the graph has scale";
        Partition::parse(&chain, "conv2d || group_norm") => "run 1 has no layers";
        Partition::parse(&chain, long) => "layer 5 is clamp, the graph ends before it";
    }
}

#[test]
fn both_presets_have_a_normal_form() {
    let form = |chain: &Chain, input: &[usize]| {
        let problem = chain.problem(input).unwrap();
        NormalForm::of(&problem, 0..chain.layers().len()).unwrap()
    };
    let of_85 = form(&chain_85(), &KernelBench85::INPUT);
    assert_eq!(
        of_85.summary().to_string(),
        "convolution, moments of 16 groups, affine, max_pool2d, clamp"
    );
    assert_eq!(of_85.convolution.unwrap().1.kernel_size, [1, 3, 3]);
    assert_eq!(of_85.epilogue.affine[0].0, 2);
    assert!(matches!(
        of_85.epilogue.after[..],
        [(4, Pointwise::Function(_))]
    ));
    let of_79 = form(&chain_79(), &KernelBench79::INPUT);
    assert_eq!(
        of_79.summary().to_string(),
        "convolution, factors, moments of 16 groups, normalise, clamp, scale, max"
    );
    assert_eq!(of_79.epilogue.before[0].0, 1);
    assert!(matches!(
        of_79.epilogue.reduce,
        Some((5, Reduction::Axes(_)))
    ));
}

#[test]
fn layers_in_another_order_have_none() {
    let conv = |name| Layer::conv2d(name, 8, 1);
    let rule = |layers: Vec<Layer>| {
        let chain = Chain::new(8, layers).unwrap();
        let problem = chain.problem(&[1, 8, 9, 9]).unwrap();
        let layers = chain.layers().len();
        NormalForm::of(&problem, 0..layers).unwrap_err()
    };
    for layers in [
        vec![conv("a").into(), conv("b").into()],
        vec![Layer::from(Layer::scale("s")), conv("a").into()],
        vec![
            Layer::clamp(0.0, 1.0),
            Layer::from(Layer::group_norm("n", 4)),
        ],
        vec![
            Layer::from(Layer::group_norm("n", 4)),
            Layer::from(Layer::instance_norm("i")),
        ],
    ] {
        assert_eq!(rule(layers).layer, 1);
    }
    let pool = || Layer::from(Layer::max_pool2d(2));
    assert_eq!(rule(vec![pool(), pool()]).rule, "one reduction");
    // Factors without a norm are pointwise.
    let chain = Chain::new(8, (conv("a"), Layer::scale("s"), Layer::clamp(0.0, 1.0))).unwrap();
    let problem = chain.problem(&[1, 8, 9, 9]).unwrap();
    let form = |end| NormalForm::of(&problem, 0..end).unwrap();
    assert_eq!(form(3).summary().to_string(), "convolution, scale, clamp");
    assert_eq!(form(2).summary().to_string(), "convolution, scale");
}

#[test]
fn presets_refuse_what_their_operators_refuse() {
    let of = |problem: KernelBench85, input: &[usize]| {
        problem.chain().and_then(|chain| chain.problem(input))
    };
    let plain = KernelBench85::default();
    let mut odd = plain;
    odd.group_norm.num_groups = 5;
    let mut odder = odd;
    odder.conv.groups = 3;
    refused! {
        of(plain, &[2, 8]) => "layer 0: conv2d: input has rank 2, expected 4";
        // The rank comes before the channels.
        of(plain, &[5, 6]) => "layer 0: conv2d: input has rank 2, expected 4";
        of(plain, &[2, 3, 3, 3, 3]) => "layer 0: conv2d: input has rank 5, expected 4";
        of(plain, &[2, 8, 5, 30])
            => "layer 3: max_pool2d: the dilated window spans 4 elements of spatial axis 0, the padded input has 3";
        of(odd, &[2, 8, 30, 30])
            => "layer 1: group_norm: channels is 64, which is not a multiple of num_groups 5";
        of(odder, &[2, 8, 30, 30])
            => "layer 0: conv2d: in_channels is 8, which is not a multiple of groups 3";
        chain_79().problem(&[2, 3, 3, 3, 3])
            => "layer 2: instance_norm: spatial elements is 1, minimum 2 (one value has no deviation)";
    }
}

/// JSON has no infinities and no NaN, so a chain with such a constant is refused as it is written.
#[test]
fn constants_that_no_file_holds_are_refused() {
    let written = |layer| serde_json::to_string(&Chain::new(2, vec![layer]).unwrap());
    for (layer, number) in [
        (Layer::add(f64::NAN), "NaN"),
        (Layer::mul(f64::INFINITY), "inf"),
        (Layer::elu(f64::INFINITY), "inf"),
        (Layer::leaky_relu(f64::NEG_INFINITY), "-inf"),
        (Layer::softplus(1.0, f64::INFINITY), "inf"),
        (Layer::hardtanh(f64::NEG_INFINITY, 0.0), "-inf"),
        (Layer::maximum(f64::NAN), "NaN"),
        (Layer::clamp(f64::INFINITY, 1.0), "inf"),
        (Layer::clamp(0.0, f64::NEG_INFINITY), "-inf"),
    ] {
        let error = written(layer).unwrap_err().to_string();
        assert_eq!(error, format!("{number}: files have only finite numbers"));
    }
    // A bound that excludes no value is none.
    let unbounded = written(Layer::clamp(0.0, f64::INFINITY)).unwrap();
    let chain: Chain = serde_json::from_str(&unbounded).unwrap();
    let below = PointwiseSpec::Clamp(ClampSpec::new(0.0, None));
    assert_eq!(chain.layers(), [Layer::Pointwise(below)]);
}

//! Layers in chain files, and their effects in chains.

use op_spec::graph::{Chain, Initialisation, Layer, NormalForm};
use op_spec::{MaxPool2dSpec, ReductionOp, ReductionSpec};

/// Reads a chain of one layer on three channels.
pub(super) fn read(layer: &str) -> Result<Chain, String> {
    let json = format!(r#"{{"in_channels":3,"layers":[{layer}]}}"#);
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

/// Writes the first layer.
pub(super) fn written(chain: &Chain) -> String {
    let layers = chain.layers();
    serde_json::to_string(&layers[0]).unwrap()
}

#[test]
fn a_batch_norm_is_written_with_what_is_not_a_default() {
    let eps = r#""eps":0.00001"#;
    for (given, again) in [
        ("", eps.to_owned()),
        (
            r#","momentum":0.1,"track_running_stats":true,"affine":false"#,
            format!(r#"{eps},"affine":false"#),
        ),
        (
            r#","eps":0.001,"momentum":null"#,
            r#""eps":0.001,"momentum":null"#.to_owned(),
        ),
        (
            r#","training":true,"momentum":0.25"#,
            format!(r#"{eps},"training":true,"momentum":0.25"#),
        ),
        (
            r#","track_running_stats":false"#,
            format!(r#"{eps},"track_running_stats":false"#),
        ),
    ] {
        let chain = read(&format!(r#"{{"batch_norm":{{"name":"bn"{given}}}}}"#)).unwrap();
        let again = format!(r#"{{"batch_norm":{{"name":"bn",{again}}}}}"#);
        assert_eq!(written(&chain).replace("1e-5", "0.00001"), again);
        assert_eq!(read(&written(&chain)).unwrap(), chain);
    }
    says! {
        read(r#"{"batch_norm":{"name":"bn","training":true,"momentum":null}}"#)
            => "batch_norm: momentum is null, expected a finite number in training";
        read(r#"{"batch_norm":{"name":"bn","eps":-1}}"#) => "batch_norm: eps is -1, expected more than 0";
    }
}

#[test]
fn a_batch_norm_has_pytorchs_parameters_and_buffers() {
    let chain = Chain::new(6, [Layer::batch_norm("bn")]).unwrap();
    let parameters = chain.parameters().iter();
    let parameters = parameters.map(|of| (&*of.name, of.initialisation, &of.shape[..]));
    let wanted = [
        ("bn.running_mean", Initialisation::Zeros, &[6][..]),
        ("bn.running_var", Initialisation::Ones, &[6]),
        ("bn.weight", Initialisation::Ones, &[6]),
        ("bn.bias", Initialisation::Zeros, &[6]),
    ];
    assert!(parameters.eq(wanted));
}

#[test]
fn a_batch_norm_is_pointwise_in_the_normal_form() {
    let pool = MaxPool2dSpec::new(3);
    let conv = Layer::from(Layer::conv2d("conv", 6, 3));
    let stem = [
        conv.clone(),
        Layer::from(Layer::batch_norm("bn")),
        Layer::relu(),
        Layer::from(pool),
    ];
    let chain = Chain::new(3, stem).unwrap();
    let problem = chain.problem(&[2, 3, 12, 12]).unwrap();
    let form = NormalForm::of(&problem, 0..4).unwrap();
    assert_eq!(
        form.summary().to_string(),
        "convolution, batch_norm, relu, max_pool2d"
    );
    // A norm by statistics of its input does not fit behind a batch norm at inference.
    let behind = [
        conv,
        Layer::from(Layer::batch_norm("bn")),
        Layer::from(Layer::instance_norm("norm")),
    ];
    let chain = Chain::new(3, behind).unwrap();
    let problem = chain.problem(&[2, 3, 12, 12]).unwrap();
    assert_eq!(NormalForm::of(&problem, 0..3).unwrap_err().layer, 2);
}

#[test]
fn paddings_are_written_as_pytorch_has_them() {
    let conv = |padding: &str| {
        format!(r#"{{"conv1d":{{"name":"c","out_channels":4,"kernel_size":3{padding}}}}}"#)
    };
    for padding in [
        "",
        r#","padding":1"#,
        r#","padding":"same""#,
        r#","padding":"valid""#,
        r#","padding":2,"padding_mode":"reflect""#,
        r#","padding":"same","padding_mode":"circular""#,
        r#","padding":1,"padding_mode":"replicate""#,
    ] {
        let chain = read(&conv(padding)).unwrap();
        assert_eq!(written(&chain), conv(padding));
        assert_eq!(
            chain.problem(&[2, 3, 8]).unwrap().output_shape()[..2],
            [2, 4]
        );
    }
    let plain = read(&conv(r#","padding":[0],"padding_mode":"zeros""#)).unwrap();
    assert_eq!(written(&plain), conv(""));
    says! {
        read(&conv(r#","padding":"smae""#)) => "padding is `smae`, expected `same`, `valid`, a number";
        read(&conv(r#","padding_mode":"mirror""#)) => "`mirror`", "`reflect`";
        read(&conv(r#","padding":"same","stride":2"#)) => "layer 0: conv1d: stride[0] is 2";
    }
}

#[test]
fn a_layer_norm_is_written_as_pytorch_has_it_and_has_parameters_of_its_shape() {
    let norm = |rest: &str| {
        format!(r#"{{"layer_norm":{{"name":"n","normalized_shape":[3,4,5],"eps":1e-5{rest}}}}}"#)
    };
    let parameters = |chain: &Chain| -> Vec<String> {
        let parameters = chain.parameters().iter();
        parameters
            .map(|of| format!("{} {:?}", of.name, of.shape))
            .collect()
    };
    let rows = [
        (
            "",
            &["n.weight [3, 4, 5]", "n.bias [3, 4, 5]"][..],
            ", affine of each element",
        ),
        (
            r#","bias":false"#,
            &["n.weight [3, 4, 5]"],
            ", affine of each element",
        ),
        (r#","elementwise_affine":false"#, &[], ""),
    ];
    for (rest, wanted, behind) in rows {
        let chain = read(&norm(rest)).unwrap();
        assert_eq!(written(&chain).replace("0.00001", "1e-5"), norm(rest));
        assert_eq!(parameters(&chain), wanted);
        let problem = chain.problem(&[2, 3, 4, 5]).unwrap();
        let form = NormalForm::of(&problem, 0..1).unwrap();
        let wanted = format!("moments of 1 groups, normalise{behind}");
        assert_eq!(form.summary().to_string(), wanted);
    }
    let chain = read(&norm("")).unwrap();
    refused! {
        chain.problem(&[2, 3, 4, 6]) => "layer 0: layer_norm: normalized_shape[2] is 5, expected 6";
    }
    let last = r#"{"layer_norm":{"name":"n","normalized_shape":[4,5]}}"#;
    let problem = read(last).unwrap().problem(&[2, 3, 4, 5]).unwrap();
    let form = NormalForm::of(&problem, 0..1).unwrap();
    assert_eq!(form.summary().to_string(), "layer_norm");
    refused! {
        read(last).unwrap().problem(&[2, 3, 5])
            => "layer 0: layer_norm: normalized_shape[0] is 4, expected 3";
        read(last).unwrap().problem(&[2, 3])
            => "layer 0: layer_norm: normalized_shape has rank 2, expected 1";
    }
    says! {
        read(r#"{"layer_norm":{"name":"n","normalized_shape":[]}}"#)
            => "normalized_shape has rank 0, minimum 1";
    }
}

#[test]
fn an_input_without_a_batch_is_one_sample() {
    let conv = |name: &str| Layer::conv2d(name, 3, [3, 2]);
    let chain = Chain::new(
        3,
        (Layer::instance_norm("norm"), Layer::silu(), conv("conv")),
    )
    .unwrap();
    assert!(chain.lacks_batch(&[3, 8, 9]) && !chain.lacks_batch(&[2, 3, 8, 9]));
    let problem = chain.problem(&[3, 8, 9]).unwrap();
    assert_eq!(problem.input_shape(), [3, 8, 9]);
    assert_eq!(problem.output_shape(), [3, 6, 8]);
    assert_eq!(problem.steps[0].input, [1, 3, 8, 9]);
    assert!(!problem.is_batched);
    let batch = chain.problem(&[1, 3, 8, 9]).unwrap();
    assert_eq!(batch.steps, problem.steps);
    assert!(batch.is_batched);
    // Layers for which PyTorch takes the first axis as the batch do so here.
    for (layer, operator) in [
        (Layer::from(Layer::group_norm("norm", 1)), "group_norm"),
        (Layer::batch_norm("norm").into(), "batch_norm"),
        (Layer::max(&[1]).into(), "max"),
        (Layer::prelu("act", 3).into(), "prelu"),
    ] {
        let chain = Chain::new(3, (conv("conv"), layer)).unwrap();
        let words =
            format!("layer 1: {operator}: the input has rank 3 and no batch, expected rank 4");
        refused! { chain.problem(&[3, 8, 9]) => words; }
    }
    // If no layer fixes the number of dimensions, the first axis is the batch.
    let chain = Chain::new(8, [Layer::instance_norm("norm")]).unwrap();
    assert!(!chain.lacks_batch(&[3, 8, 9]));
}

#[test]
fn a_prelu_is_written_with_what_is_not_a_default() {
    let prelu = |rest: &str| format!(r#"{{"prelu":{{"name":"act"{rest}}}}}"#);
    let others = r#","num_parameters":3,"init":-0.5"#;
    for (given, again) in [(r#","num_parameters":1,"init":0.25"#, ""), (others, others)] {
        let chain = read(&prelu(given)).unwrap();
        assert_eq!(written(&chain), prelu(again));
        assert_eq!(read(&written(&chain)).unwrap(), chain);
    }
    says! {
        read(&prelu(r#","num_parameters":2"#))
            => "layer 0: prelu: num_parameters is 2, expected 1 or 3, the number of channels";
        read(&prelu(r#","slope":2"#)) => "unknown field `slope`";
    }
}

#[test]
fn a_prelu_has_pytorchs_parameter_and_is_pointwise() {
    let layers = [
        Layer::from(Layer::conv2d("conv", 6, 3)),
        Layer::from(Layer::instance_norm("norm")),
        Layer::from(Layer::prelu("act", 6)),
        Layer::from(Layer::max(&[1])),
        Layer::from(Layer::prelu("last", 1)),
    ];
    let chain = Chain::new(3, layers).unwrap();
    let of = |name: &str| {
        let named = chain.parameters().iter().find(|of| of.name == name);
        let parameter = named.unwrap();
        (parameter.shape[0], parameter.initial(7, 0))
    };
    assert_eq!(
        (of("act.weight"), of("last.weight")),
        ((6, 0.25), (1, 0.25))
    );
    let problem = chain.problem(&[2, 3, 12, 12]).unwrap();
    let form = NormalForm::of(&problem, 0..5).unwrap();
    assert_eq!(
        form.summary().to_string(),
        "convolution, moments of 6 groups, normalise, prelu, max, prelu"
    );
    assert!(!form.epilogue.list[0].1.keeps_order() && form.epilogue.list[0].1.as_clamp().is_none());
    // One slope needs neither channels nor a batch.
    let chain = Chain::new(3, (Layer::conv2d("conv", 6, 3), Layer::prelu("act", 1))).unwrap();
    assert_eq!(chain.problem(&[3, 8, 9]).unwrap().output_shape(), [6, 6, 7]);
    let late = Chain::new(3, (Layer::max(&[1]), Layer::prelu("act", 3)));
    says! { late => "layer 1: prelu: the input has no channels"; }
}

#[test]
fn a_reduction_is_written_as_pytorch_has_it_and_takes_any_axes_but_the_batch() {
    for operation in ReductionOp::ALL.iter().map(|operation| operation.name()) {
        let reduction = |rest: &str| format!(r#"{{"{operation}":{{"dim":{rest}}}}}"#);
        for (given, again, output) in [
            ("1", "1", &[2, 8, 9][..]),
            ("[1]", "1", &[2, 8, 9]),
            ("-3", "-3", &[2, 8, 9]),
            (r#"1,"keepdim":false"#, "1", &[2, 8, 9]),
            (r#"1,"keepdim":true"#, r#"1,"keepdim":true"#, &[2, 1, 8, 9]),
            ("2", "2", &[2, 3, 9]),
            ("[3,2]", "[2,3]", &[2, 3]),
            ("[-1,1]", "[1,-1]", &[2, 8]),
            (
                r#"[1,2,3],"keepdim":true"#,
                r#"[1,2,3],"keepdim":true"#,
                &[2, 1, 1, 1],
            ),
        ] {
            let chain = read(&reduction(given)).unwrap();
            assert_eq!(written(&chain), reduction(again));
            assert_eq!(chain.layers()[0].operator(), operation);
            assert_eq!(chain.problem(&[2, 3, 8, 9]).unwrap().output_shape(), output);
        }
        for (other, dim) in [
            ("0", "0"),
            ("[2, 0]", "0"),
            ("[]", "[]"),
            ("[3, 2, 3]", "3"),
        ] {
            let expected = "expected axes of the input behind the batch, each once";
            let words = format!("layer 0: {operation}: dim is {dim}, {expected}");
            let message = read(&reduction(other)).unwrap_err();
            assert!(message.contains(&words), "{message}");
        }
        // Which axis a negative index means, and which axes exist, depends on the input.
        let chain = read(&reduction("[-3, 2]")).unwrap();
        says! {
            chain.problem(&[2, 3, 8]) => "dim is -3, expected axes";
            chain.problem(&[2, 3, 8, 9, 7]) => "dim is -3, expected axes";
            read(&reduction("4")).unwrap().problem(&[2, 3, 8, 9]) => "dim is 4, expected axes";
            read(&format!(r#"{{"{operation}":{{}}}}"#)) => "missing field `dim`";
            read(&reduction(r#""c""#)) => "dim: expected a whole number, or a list of them";
            read(&reduction(r#"1,"keep_dim":true"#)) => "unknown field `keep_dim`";
        }
    }
}

#[test]
fn a_reduction_counted_from_the_end_needs_no_batch_and_may_leave_a_channel() {
    let conv = Layer::conv2d("conv", 6, [3, 2]);
    for &operation in ReductionOp::ALL {
        let reduction = ReductionSpec::new(operation, &[-3]);
        let chain = Chain::new(3, (conv.clone(), reduction)).unwrap();
        assert_eq!(chain.problem(&[3, 8, 9]).unwrap().output_shape(), [6, 8]);
        let layers = (
            conv.clone(),
            reduction.keepdim(true),
            Layer::scale("factor"),
        );
        let chain = Chain::new(3, layers).unwrap();
        assert_eq!(chain.problem(&[3, 8, 9]).unwrap().output_shape(), [1, 6, 8]);
        assert_eq!(chain.parameters()[2].shape, [1, 1, 1]);
    }
}

#[test]
fn what_follows_a_reduction_sees_the_axes_that_are_left() {
    let conv = || Layer::from(Layer::conv3d("conv", 6, [1, 3, 2]));
    // Volumes become images, whose channels are pooled.
    let layers = vec![conv(), Layer::min(&[2]).into(), Layer::max_pool2d(2).into()];
    let chain = Chain::new(3, layers).unwrap();
    let problem = chain.problem(&[2, 3, 5, 8, 9]).unwrap();
    assert_eq!(problem.output_shape(), [2, 6, 3, 4]);
    // Values before the first layer of fixed dimensions have more dimensions.
    let layers = (Layer::relu(), Layer::sum(&[-1]), Layer::max_pool2d(2));
    let chain = Chain::new(3, layers).unwrap();
    assert!(chain.lacks_batch(&[3, 8, 9, 4]) && !chain.lacks_batch(&[2, 3, 8, 9, 4]));
    assert_eq!(
        chain.problem(&[3, 8, 9, 4]).unwrap().output_shape(),
        [3, 4, 4]
    );
    // Batch norm and factors of the remaining channels.
    let layers = vec![
        conv(),
        Layer::mean(&[-1, 2, 3]).into(),
        Layer::batch_norm("norm").into(),
        Layer::scale("factor").into(),
        Layer::max(&[1]).into(),
        Layer::tanh(),
    ];
    let chain = Chain::new(3, layers).unwrap();
    assert_eq!(chain.parameters()[2].shape, [6]);
    assert_eq!(chain.problem(&[2, 3, 5, 8, 9]).unwrap().output_shape(), [2]);
    // Two reductions in sequence; the second one reduces the new axis 1.
    let layers = (Layer::max(&[1]), Layer::sum(&[1]));
    let chain = Chain::new(3, layers).unwrap();
    assert_eq!(chain.problem(&[2, 3, 8, 9]).unwrap().output_shape(), [2, 9]);
    let nothing_left = Chain::new(3, (Layer::max(&[1, 2]), Layer::sum(&[1]))).unwrap();
    let of_images = |layers: Vec<Layer>| Chain::new(3, layers);
    says! {
        nothing_left.problem(&[2, 3, 8]) => "layer 1: sum: input has rank 1, minimum 2";
        of_images(vec![conv(), Layer::min(&[1, 2]).into(), Layer::relu(), Layer::scale("a").into()])
            => "layer 3: scale: the input has no channels";
        of_images(vec![conv(), Layer::min(&[2]).into(), Layer::max_pool3d(2).into()])
            => "layer 2: max_pool3d", "2", "3";
        of_images(vec![conv(), Layer::min(&[5]).into()]) => "layer 1: min: dim is 5, expected axes";
    }
}

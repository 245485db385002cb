//! `batch_norm`.

use convfuse::graph::{BatchNormLayer, Chain, Layer};
use convfuse::spec::BatchNormSpec;
use convfuse::{DType, Parameters, Tensor, ops};
use convfuse_cli::{compare, rounded};
use libtest_mimic::Trial;
use ndarray::{Array1, Array4, ArrayD};
use oracle::{Case, Precision};

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::{all_right, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "batch_norm",
        &[
            ("takes_a_weight_or_a_bias_alone", half_affine),
            ("refuses_what_pytorch_refuses", misuse),
            ("gives_a_model_the_operators_bits", model),
            ("of_the_stem_in_examples_matches_reference", stem),
        ],
    )
}

fn layer(affine: bool) -> Layer {
    Layer::BatchNorm(BatchNormLayer {
        name: "norm".to_owned(),
        attributes: BatchNormSpec::default(),
        affine,
    })
}

/// Which no chain has, against the case of a norm with both.
fn half_affine(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (dtype, precision) in [
        (DType::F32, Precision::F32),
        (DType::F16, Precision::F16),
        (DType::BF16, Precision::BF16),
    ] {
        for (absent, value) in [(2, 1.0), (3, 0.0)] {
            let case = Case::of_layer("batch_norm/half_affine", layer(true), &[3, 7, 5, 3])?;
            let mut case = rounded(&case, dtype);
            case.parameters[absent].fill(value);
            let upload = |values: &ArrayD<f32>| Tensor::from_f32_array(&stream, values, dtype);
            let [mean, variance, weight, bias] = &case.parameters[..] else {
                return Err("a batch norm has four parameters".into());
            };
            let [mean, variance] = [upload(mean)?, upload(variance)?];
            let weight = (absent != 2).then(|| upload(weight)).transpose()?;
            let bias = (absent != 3).then(|| upload(bias)).transpose()?;
            let (x, spec) = (upload(&case.x)?, BatchNormSpec::default());
            let (weight, bias) = (weight.as_ref(), bias.as_ref());
            let y = ops::batch_norm(&x, &mean, &variance, weight, bias, &spec)?;
            case.expected(&precision)?.check(y.to_f32_array()?.view())?;
        }
    }
    Ok(())
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array4::<f32>::ones((2, 3, 4, 5)))?;
    let of_length = |len: usize| Tensor::from_array(&stream, &Array1::<f32>::ones(len));
    let (three, two) = (of_length(3)?, of_length(2)?);
    let spec = BatchNormSpec::default();
    says(
        ops::batch_norm(&x, &three, &two, None, None, &spec),
        "batch_norm: running_var[0] is 2, expected 3",
    )?;
    says(
        ops::batch_norm(&x, &three, &three, None, Some(&two), &spec),
        "batch_norm: bias[0] is 2, expected 3",
    )?;
    says(
        ops::batch_norm(&three, &three, &three, None, None, &spec),
        "batch_norm: input has 1 dimensions, minimum 2",
    )?;
    let spec = BatchNormSpec { eps: -1e-5 };
    says(
        ops::batch_norm(&x, &three, &three, None, None, &spec),
        "batch_norm: eps is -0.00001, expected more than 0",
    )
}

/// A model folds parameters once, an operator in every run.
fn model(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let chain = Chain::new(5, [layer(true), Layer::relu()])?;
    let case = Case::of_graph("batch_norm/model", chain, &[2, 5, 7, 9]);
    let upload = |values: &ArrayD<f32>| Tensor::from_array(&stream, values);
    let parameters: Vec<Tensor> = (case.parameters.iter().map(upload)).collect::<Result<_, _>>()?;
    let [mean, variance, weight, bias] = &parameters[..] else {
        return Err("a batch norm has four parameters".into());
    };
    let (x, spec) = (upload(&case.x)?, BatchNormSpec::default());
    let y = ops::batch_norm(&x, mean, variance, Some(weight), Some(bias), &spec)?;
    let wanted = ops::relu(&y)?.to_array::<f32>()?;
    let model = chains::model(&stream, &case, DType::F32)?;
    for _ in 0..2 {
        assert_eq!(model.forward(&x)?.to_array::<f32>()?, wanted);
    }
    Ok(())
}

fn stem(backend: Backend) -> Outcome {
    let file = include_str!("../examples/chains/resnet_stem_batch_norm.json");
    let chain: Chain = serde_json::from_str(file)?;
    assert_eq!(
        chain.problem(&[64, 3, 224, 224])?.output_shape(),
        [64, 64, 56, 56]
    );
    let case = Case::of_graph("batch_norm/stem", chain, &[2, 3, 23, 26]);
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let case = rounded(&case, dtype);
        for (way, result) in compare(&case, dtype, &stream, |precision| case.expected(precision)) {
            complaints.extend(result.err().map(|complaint| format!("{way}: {complaint}")));
        }
    }
    // Of a file of PyTorch's, which counts the batches that its statistics are of.
    let counted = ("bn1.num_batches_tracked".to_owned(), ArrayD::zeros(vec![]));
    let named = case.graph.parameters().iter();
    let named = named.map(|parameter| parameter.name.clone());
    let named = named.zip(case.parameters.iter().cloned()).chain([counted]);
    Parameters::new(&case.graph, named)?;
    all_right(&complaints)
}

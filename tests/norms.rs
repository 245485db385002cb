//! Norms: cases that no chain covers, and relations between norms.

use convfuse::graph::{Chain, Layer};
use convfuse::spec::{BatchNormSpec, GroupNormSpec, InstanceNormSpec, LayerNormSpec};
use convfuse::{DType, Parameters, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array3, ArrayD};
use oracle::Case;

use crate::backend::{Backend, Outcome, Test};
use crate::chains;
use crate::suite::{DTYPES, bits, match_reference};

/// A function of a norm: input, statistics, weight and bias.
type Norm = fn(&Tensor, &[Tensor], Option<&Tensor>, Option<&Tensor>) -> convfuse::Result<Tensor>;

const SHAPE: [usize; 4] = [3, 7, 5, 3];

fn norms() -> [(&'static str, Layer, Norm); 4] {
    let instance_norm = Layer::from(Layer::instance_norm("norm").affine(true));
    [
        (
            "group_norm",
            Layer::group_norm("norm", 7).into(),
            |x, _, weight, bias| ops::group_norm(x, weight, bias, &GroupNormSpec::new(7)),
        ),
        ("instance_norm", instance_norm, |x, _, weight, bias| {
            ops::instance_norm(x, weight, bias, &InstanceNormSpec::default())
        }),
        (
            "layer_norm",
            Layer::layer_norm("norm", &SHAPE[1..]).into(),
            |x, _, weight, bias| {
                ops::layer_norm(x, &SHAPE[1..], weight, bias, &LayerNormSpec::default())
            },
        ),
        (
            "batch_norm",
            Layer::batch_norm("norm").into(),
            |x, statistics, weight, bias| {
                let [mean, variance] = statistics else {
                    unreachable!("a batch norm has a mean and a variance");
                };
                let running = Some([mean, variance]);
                ops::batch_norm(x, running, weight, bias, &BatchNormSpec::default())
            },
        ),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    let half = norms().into_iter().flat_map(|(operator, layer, norm)| {
        Backend::DEVICES.map(|backend| {
            let layer = layer.clone();
            let test = move |backend| half_affine(backend, operator, layer, norm);
            backend.trial(operator, "takes_a_weight_or_a_bias_alone", test)
        })
    });
    let own: [(&str, &str, Test); 5] = [
        (
            "group_norm",
            "gives_a_sample_the_same_bits_in_any_batch",
            batches,
        ),
        (
            "instance_norm",
            "equals_group_norm_with_a_group_per_channel",
            as_groups,
        ),
        (
            "layer_norm",
            "without_parameters_is_group_norm_of_one_group",
            as_group,
        ),
        ("batch_norm", "gives_a_model_the_operators_bits", model),
        (
            "batch_norm",
            "of_the_stem_in_examples_matches_reference",
            stem,
        ),
    ];
    let of = |(group, name, test): (&str, &str, Test)| {
        Backend::trials(&Backend::DEVICES, group, &[(name, test)])
    };
    half.chain(own.into_iter().flat_map(of)).collect()
}

/// A norm with only a weight or only a bias, which no chain has, compared with a norm with both.
fn half_affine(backend: Backend, operator: &str, layer: Layer, norm: Norm) -> Outcome {
    let stream = backend.stream()?;
    let case = Case::of_layer(&format!("{operator}/half_affine"), layer, &SHAPE)?;
    let first = case.parameters.len() - 2;
    for (dtype, precision) in DTYPES {
        let upload = |values: &ArrayD<f32>| Tensor::from_f32_array(&stream, values, dtype);
        // The value that corresponds to an absent parameter.
        for (absent, value) in [(0, 1.0), (1, 0.0)] {
            let mut case = convfuse_cli::rounded(&case, dtype);
            case.parameters[first + absent].fill(value);
            let parameters = case.parameters.iter().map(upload);
            let parameters = parameters.collect::<convfuse::Result<Vec<_>>>()?;
            let (statistics, affine) = parameters.split_at(first);
            let [weight, bias] = [0, 1].map(|which| (which != absent).then(|| &affine[which]));
            let y = norm(&upload(&case.x)?, statistics, weight, bias)?;
            case.expected(&precision)?.check(y.to_f32_array()?.view())?;
        }
    }
    Ok(())
}

/// The split of rows must not depend on their number.
fn batches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let spec = GroupNormSpec::new(2);
    let x = data::signed(3, (3, 4, 2500));
    let norm = |x: &Array3<f32>| -> convfuse::Result<Vec<u32>> {
        let y = ops::group_norm(&Tensor::from_array(&stream, x)?, None, None, &spec)?;
        Ok(bits(&y.to_array()?))
    };
    let whole = norm(&x)?;
    for (sample, of_whole) in x.outer_iter().zip(whole.chunks(4 * 2500)) {
        let alone = sample.insert_axis(ndarray::Axis(0)).to_owned();
        assert_eq!(norm(&alone)?, of_whole);
    }
    Ok(())
}

fn as_groups(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (2, 5, 7, 11)))?;
    let weight = Tensor::from_array(&stream, &data::signed(2, 5))?;
    let instance = ops::instance_norm(&x, Some(&weight), None, &InstanceNormSpec::default())?;
    let group = ops::group_norm(&x, Some(&weight), None, &GroupNormSpec::new(5))?;
    assert_eq!(instance.to_array::<f32>()?, group.to_array::<f32>()?);
    Ok(())
}

fn as_group(backend: Backend) -> Outcome {
    let x = Tensor::from_array(&backend.stream()?, &data::signed(1, (2, 5, 7, 11)))?;
    let layer = ops::layer_norm(&x, &[5, 7, 11], None, None, &LayerNormSpec::default())?;
    let group = ops::group_norm(&x, None, None, &GroupNormSpec::new(1))?;
    assert_eq!(layer.to_array::<f32>()?, group.to_array::<f32>()?);
    Ok(())
}

/// A model folds the parameters of a batch norm once, an operator in every run.
fn model(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let chain = Chain::new(5, (Layer::batch_norm("norm"), Layer::relu()))?;
    let case = Case::of_graph("batch_norm/model", chain, &[2, 5, 7, 9]);
    let upload = |values: &ArrayD<f32>| Tensor::from_array(&stream, values);
    let parameters: Vec<Tensor> = (case.parameters.iter().map(upload)).collect::<Result<_, _>>()?;
    let [mean, variance, weight, bias] = &parameters[..] else {
        return Err("a batch norm has four parameters".into());
    };
    let (x, spec) = (upload(&case.x)?, BatchNormSpec::default());
    let running = Some([mean, variance]);
    let y = ops::batch_norm(&x, running, Some(weight), Some(bias), &spec)?;
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
    let full = chain.problem(&[64, 3, 224, 224])?;
    assert_eq!(full.output_shape(), [64, 64, 56, 56]);
    let case = Case::of_graph("batch_norm/stem", chain, &[2, 3, 23, 26]);
    // PyTorch's file also contains the number of batches in the running statistics.
    let counted = ("bn1.num_batches_tracked".to_owned(), ArrayD::zeros(vec![]));
    let named = case.graph.parameters().iter();
    let named = named.map(|parameter| parameter.name.clone());
    let named = named.zip(case.parameters.iter().cloned()).chain([counted]);
    Parameters::new(&case.graph, named)?;
    match_reference(backend, &[case], &[DType::F32, DType::F16, DType::BF16])
}

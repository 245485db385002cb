//! Chains on the CPU against the float64 reference, and against the operators one by one.

use ndarray::{ArrayD, ArrayViewD};
use op_spec::MaxPool2dSpec;
use op_spec::graph::{Chain, ConvLayer, Layer};
use oracle::{Case, Precision};

use super::*;
use crate::Options;
use crate::lab;
use crate::parameters::Parameters;
use crate::{Device, Tensor};

fn parameters(case: &Case) -> Parameters {
    let names = case
        .graph
        .parameters()
        .iter()
        .map(|parameter| parameter.name.clone());
    Parameters::new(&case.graph, names.zip(case.parameters.iter().cloned())).unwrap()
}

fn run_case(case: &Case) -> ArrayD<f32> {
    let problem = case.problem().unwrap();
    let inputs = std::iter::once(&case.x).chain(&case.inputs);
    let inputs: Vec<_> = inputs.map(|values| values.view()).collect();
    run(&case.graph, &problem, &parameters(case), &inputs).unwrap()
}

/// Chains that are nobody's, among them some that have no normal form.
fn others() -> Vec<Case> {
    let conv = |name, channels| Layer::conv2d(ConvLayer::new(name, channels, [2, 3]));
    let pool = || Layer::max_pool2d(MaxPool2dSpec::new([2, 2]));
    let clamp = || Layer::clamp(-0.6, 0.5);
    let case = |name: &str, layers: Vec<Layer>| {
        let chain = Chain::new(4, layers).unwrap();
        Case::of_graph(&format!("other/{name}"), chain, &[3, 4, 12, 13])
    };
    vec![
        case(
            "two_convolutions",
            vec![conv("a", 6), clamp(), conv("b", 5), pool()],
        ),
        case(
            "two_norms",
            vec![
                conv("a", 6),
                Layer::instance_norm("i"),
                clamp(),
                Layer::group_norm("g", 3),
            ],
        ),
        case(
            "factors_before_a_group_norm",
            vec![
                Layer::scale("s"),
                Layer::scale("t"),
                Layer::group_norm("g", 2),
                Layer::scale("s"),
            ],
        ),
        case(
            "two_maxima",
            vec![
                pool(),
                Layer::scale("s"),
                pool(),
                Layer::channel_max(),
                clamp(),
            ],
        ),
        case(
            "factors_before_a_convolution",
            vec![Layer::scale("s"), conv("a", 3)],
        ),
    ]
}

#[test]
fn chains_match_the_reference() {
    let mut cases = [oracle::smoke(), oracle::ragged(), others()].concat();
    cases.extend(
        oracle::realistic()
            .into_iter()
            .filter(|case| case.cost() < 3_000_000),
    );
    for case in cases {
        let expected = case.expected(&Precision::F32).unwrap();
        if let Err(complaint) = expected.check(run_case(&case).view()) {
            panic!("{}: {complaint}", case.name);
        }
    }
}

/// A chain of one layer gives the bits that the operator's own function gives.
#[test]
fn a_single_layer_is_its_operator() {
    let stream = Device::cpu().stream().unwrap();
    let bits = |values: ArrayViewD<'_, f32>| -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    };
    for case in [oracle::smoke(), oracle::ragged()].concat() {
        let [layer] = case.graph.layers() else {
            continue;
        };
        let upload = |values: &ArrayD<f32>| {
            // An operator takes factors as a vector.
            let factors = matches!(layer, Layer::Scale(_)).then_some(values.len());
            let shape = factors.map_or_else(|| values.shape().to_vec(), |len| vec![len]);
            let values = values.to_shape(shape).unwrap();
            Tensor::from_array(&stream, &values).unwrap()
        };
        let parameters: Vec<Tensor> = case
            .parameters
            .iter()
            .chain(&case.inputs)
            .map(upload)
            .collect();
        let x = Tensor::from_array(&stream, &case.x).unwrap();
        let operator = lab::layer(&x, layer, &parameters, &Options::default()).unwrap();
        let (chain, operator) = (run_case(&case), operator.to_array::<f32>().unwrap());
        assert_eq!(bits(chain.view()), bits(operator.view()), "{}", case.name);
    }
}

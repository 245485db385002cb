//! Graphs of one layer on the CPU against the operators.

use ndarray::{ArrayD, ArrayViewD};
use op_spec::graph::Layer;
use oracle::Case;

use super::*;
use crate::Options;
use crate::lab;
use crate::parameters::Parameters;
use crate::{DType, Device, Tensor};

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
    run(
        &case.graph,
        &problem,
        DType::F32,
        &parameters(case),
        &inputs,
    )
    .unwrap()
    .remove(0)
}

/// A chain of one layer gives the same bits as the operator's own function.
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
            // The operator's function takes factors as a vector.
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

//! Whole graphs, and single operators.
//!
//! The layers of a path run as [stages](super::stage), sample by sample. Tensors between paths are complete,
//! and are kept until the last path that reads them is done.

use std::collections::BTreeMap;

use ndarray::{ArrayD, ArrayViewD, Axis, CowArray, IxDyn};
use op_spec::BatchNormProblem;
use op_spec::graph::{Graph, GraphProblem, LayerProblem, NormalForm, Operand, Reduction};

use super::dense;
use super::maps::{arithmetic, prelu};
use super::moments::Moments;
use super::pointwise::pointwise;
use super::stage::{Run, Stage, normal_forms, run_stages, stages};
use crate::dtype::DType;
use crate::error::Result;
use crate::parameters::{MAX_PARAMETERS, Parameters};

/// Computes all outputs of `graph` in f32, with statistics in float64. `dtype` is the type of its tensors;
/// only its range matters, for values that a norm reads. `inputs` are the first input and the further ones,
/// in the problem's shapes.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Panics
/// If problem, parameters or inputs are those of another graph.
pub(crate) fn run(
    graph: &Graph,
    problem: &GraphProblem,
    dtype: DType,
    parameters: &Parameters,
    inputs: &[ArrayViewD<'_, f32>],
) -> Result<Vec<ArrayD<f32>>> {
    Ok(run_renewing(graph, problem, dtype, parameters, inputs)?.0)
}

/// The new values of parameters, by their indices in the graph's table.
pub(crate) type Renewed = BTreeMap<usize, Vec<f32>>;

/// Computes all outputs, and the parameters that the run renews.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub(crate) fn run_renewing(
    graph: &Graph,
    problem: &GraphProblem,
    dtype: DType,
    parameters: &Parameters,
    inputs: &[ArrayViewD<'_, f32>],
) -> Result<(Vec<ArrayD<f32>>, Renewed)> {
    let mut renewed = Renewed::new();
    assert_eq!(inputs[0].shape(), problem.input_shape());
    let shapes = problem.inputs.iter().map(|input| &input.shape[..]);
    assert!(shapes.eq(inputs[1..].iter().map(|input| input.shape())));
    debug_assert_eq!(parameters.check(graph), Ok(()));
    let inputs = inputs.iter().map(|input| dense(input.view()));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let paths: Vec<Path<'_>> = graph
        .paths()
        .iter()
        .flat_map(|path| readable_paths(graph, problem, path))
        .collect();
    // The outputs of paths, by their last layers, and the last path that reads each.
    let mut outputs: Vec<Option<ArrayD<f32>>> = vec![None; problem.steps.len()];
    let mut last_reads = vec![0; problem.steps.len()];
    for (number, path) in paths.iter().enumerate() {
        for operand in path.layers.iter().flat_map(|&layer| graph.operands(layer)) {
            if let Operand::Layer(layer) = *operand {
                last_reads[layer] = number;
            }
        }
    }
    for &output in graph.outputs() {
        last_reads[output] = usize::MAX;
    }
    for (number, path) in paths.into_iter().enumerate() {
        let value = |operand: Operand| match operand {
            Operand::Input(input) => &*inputs[input],
            Operand::Layer(layer) => {
                let output = outputs[layer].as_ref().and_then(|output| output.as_slice());
                output.expect("an earlier path gives it, in standard layout")
            }
        };
        let parameter = |layer: usize, index: usize| {
            // Further operands of a layer take the place of parameters.
            if let Some(&other) = graph.operands(layer).get(1 + index) {
                return Some(value(other));
            }
            let slot = *graph.parameters_of(layer).get(index)?;
            let values = parameters.values()[slot].as_slice();
            Some(values.expect("standard layout"))
        };
        let (first, last) = (path.layers[0], path.layers[path.layers.len() - 1]);
        let mut y: Option<ArrayD<f32>> = None;
        for (part, runs) in path.parts {
            let x = match &y {
                Some(y) => y.as_slice().expect("standard layout"),
                None => value(graph.operands(first)[0]),
            };
            let mut stages = stages(problem, runs, dtype, parameter);
            let norm = statistics_of_batch(&problem.steps[part[0]].problem);
            if let Some(norm) = norm.filter(|_| !x.is_empty()) {
                let moments = Moments::of_batch(x, norm.shape.c, norm.shape.spatial, dtype);
                if norm.momentum.is_some() {
                    renew(
                        &mut renewed,
                        graph.parameters_of(part[0]),
                        &moments,
                        norm,
                        parameters,
                    );
                }
                stages[0].count(moments);
            }
            let [input, output] = [
                &problem.steps[part[0]].input,
                &problem.steps[part[part.len() - 1]].output,
            ];
            let x = ArrayViewD::from_shape(&input[..], x).expect("as many elements");
            y = Some(run_stages(&stages, x, output)?);
        }
        outputs[last] = y;
        for (output, &last_read) in outputs[..last].iter_mut().zip(&last_reads) {
            if last_read <= number {
                *output = None;
            }
        }
    }
    let given = graph.outputs().iter().map(|&output| {
        let y = outputs[output].take().expect("an output ends a path, once");
        match problem.is_batched {
            true => y,
            false => y.remove_axis(Axis(0)),
        }
    });
    Ok((given.collect(), renewed))
}

/// A path, or a piece of one.
struct Path<'a> {
    layers: &'a [usize],
    /// Its layers, split before norms with the batch's statistics, which need the whole tensor. Each part has
    /// its runs.
    parts: Vec<(&'a [usize], Vec<Run<'a>>)>,
}

impl<'a> Path<'a> {
    fn new(problem: &GraphProblem, layers: &'a [usize]) -> Self {
        let is_inside = |layer: usize| statistics_of_batch(&problem.steps[layer].problem).is_none();
        let parts = layers.chunk_by(|_, &layer| is_inside(layer));
        let parts = parts.map(|part| (part, normal_forms(problem, part)));
        Self {
            layers,
            parts: parts.collect(),
        }
    }

    /// Returns the position of the first layer whose output is an operand of another run of the path.
    fn first_read(&self, graph: &Graph) -> Option<usize> {
        let runs = self.parts.iter().flat_map(|(_, runs)| runs);
        let mut layers = runs.flat_map(|(run, _)| run.iter().map(move |layer| (run, layer)));
        layers.position(|(run, layer)| {
            let mut others = self.layers.iter().filter(|other| !run.contains(other));
            others.any(|&other| graph.operands(other)[1..].contains(&Operand::Layer(*layer)))
        })
    }
}

/// Splits a path behind layers whose outputs are an operand of another stage, since only the outputs of paths
/// are complete tensors.
fn readable_paths<'a>(graph: &Graph, problem: &GraphProblem, path: &'a [usize]) -> Vec<Path<'a>> {
    let (mut found, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        let mut path = Path::new(problem, rest);
        if let Some(last) = path.first_read(graph) {
            path = Path::new(problem, &rest[..=last]);
        }
        rest = &rest[path.layers.len()..];
        found.push(path);
    }
    found
}

/// Returns the layer's problem, if the layer is a norm with the batch's statistics.
fn statistics_of_batch(problem: &LayerProblem) -> Option<&BatchNormProblem> {
    match problem {
        LayerProblem::BatchNorm(norm) if norm.of_batch => Some(norm),
        _ => None,
    }
}

/// Renews the running statistics of a norm, which are the last of its parameters.
fn renew(
    renewed: &mut Renewed,
    slots: &[usize],
    moments: &[Moments],
    norm: &BatchNormProblem,
    parameters: &Parameters,
) {
    let count = (norm.shape.n * norm.shape.spatial) as f64;
    let running = &slots[slots.len() - 2..];
    let of_batch: [fn(&Moments, f64) -> f64; 2] = [
        |moments, _| moments.mean,
        |moments, count| moments.variance * count / (count - 1.0),
    ];
    for (slot, of_batch) in running.iter().zip(of_batch) {
        let values = renewed.entry(*slot);
        let values = values.or_insert_with(|| parameters.values()[*slot].iter().copied().collect());
        for (value, moments) in values.iter_mut().zip(moments) {
            *value = norm.renewed(f64::from(*value), of_batch(moments, count)) as f32;
        }
    }
}

/// Runs a single operator on `x`, with its parameters in PyTorch's order, or its residual.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(crate) fn operator(
    problem: &LayerProblem,
    parameters: [Option<&CowArray<'_, f32, IxDyn>>; MAX_PARAMETERS],
    x: ArrayViewD<'_, f32>,
) -> Result<ArrayD<f32>> {
    if let LayerProblem::Pointwise(problem) = problem {
        return pointwise(problem, x);
    }
    if let (LayerProblem::Arithmetic(problem), [Some(other), ..]) = (problem, parameters) {
        return arithmetic(problem, x, other.view());
    }
    if let (LayerProblem::Prelu(problem), [Some(weight), ..]) = (problem, parameters) {
        return prelu(problem, x, weight.view());
    }
    let form = NormalForm::of_layer(*problem);
    let output = output_shape(&form, x.shape());
    let values = parameters.map(|values| values.map(|v| dense(v.view())).transpose());
    let mut parameters = [const { None }; MAX_PARAMETERS];
    for (parameter, values) in parameters.iter_mut().zip(values) {
        *parameter = values?;
    }
    let parameters = parameters.each_ref().map(|values| values.as_deref());
    // No layer is in front of a norm, so all values are in range.
    let dtype = DType::F32;
    let mut stage = Stage::new(form, x.shape(), &output, dtype, |_, index| {
        parameters[index]
    });
    if let Some(norm) = statistics_of_batch(problem).filter(|_| !x.is_empty()) {
        let x = dense(x.view())?;
        stage.count(Moments::of_batch(
            &x,
            norm.shape.c,
            norm.shape.spatial,
            dtype,
        ));
    }
    run_stages(&[stage], x, &output)
}

/// The output shape of the form's convolution and reduction, each of which may be absent.
fn output_shape(form: &NormalForm, input: &[usize]) -> Vec<usize> {
    let mut output = input.to_vec();
    if let Some((channels, extents)) = form.convolved() {
        // The output of an image has no depth axis, so the first extent is omitted.
        let absent = 5 - input.len();
        output[1] = channels;
        output[2..].copy_from_slice(&extents[absent..]);
    }
    match form.epilogue.reduce {
        Some((_, Reduction::Pool(pool))) => output[2..].copy_from_slice(&pool.output_shape()[2..]),
        Some((_, Reduction::Upsample(of))) => output[2..].copy_from_slice(&of.output_shape()[2..]),
        Some((_, Reduction::Axes(problem))) => return problem.output_shape(&output),
        Some((_, Reduction::Softmax(_) | Reduction::LayerNorm(_))) | None => {}
    }
    output
}

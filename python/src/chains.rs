//! Functions of the Python package on chains and networks in their file format.

use std::ptr;

use convfuse::graph::{Chain, Graph, Initialisation};
use convfuse::model::Launches;
use convfuse::{DType, Device, DeviceProperties, Inputs, Options, Stream, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Parses a chain file.
pub(crate) fn chain(text: &str) -> Result<Chain, String> {
    serde_json::from_str(text).map_err(|error| format!("convfuse: chain: {error}"))
}

/// Parses a network file or a chain file. A network has a version.
pub(crate) fn graph(text: &str) -> Result<Graph, String> {
    #[derive(serde::Deserialize)]
    struct Kind {
        version: Option<serde::de::IgnoredAny>,
    }
    let is_network = serde_json::from_str::<Kind>(text).is_ok_and(|kind| kind.version.is_some());
    match is_network {
        true => serde_json::from_str(text).map_err(|error| format!("convfuse: network: {error}")),
        false => chain(text).map(Graph::from),
    }
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("convfuse: {error}"))
}

fn parsed(text: &str) -> PyResult<Graph> {
    graph(text).map_err(PyValueError::new_err)
}

/// Returns the chain in the library's normal form.
#[pyfunction]
fn normalized(text: &str) -> PyResult<String> {
    let chain = chain(text).map_err(PyValueError::new_err)?;
    serde_json::to_string(&chain).map_err(refused)
}

/// Returns the network in the library's normal form.
#[pyfunction]
fn network(text: &str) -> PyResult<String> {
    serde_json::to_string(&parsed(text)?).map_err(refused)
}

/// The initialisation of a parameter: `uniform`, `normal`, or a constant.
#[derive(IntoPyObject)]
enum Before {
    Random(&'static str),
    Number(f64),
}

/// Returns name, shape and initialisation of each parameter.
#[pyfunction]
fn parameters(text: &str) -> PyResult<Vec<(String, Vec<usize>, Before)>> {
    let named = |initialisation| match initialisation {
        Initialisation::Uniform { .. } => Before::Random("uniform"),
        Initialisation::Normal => Before::Random("normal"),
        Initialisation::Ones => Before::Number(1.0),
        Initialisation::Constant(value) => Before::Number(value),
        _ => Before::Number(0.0),
    };
    let chain = parsed(text)?;
    let table = chain.parameters().iter();
    Ok(table
        .map(|one| {
            (
                one.name.clone(),
                one.shape.clone(),
                named(one.initialisation),
            )
        })
        .collect())
}

/// Returns the names of the further inputs.
#[pyfunction]
fn inputs(text: &str) -> PyResult<Vec<String>> {
    Ok(parsed(text)?.inputs().to_vec())
}

/// Returns the shapes of the outputs of a network for a first input of this shape.
#[pyfunction]
fn output_shapes(text: &str, input: Vec<usize>) -> PyResult<Vec<Vec<usize>>> {
    let problem = parsed(text)?.problem(&input).map_err(refused)?;
    Ok(problem.output_shapes().map(<[usize]>::to_vec).collect())
}

/// Returns the multiply-adds of a network's convolutions and linear maps for a first input of this shape.
#[pyfunction]
fn multiply_adds(text: &str, input: Vec<usize>) -> PyResult<u128> {
    let problem = parsed(text)?.problem(&input).map_err(refused)?;
    Ok(problem.steps.iter().map(|step| step.multiply_adds()).sum())
}

/// Returns the shape of the output for a first input of this shape.
#[pyfunction]
fn output_shape(text: &str, input: Vec<usize>) -> PyResult<Vec<usize>> {
    let problem = parsed(text)?.problem(&input).map_err(refused)?;
    Ok(problem.output_shape().to_vec())
}

/// Opens a stream of a present GPU. Explanations require one, because kernels are prepared on the device.
fn stream(ordinal: u32) -> convfuse::Result<Stream> {
    Device::gpu(ordinal)?.stream()
}

/// Explains the launches of a GPU for a first input of this shape. Requires the GPU with this ordinal.
#[pyfunction]
fn explain(text: &str, input: Vec<usize>, fast: bool, ordinal: u32) -> PyResult<String> {
    let chain = parsed(text)?;
    let explained = || -> convfuse::Result<String> {
        let stream = stream(ordinal)?;
        // Only shapes and alignment of the tensors matter.
        let tensor = |shape: &[usize]| {
            let (nowhere, owner) = (ptr::without_provenance_mut(256), Box::new(()));
            // SAFETY: nothing reads or writes the elements.
            unsafe { Tensor::from_raw_parts(&stream, nowhere, shape, None, DType::F32, owner) }
        };
        let problem = chain.problem(&input)?;
        let x = tensor(&input)?;
        let further = problem.inputs.iter();
        let further: Vec<(&str, Tensor)> = further
            .map(|further| Ok((&*further.name, tensor(&further.shape)?)))
            .collect::<convfuse::Result<_>>()?;
        let inputs = further
            .iter()
            .fold(Inputs::new(&x), |inputs, (name, tensor)| {
                inputs.with(name, tensor)
            });
        let parameters = chain.parameters().iter();
        let parameters = parameters.map(|parameter| tensor(&parameter.shape));
        let parameters = parameters.collect::<convfuse::Result<Vec<_>>>()?;
        let options = options(fast, true);
        let launches = Launches::functional(&stream, &chain, inputs, &parameters, &options)?;
        Ok(launches.explain()?.to_string())
    };
    explained().map_err(refused)
}

/// Names of the devices with known properties.
#[pyfunction]
fn known_devices() -> Vec<&'static str> {
    DeviceProperties::NAMED
        .iter()
        .map(|(name, _)| *name)
        .collect()
}

/// The options of models in this package.
pub(crate) fn options(fast: bool, batch_invariant: bool) -> Options {
    use convfuse::model::Precision;
    let precision = match fast {
        true => Precision::Fast,
        false => Precision::default(),
    };
    Options::default()
        .precision(precision)
        .batch_invariant(batch_invariant)
}

/// Adds the functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(normalized, module)?)?;
    module.add_function(wrap_pyfunction!(network, module)?)?;
    module.add_function(wrap_pyfunction!(parameters, module)?)?;
    module.add_function(wrap_pyfunction!(inputs, module)?)?;
    module.add_function(wrap_pyfunction!(output_shape, module)?)?;
    module.add_function(wrap_pyfunction!(output_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(multiply_adds, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(known_devices, module)?)
}

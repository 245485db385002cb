//! What is given for the parameters of a graph, held against its table.

use ndarray::{ArrayD, IxDyn};
use op_spec::graph::Parameter;

use crate::host_memory::reserve;

/// Why values are not the parameters of a graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// A parameter has no value.
    #[error("{name}: is missing, the model has it with shape {expected:?}; given: {}", listed(.given))]
    Missing {
        /// The parameter.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
        /// The names of the given values, first those that end with the parameter's name.
        given: Vec<String>,
    },
    /// Values belong to no parameter, or to one that has a value already.
    #[error("{}: given, but the model has no use for it", listed(.names))]
    Unexpected {
        /// Their names.
        names: Vec<String>,
    },
    /// A value has another shape than its parameter.
    #[error("{name}: shape is {actual:?}, expected {expected:?}")]
    Shape {
        /// The parameter.
        name: String,
        /// The value's shape.
        actual: Vec<usize>,
        /// The parameter's.
        expected: Vec<usize>,
    },
    /// Tensors that are not one for each parameter.
    #[error("parameters: there are {actual} tensors, the model has {expected} parameters")]
    Count {
        /// Tensors that were given.
        actual: usize,
        /// Parameters of the graph.
        expected: usize,
    },
    /// A parameter that does not fit into memory.
    #[error("{name}: shape is {shape:?}, for which there is no memory")]
    TooLarge {
        /// The parameter.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
}

/// The first of the names, which may be a whole network's.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    match names.len() {
        0 => "nothing".to_owned(),
        len if len <= MOST => names.join(", "),
        len => format!("{} and {} more", names[..MOST].join(", "), len - MOST),
    }
}

/// The given values in the order of the parameters; `shape` returns a value's shape. Values that belong to no
/// parameter are refused if `is_strict`.
pub(crate) fn in_order<V>(
    parameters: &[Parameter],
    given: impl IntoIterator<Item = (String, V)>,
    shape: impl Fn(&V) -> &[usize],
    is_strict: bool,
) -> Result<Vec<V>, ParametersError> {
    let mut given: Vec<(String, V)> = given.into_iter().collect();
    // PyTorch's batch norms count the batches of their running statistics, which this library does not use.
    let is_count = |name: &str| {
        let layer = name.strip_suffix(".num_batches_tracked");
        let of_statistics =
            |parameter: &Parameter| parameter.name.strip_suffix(".running_var") == layer;
        layer.is_some() && parameters.iter().any(of_statistics)
    };
    given.retain(|(name, _)| !is_count(name));
    given.sort_by(|(name, _), (other, _)| name.cmp(other));
    let all: Vec<String> = given.iter().map(|(name, _)| name.clone()).collect();
    let mut values = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let mut others = given.iter();
        let index = others.position(|(name, _)| *name == parameter.name);
        let index = index.ok_or_else(|| {
            let mut given = all.clone();
            given.sort_by_key(|name| !name.ends_with(&parameter.name));
            ParametersError::Missing {
                name: parameter.name.clone(),
                expected: parameter.shape.clone(),
                given,
            }
        })?;
        let (_, value) = given.remove(index);
        check_shape(parameter, shape(&value))?;
        values.push(value);
    }
    let names: Vec<String> = given.into_iter().map(|(name, _)| name).collect();
    match names.is_empty() || !is_strict {
        true => Ok(values),
        false => Err(ParametersError::Unexpected { names }),
    }
}

pub(crate) fn check_shape(parameter: &Parameter, shape: &[usize]) -> Result<(), ParametersError> {
    if shape == parameter.shape {
        return Ok(());
    }
    Err(ParametersError::Shape {
        name: parameter.name.clone(),
        actual: shape.to_vec(),
        expected: parameter.shape.clone(),
    })
}

/// Collects the first values as a parameter's value. There are enough of them.
pub(crate) fn collected(
    parameter: &Parameter,
    values: impl Iterator<Item = f32>,
) -> Result<ArrayD<f32>, ParametersError> {
    let refused = || ParametersError::TooLarge {
        name: parameter.name.clone(),
        shape: parameter.shape.clone(),
    };
    let product = |total: usize, &extent: &usize| total.checked_mul(extent);
    let elements = parameter.shape.iter().try_fold(1, product);
    let elements = elements.ok_or_else(refused)?;
    let mut all = reserve(elements).map_err(|_| refused())?;
    all.extend(values.take(elements));
    ArrayD::from_shape_vec(IxDyn(&parameter.shape), all).map_err(|_| refused())
}

//! Checks of given values against the table of a graph's parameters.

use std::fmt::{self, Write as _};

use ndarray::{ArrayD, IxDyn};
use op_spec::graph::{Graph, Parameter};

use crate::host_memory::reserve;
use crate::tensor_file::LoadOptions;

/// The reason why values do not match the parameters of a graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// Parameters have no value.
    #[error("missing: {}; given: {}{}", joined(.parameters, ", "), listed(.given), hint(.prefixes))]
    Missing {
        /// All parameters without a value.
        parameters: Vec<MissingParameter>,
        /// The names of the given values. Names that end like a missing parameter's name come first.
        given: Vec<GivenName>,
        /// Every [prefix](crate::LoadOptions::prefix) with which each parameter has a value. Shapes are not
        /// compared.
        prefixes: Vec<String>,
    },
    /// Values belong to no parameter.
    #[error("{}", unexpected(.names, .of_layers))]
    Unexpected {
        /// The names outside of all layers, unless the options ignore them.
        names: Vec<GivenName>,
        /// The names under the name of a layer. They are always refused: the network that stored them
        /// computes something else than the layer.
        of_layers: Vec<LayerTensor>,
    },
    /// No parameter has the name of a value that is to be replaced.
    #[error("{name}: no parameter has this name; the parameters are {}", listed(.parameters))]
    Unknown {
        /// The name.
        name: String,
        /// The names of all parameters.
        parameters: Vec<String>,
    },
    /// Several values belong to one parameter.
    #[error("{name}: given {} times, as {}", .given.len(), listed(.given))]
    Repeated {
        /// The parameter.
        name: String,
        /// The names of the given values.
        given: Vec<String>,
    },
    /// Values have other shapes than their parameters.
    #[error("{}", joined(.mismatches, "; "))]
    Shapes {
        /// All mismatches.
        mismatches: Vec<ShapeMismatch>,
    },
    /// The number of tensors differs from the number of parameters.
    #[error("parameters: there are {actual} tensors, the model has {expected} parameters")]
    Count {
        /// The number of given tensors.
        actual: usize,
        /// The number of the graph's parameters.
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

/// A parameter without a value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MissingParameter {
    /// The parameter.
    pub parameter: Parameter,
    /// The tensor name that would be found, if a prefix or a rename rule of the [options](crate::LoadOptions)
    /// makes it differ from the parameter's. Unknown for a rename function.
    pub sought: Option<String>,
}

impl fmt::Display for MissingParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { name, shape, .. } = &self.parameter;
        write!(f, "{name} of shape {shape:?}")?;
        match &self.sought {
            Some(sought) => write!(f, " (sought as {sought})"),
            None => Ok(()),
        }
    }
}

/// The name of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenName {
    /// The name as given, or as in the file.
    pub name: String,
    /// The name after renaming by the [options](crate::LoadOptions), if a rule or a function changed it.
    pub renamed: Option<String>,
}

impl fmt::Display for GivenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.renamed {
            Some(renamed) => write!(f, "{} (read as {renamed})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A value of another shape than its parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeMismatch {
    /// The value's name.
    pub name: String,
    /// The value's shape.
    pub actual: Vec<usize>,
    /// The parameter's shape.
    pub expected: Vec<usize>,
}

impl fmt::Display for ShapeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShapeMismatch {
            name,
            actual,
            expected,
        } = self;
        write!(f, "{name}: shape is {actual:?}, expected {expected:?}")
    }
}

/// A value under the name of a layer that has no parameter of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerTensor {
    /// The value's name.
    pub name: String,
    /// The layer, counted from 0.
    pub layer: usize,
    /// Its operator.
    pub operator: &'static str,
    /// The attribute that would give the layer this parameter, if there is one.
    pub attribute: Option<&'static str>,
}

fn joined(all: &[impl fmt::Display], separator: &str) -> String {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    texts.join(separator)
}

/// Lists the first names only: a whole network can have many.
pub(crate) fn listed(names: &[impl fmt::Display]) -> String {
    const MOST: usize = 12;
    match names.len() {
        0 => "nothing".to_owned(),
        len if len <= MOST => joined(names, ", "),
        len => format!("{} and {} more", joined(&names[..MOST], ", "), len - MOST),
    }
}

fn hint(prefixes: &[String]) -> String {
    match prefixes {
        [] => String::new(),
        [prefix] => format!("; with the prefix {prefix} all are there"),
        several => format!(
            "; with each of these prefixes all are there: {}",
            listed(several)
        ),
    }
}

fn unexpected(names: &[GivenName], of_layers: &[LayerTensor]) -> String {
    let mut text = String::new();
    for of_layer in of_layers
        .chunk_by(|one, other| (one.layer, one.attribute) == (other.layer, other.attribute))
    {
        let all: Vec<&str> = of_layer.iter().map(|tensor| &*tensor.name).collect();
        let LayerTensor {
            layer, operator, ..
        } = of_layer[0];
        // Writing to a string cannot fail.
        let _ = write!(text, "{}: layer {layer}, {operator}, ", all.join(", "));
        let them = if all.len() == 1 { "it" } else { "them" };
        let _ = match of_layer[0].attribute {
            Some(attribute) => write!(text, "takes {them} only with \"{attribute}\": true; "),
            None => write!(text, "has no such parameter, whatever its attributes; "),
        };
    }
    match names {
        [] => text.truncate(text.len().saturating_sub(2)),
        names => {
            text += &listed(names);
            text += ": given, but the model has no use for it";
        }
    }
    text
}

/// A value given for a parameter.
pub(crate) struct Given<V> {
    /// The name under which the value was found.
    pub(crate) found_as: String,
    /// The name of the parameter that the value is for.
    pub(crate) name: String,
    pub(crate) value: V,
}

impl<V> From<(String, V)> for Given<V> {
    fn from((name, value): (String, V)) -> Given<V> {
        Given {
            found_as: name.clone(),
            name,
            value,
        }
    }
}

/// Sorts the given values into the order of the graph's parameters. The names were found with `options`. If
/// the options are strict, values that match neither a parameter nor a layer are refused.
pub(crate) fn in_order<V>(
    graph: &Graph,
    given: impl IntoIterator<Item = Given<V>>,
    options: &LoadOptions,
) -> Result<Vec<V>, ParametersError> {
    // PyTorch's batch norms count the batches of their running statistics, which inference does not use.
    let is_count = |given: &Given<V>| {
        let (_, last) = given.name.rsplit_once('.').unwrap_or(("", &given.name));
        last == "num_batches_tracked"
    };
    let mut given: Vec<Given<V>> = given.into_iter().filter(|given| !is_count(given)).collect();
    given.sort_by(|one, other| (&one.name, &one.found_as).cmp(&(&other.name, &other.found_as)));
    let parameters = graph.parameters();
    let is_parameter = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    for same in given.chunk_by(|one, other| one.name == other.name) {
        if same.len() > 1 && is_parameter(&same[0].name) {
            return Err(ParametersError::Repeated {
                name: same[0].name.clone(),
                given: same.iter().map(|given| given.found_as.clone()).collect(),
            });
        }
    }
    let position = |given: &[Given<V>], name: &str| {
        given.binary_search_by(|given| given.name.as_str().cmp(name))
    };
    let missing = parameters.iter();
    let missing = missing.filter(|parameter| position(&given, &parameter.name).is_err());
    let missing = missing.map(|parameter| MissingParameter {
        parameter: parameter.clone(),
        sought: options.sought(&parameter.name),
    });
    let missing: Vec<MissingParameter> = missing.collect();
    let named = |given: Given<V>| GivenName {
        renamed: options.renamed(&given.found_as, &given.name),
        name: given.found_as,
    };
    if let Some(MissingParameter {
        parameter: first, ..
    }) = missing.first()
    {
        let fits = |prefix: &str| {
            let mut names = parameters.iter().map(|parameter| &parameter.name);
            names.all(|name| position(&given, &format!("{prefix}{name}")).is_ok())
        };
        let prefixes = given.iter().filter_map(|given| {
            let prefix = given.name.strip_suffix(&first.name)?;
            // A part of the name that the options already removed as a prefix belongs to the reported prefix.
            let known = given.found_as.strip_suffix(&given.name).unwrap_or("");
            (prefix.ends_with('.') && fits(prefix)).then(|| format!("{known}{prefix}"))
        });
        let prefixes = prefixes.collect();
        let mut given: Vec<GivenName> = given.into_iter().map(named).collect();
        let is_alike = |given: &GivenName| {
            let mut names = missing.iter().map(|one| &one.parameter.name);
            names.any(|name| given.name.ends_with(name))
        };
        given.sort_by_cached_key(|given| !is_alike(given));
        return Err(ParametersError::Missing {
            parameters: missing,
            given,
            prefixes,
        });
    }
    let mut values = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let index = position(&given, &parameter.name).expect("it is not missing");
        values.push(given.remove(index).value);
    }
    let (mut names, mut of_layers) = (Vec::new(), Vec::new());
    for given in given {
        match layer_of(graph, &given.name) {
            Some(layer) => of_layers.push(LayerTensor {
                layer,
                operator: graph.layers()[layer].operator(),
                attribute: attribute_for(graph, layer, &given.name),
                name: given.found_as,
            }),
            None if options.is_strict => names.push(named(given)),
            None => {}
        }
    }
    if of_layers.is_empty() && names.is_empty() {
        return Ok(values);
    }
    // Tensors with a known attribute come first within a layer.
    of_layers.sort_by_key(|tensor| (tensor.layer, tensor.attribute.is_none(), tensor.attribute));
    Err(ParametersError::Unexpected { names, of_layers })
}

/// Returns the layer under whose name a tensor stands; if several match, the layer with the longest name.
fn layer_of(graph: &Graph, name: &str) -> Option<usize> {
    let is_under = |layer: &str| {
        let rest = name.strip_prefix(layer).filter(|_| !layer.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let layers = graph.layers().iter().map(|layer| layer.name()).enumerate();
    let under = layers.filter(|(_, layer)| is_under(layer));
    under
        .max_by_key(|(_, layer)| layer.len())
        .map(|(index, _)| index)
}

/// Returns the attribute that would give the layer a parameter of this name.
fn attribute_for(graph: &Graph, layer: usize, name: &str) -> Option<&'static str> {
    let mut absent = graph.absent_parameters().iter();
    let known = absent.find(|absent| absent.name == name && absent.layer == layer)?;
    Some(known.attribute)
}

/// Refuses values whose shapes differ from their parameters'. Each value comes with the name it was found
/// under.
pub(crate) fn check_shapes<'a>(
    values: impl IntoIterator<Item = (&'a Parameter, &'a str, &'a [usize])>,
) -> Result<(), ParametersError> {
    let values = values.into_iter();
    let misshapen = values.filter(|(parameter, _, shape)| **shape != parameter.shape);
    let mismatches = misshapen.map(|(parameter, name, shape)| ShapeMismatch {
        name: name.to_owned(),
        actual: shape.to_vec(),
        expected: parameter.shape.clone(),
    });
    let mismatches: Vec<ShapeMismatch> = mismatches.collect();
    match mismatches.is_empty() {
        true => Ok(()),
        false => Err(ParametersError::Shapes { mismatches }),
    }
}

/// Collects a parameter's value from an iterator that has at least as many values as the parameter.
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

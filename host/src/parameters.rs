//! The values of a chain's parameters: PyTorch's initialisation, checks, and safetensors files under the names that
//! PyTorch gives them.

use std::path::Path;

use ndarray::{ArrayD, ArrayViewD, IxDyn};
use op_spec::chain::{Chain, Parameter};

use crate::dtype::DType;
use crate::host_memory::reserve;
use crate::tensor_file::{self, LoadOptions, TensorFileError};

/// A value for every parameter of a chain, in the shape that the chain's table gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    table: Vec<Parameter>,
    /// In standard layout.
    values: Vec<ArrayD<f32>>,
}

/// Why values are not the parameters of a chain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// A parameter has no value.
    #[error("{name}: is missing, the chain has it with shape {expected:?}; given: {}", listed(.given))]
    Missing {
        /// The parameter.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
        /// What values are called that there are, first those that end with the parameter's name.
        given: Vec<String>,
    },
    /// Values belong to no parameter, or to one that has a value already.
    #[error("{}: given, but the chain has no use for it", listed(.names))]
    Unexpected {
        /// What they are called.
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
    #[error("parameters: there are {actual} tensors, the chain has {expected} parameters")]
    Count {
        /// Tensors that were given.
        actual: usize,
        /// Parameters of the chain.
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

/// The first names of what may be a whole network's.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    match names.len() {
        0 => "nothing".to_owned(),
        len if len <= MOST => names.join(", "),
        len => format!("{} and {} more", names[..MOST].join(", "), len - MOST),
    }
}

impl Parameters {
    /// What PyTorch initialises the parameters with, from random numbers of this seed.
    ///
    /// # Errors
    /// [`ParametersError::TooLarge`].
    pub fn init(chain: &Chain, seed: u64) -> Result<Parameters, ParametersError> {
        let table = chain.parameters().to_vec();
        let values = table.iter().map(|parameter| initial(parameter, seed));
        Ok(Parameters {
            values: values.collect::<Result<_, _>>()?,
            table,
        })
    }

    /// These values, each under its parameter's name. A batch norm's `num_batches_tracked` is passed over.
    ///
    /// # Errors
    /// [`ParametersError`] with the first parameter that is missing, superfluous, or of another shape.
    pub fn new(
        chain: &Chain,
        values: impl IntoIterator<Item = (String, ArrayD<f32>)>,
    ) -> Result<Parameters, ParametersError> {
        let table = chain.parameters().to_vec();
        let values = in_order(&table, values, |value| value.shape(), true)?;
        let values = table.iter().zip(values);
        let values = values.map(|(parameter, value)| standard(parameter, value));
        Ok(Parameters {
            values: values.collect::<Result<_, _>>()?,
            table,
        })
    }

    /// Whether these are parameters of `chain`.
    ///
    /// # Errors
    /// [`ParametersError`] with the first parameter that the chain has and these have not, or in another shape, or the
    /// other way round.
    pub fn check(&self, chain: &Chain) -> Result<(), ParametersError> {
        let named = self.iter().map(|(name, value)| (name.to_owned(), value));
        in_order(chain.parameters(), named, |value| value.shape(), true).map(drop)
    }

    /// Reads the parameters of `chain`. A batch norm's `num_batches_tracked`, which PyTorch stores beside its running statistics, is
    /// passed over.
    ///
    /// # Errors
    /// [`TensorFileError`] for a file that cannot be read or is no safetensors file (a truncated one,
    /// say), and for tensors that are missing, superfluous, misshapen, or neither f32 nor f16 nor bf16.
    pub fn load(path: impl AsRef<Path>, chain: &Chain) -> Result<Parameters, TensorFileError> {
        Parameters::load_with(path, chain, &LoadOptions::default())
    }

    /// The same from a file of more than the chain's parameters, such as a whole network's.
    ///
    /// # Errors
    /// As [`Parameters::load`]; with [`LoadOptions::strict`] off, nothing is superfluous.
    pub fn load_with(
        path: impl AsRef<Path>,
        chain: &Chain,
        options: &LoadOptions,
    ) -> Result<Parameters, TensorFileError> {
        let table = chain.parameters().to_vec();
        let values = tensor_file::read(path.as_ref(), &table, options)?;
        Ok(Parameters { table, values })
    }

    /// Writes the parameters to `path`, replacing the file only once it is complete.
    ///
    /// # Errors
    /// [`TensorFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TensorFileError> {
        let named = self.iter().map(|(name, value)| (name, value.view()));
        tensor_file::write(path.as_ref(), named)
    }

    /// The value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ArrayViewD<'_, f32>> {
        let mut named = self.iter();
        named.find_map(|(other, value)| (other == name).then(|| value.view()))
    }

    /// Replaces the value of a parameter.
    ///
    /// # Errors
    /// [`ParametersError::Unexpected`], [`ParametersError::Shape`], [`ParametersError::TooLarge`].
    pub fn set(&mut self, name: &str, value: ArrayD<f32>) -> Result<(), ParametersError> {
        let known = self.table.iter().position(|other| other.name == name);
        let index = known.ok_or_else(|| ParametersError::Unexpected {
            names: vec![name.to_owned()],
        })?;
        check_shape(&self.table[index], value.shape())?;
        self.values[index] = standard(&self.table[index], value)?;
        Ok(())
    }

    /// Names and values, in the order of the chain's table.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ArrayD<f32>)> {
        let names = self.table.iter().map(|parameter| parameter.name.as_str());
        names.zip(&self.values)
    }

    /// The values, in the order of the chain's table and in standard layout.
    #[must_use]
    pub fn values(&self) -> &[ArrayD<f32>] {
        &self.values
    }

    /// Every value rounded to what `dtype` can hold.
    #[must_use]
    pub fn rounded(mut self, dtype: DType) -> Parameters {
        for values in &mut self.values {
            values.mapv_inplace(|value| dtype.round(value));
        }
        self
    }

    /// A copy with every value rounded to what `dtype` can hold.
    ///
    /// # Errors
    /// [`ParametersError::TooLarge`].
    pub(crate) fn to_rounded(&self, dtype: DType) -> Result<Parameters, ParametersError> {
        let values = self.table.iter().zip(&self.values);
        let rounded = values.map(|(parameter, value)| {
            let values = value.iter().map(|&value| dtype.round(value));
            collected(parameter, values)
        });
        Ok(Parameters {
            values: rounded.collect::<Result<_, _>>()?,
            table: self.table.clone(),
        })
    }
}

/// What is given for each parameter, in the parameters' order; `shape` gives its shape. What belongs to no parameter is refused if `is_strict`.
pub(crate) fn in_order<V>(
    parameters: &[Parameter],
    given: impl IntoIterator<Item = (String, V)>,
    shape: impl Fn(&V) -> &[usize],
    is_strict: bool,
) -> Result<Vec<V>, ParametersError> {
    let mut given: Vec<(String, V)> = given.into_iter().collect();
    // PyTorch's batch norms count the batches that their running statistics are of, which nothing here asks for.
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

fn check_shape(parameter: &Parameter, shape: &[usize]) -> Result<(), ParametersError> {
    if shape == parameter.shape {
        return Ok(());
    }
    Err(ParametersError::Shape {
        name: parameter.name.clone(),
        actual: shape.to_vec(),
        expected: parameter.shape.clone(),
    })
}

/// The value in standard layout.
fn standard(parameter: &Parameter, value: ArrayD<f32>) -> Result<ArrayD<f32>, ParametersError> {
    match value.is_standard_layout() {
        true => Ok(value),
        false => collected(parameter, value.iter().copied()),
    }
}

fn initial(parameter: &Parameter, seed: u64) -> Result<ArrayD<f32>, ParametersError> {
    collected(parameter, (0..).map(|index| parameter.initial(seed, index)))
}

/// The first of these as the values of a parameter, of which there are enough.
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

#[cfg(test)]
mod tests;

//! The values of a graph's parameters: PyTorch's initialisation, checks, and safetensors files under the
//! names that PyTorch gives them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ndarray::{ArrayD, ArrayViewD};
use op_spec::graph::{Graph, Parameter};

use crate::dtype::DType;
use crate::tensor_file::given::{Given, check_shapes, collected, in_order};
pub use crate::tensor_file::given::{
    GivenName, LayerTensor, MissingParameter, ParametersError, ShapeMismatch,
};
use crate::tensor_file::{self, LoadOptions, Source, TensorFileError};

/// The largest number of parameters of an operator.
pub(crate) const MAX_PARAMETERS: usize = 4;

/// The values of all parameters of a graph, in the shapes of the graph's table.
///
/// # Examples
/// ```
/// use convfuse::Parameters;
/// use convfuse::graph::{Chain, Layer};
/// use convfuse::ndarray::arr1;
///
/// let chain = Chain::new(2, (Layer::conv2d("conv", 4, 3), Layer::scale("scale")))?;
/// let mut parameters = Parameters::init(&chain, 42)?;
/// parameters.set("conv.bias", arr1(&[0.0, 1.0, 2.0, 3.0]).into_dyn())?;
/// assert_eq!(parameters.get("conv.bias").unwrap()[3], 3.0);
/// let names: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["conv.weight", "conv.bias", "scale"]);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Parameters {
    table: Arc<[Parameter]>,
    /// The values in standard layout.
    values: Vec<ArrayD<f32>>,
}

impl Parameters {
    /// Initialises parameters as PyTorch does, with random numbers of this seed.
    ///
    /// # Errors
    /// [`ParametersError::TooLarge`].
    pub fn init(graph: impl AsRef<Graph>, seed: u64) -> Result<Parameters, ParametersError> {
        let table: Arc<[Parameter]> = graph.as_ref().parameters().into();
        let values = table.iter().map(|parameter| initial(parameter, seed));
        Ok(Parameters {
            values: values.collect::<Result<_, _>>()?,
            table,
        })
    }

    /// Creates parameters from values by name. A batch norm's `num_batches_tracked` is ignored.
    ///
    /// # Errors
    /// [`ParametersError`] that lists missing parameters, superfluous values, or values of other shapes.
    pub fn new(
        graph: impl AsRef<Graph>,
        values: impl IntoIterator<Item = (String, ArrayD<f32>)>,
    ) -> Result<Parameters, ParametersError> {
        let table: Arc<[Parameter]> = graph.as_ref().parameters().into();
        let values = values.into_iter().map(Given::from);
        let values = in_order(graph.as_ref(), values, &LoadOptions::default())?;
        check_shapes(named(&table, values.iter().map(ArrayD::shape)))?;
        let values = table.iter().zip(values);
        let values = values.map(|(parameter, value)| standard(parameter, value));
        Ok(Parameters {
            values: values.collect::<Result<_, _>>()?,
            table,
        })
    }

    /// Creates parameters from values in standard layout, in the shapes and order of a graph's table.
    pub(crate) fn of(table: &Arc<[Parameter]>, values: Vec<ArrayD<f32>>) -> Parameters {
        let table = Arc::clone(table);
        Parameters { table, values }
    }

    /// Checks that the values belong to the parameters of `graph`.
    ///
    /// # Errors
    /// [`ParametersError`] that lists missing parameters, superfluous values, or values of other shapes.
    pub fn check(&self, graph: impl AsRef<Graph>) -> Result<(), ParametersError> {
        let graph = graph.as_ref();
        let given = self
            .iter()
            .map(|(name, value)| (name.to_owned(), value).into());
        let values = in_order(graph, given, &LoadOptions::default())?;
        check_shapes(named(
            graph.parameters(),
            values.into_iter().map(ArrayD::shape),
        ))
    }

    /// Reads the parameters of `graph` from a safetensors file, or from several files. For several files,
    /// `path` is their index (`model.safetensors.index.json`), whose `weight_map` names the file of each
    /// tensor. A batch norm's `num_batches_tracked`, which PyTorch stores beside its running statistics, is
    /// ignored.
    ///
    /// # Errors
    /// [`TensorFileError`] for a file that cannot be read or is not a safetensors file (a truncated one,
    /// say); for tensors that are missing, superfluous, misshapen, or of a type other than f64, f32, f16 and
    /// bf16; for an index that names a file outside of its folder.
    pub fn load(
        graph: impl AsRef<Graph>,
        path: impl AsRef<Path>,
    ) -> Result<Parameters, TensorFileError> {
        Parameters::load_with(graph, path, &LoadOptions::default())
    }

    /// Reads parameters with options, from a file with more than the graph's parameters (of a whole network,
    /// say), or with other names.
    ///
    /// # Errors
    /// As [`Parameters::load`]. With [`LoadOptions::strict`] off, only surplus tensors under the name of a
    /// layer are refused. Two tensors for one parameter are always refused.
    pub fn load_with(
        graph: impl AsRef<Graph>,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Parameters, TensorFileError> {
        Parameters::read(Source::Path(path.as_ref()), graph.as_ref(), options)
    }

    /// Reads parameters with options from the bytes of a safetensors file, such as those of `include_bytes!`.
    ///
    /// # Errors
    /// As [`Parameters::load_with`].
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::{Chain, Layer};
    /// use convfuse::{LoadOptions, Parameters};
    ///
    /// let header = br#"{"net.slope.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    /// let bytes = [&header.len().to_le_bytes()[..], header, &0.5f32.to_le_bytes()].concat();
    /// let chain = Chain::new(3, [Layer::prelu("prelu", 1)])?;
    /// let options = LoadOptions::default().prefix("net.").rename("slope", "prelu");
    /// let parameters = Parameters::from_bytes(&chain, &bytes, &options)?;
    /// assert_eq!(parameters.get("prelu.weight").unwrap()[0], 0.5);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn from_bytes(
        graph: impl AsRef<Graph>,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Parameters, TensorFileError> {
        Parameters::read(Source::Bytes(bytes), graph.as_ref(), options)
    }

    fn read(
        source: Source<'_>,
        graph: &Graph,
        options: &LoadOptions,
    ) -> Result<Parameters, TensorFileError> {
        Ok(Parameters {
            table: graph.parameters().into(),
            values: tensor_file::read(source, graph, options)?,
        })
    }

    /// Writes the parameters to `path`. An existing file is replaced only when the new one is complete.
    ///
    /// # Errors
    /// [`TensorFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TensorFileError> {
        let named = self.iter().map(|(name, value)| (name, value.view()));
        tensor_file::write(path.as_ref(), named)
    }

    /// Returns the value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ArrayViewD<'_, f32>> {
        let mut named = self.iter();
        named.find_map(|(other, value)| (other == name).then(|| value.view()))
    }

    /// Replaces the value of a parameter.
    ///
    /// # Errors
    /// [`ParametersError::Unknown`], [`ParametersError::Shapes`], [`ParametersError::TooLarge`].
    pub fn set(&mut self, name: &str, value: ArrayD<f32>) -> Result<(), ParametersError> {
        let known = self.table.iter().position(|other| other.name == name);
        let index = known.ok_or_else(|| ParametersError::Unknown {
            name: name.to_owned(),
            parameters: self.table.iter().map(|other| other.name.clone()).collect(),
        })?;
        check_shapes([(&self.table[index], name, value.shape())])?;
        self.values[index] = standard(&self.table[index], value)?;
        Ok(())
    }

    /// Iterates over names and values, in the order of the graph's table.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ArrayD<f32>)> {
        let names = self.table.iter().map(|parameter| parameter.name.as_str());
        names.zip(&self.values)
    }

    /// Returns the values in standard layout, in the order of the graph's table.
    #[must_use]
    pub fn values(&self) -> &[ArrayD<f32>] {
        &self.values
    }

    /// Rounds every value to the nearest that `dtype` can hold.
    #[must_use]
    pub fn rounded(mut self, dtype: DType) -> Parameters {
        for values in &mut self.values {
            values.mapv_inplace(|value| dtype.round(value));
        }
        self
    }

    /// Returns a copy with every value rounded to the nearest that `dtype` can hold.
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
            table: Arc::clone(&self.table),
        })
    }
}

/// Pairs the parameters, in the table's order, with their names and the shapes of their values.
pub(crate) fn named<'a>(
    table: &'a [Parameter],
    shapes: impl Iterator<Item = &'a [usize]>,
) -> impl Iterator<Item = (&'a Parameter, &'a str, &'a [usize])> {
    let table = table.iter().zip(shapes);
    table.map(|(parameter, shape)| (parameter, parameter.name.as_str(), shape))
}

/// Formats names and shapes in one line.
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shaped = |Parameter { name, shape, .. }: &Parameter| format!("{name} {shape:?}");
        let shaped: Vec<String> = self.table.iter().map(shaped).collect();
        write!(f, "Parameters({})", shaped.join(", "))
    }
}

/// Returns the value in standard layout.
fn standard(parameter: &Parameter, value: ArrayD<f32>) -> Result<ArrayD<f32>, ParametersError> {
    match value.is_standard_layout() {
        true => Ok(value),
        false => collected(parameter, value.iter().copied()),
    }
}

fn initial(parameter: &Parameter, seed: u64) -> Result<ArrayD<f32>, ParametersError> {
    collected(parameter, (0..).map(|index| parameter.initial(seed, index)))
}

#[cfg(test)]
mod tests;

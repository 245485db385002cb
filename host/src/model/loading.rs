//! Models with parameters from files, or from tensors on a device.

use std::path::Path;
use std::sync::OnceLock;

use op_spec::graph::Graph;

use super::Model;
use super::programs::kernel_dtypes;
use crate::device::{DType, Stream, Tensor};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::parameters::{Parameters, ParametersError, named};
use crate::tensor_file::LoadOptions;
use crate::tensor_file::given::check_shapes;

const OPERATOR: &str = "from_tensors";

impl Model {
    /// Makes a model with f32 parameters from a safetensors file, under PyTorch's names, or from several
    /// files with an index.
    ///
    /// # Errors
    /// [`Error::Weights`], see [`Parameters::load`].
    pub fn load(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        path: impl AsRef<Path>,
    ) -> Result<Model> {
        Model::load_with(stream, graph, path, &LoadOptions::default())
    }

    /// [`load`](Self::load) with options, whose element type becomes the model's.
    ///
    /// # Errors
    /// [`Error::Weights`], see [`Parameters::load_with`].
    ///
    /// # Examples
    /// ```no_run
    /// use convfuse::graph::{Chain, Layer};
    /// use convfuse::{DType, Device, LoadOptions, Model};
    ///
    /// let chain = Chain::new(8, (Layer::batch_norm("norm"), Layer::relu()))?;
    /// let options = LoadOptions::default().prefix("encoder.0.").strict(false).dtype(DType::F16);
    /// let path = "network/model.safetensors.index.json";
    /// let model = Model::load_with(&Device::best().stream()?, &chain, path, &options)?;
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn load_with(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Model> {
        let parameters = Parameters::load_with(graph.as_ref(), path, options)?;
        Model::with_dtype(stream, graph, &parameters, options.dtype)
    }

    /// Loads parameters from the bytes of a safetensors file, such as those of `include_bytes!`.
    ///
    /// # Errors
    /// [`Error::Weights`], see [`Parameters::load_with`].
    pub fn from_bytes(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Model> {
        let parameters = Parameters::from_bytes(graph.as_ref(), bytes, options)?;
        Model::with_dtype(stream, graph, &parameters, options.dtype)
    }

    /// Makes a model with parameters that are already on the device of `stream`: one tensor for each entry of
    /// the graph's [table](Graph::parameters), in its order. Inputs and outputs are of `dtype`. Parameters of
    /// another element type are rounded to it, except those of norms, which may be f32 with a 16-bit `dtype`.
    /// Dense, aligned tensors are used in place; others are copied. Fused kernels read forms that are
    /// prepared only once, so make a new model after writing to memory that the tensors share.
    ///
    /// # Errors
    /// [`ParametersError::Count`] for another number of tensors; [`ParametersError::Shapes`];
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch); errors of copies.
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::{Chain, Layer};
    /// use convfuse::{DType, Device, Model, Tensor};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let chain = Chain::new(2, (Layer::scale("scale"), Layer::relu()))?;
    /// let scale = Tensor::from_array(&stream, &array![2.0f32, -1.0])?;
    /// let model = Model::from_tensors(&stream, &chain, vec![scale], DType::F32)?;
    /// let x = Tensor::from_array(&stream, &array![[3.0f32, 3.0]])?;
    /// assert_eq!(model.forward(&x)?.to_array::<f32>()?, array![[6.0, 0.0]].into_dyn());
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn from_tensors(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        tensors: Vec<Tensor>,
        dtype: DType,
    ) -> Result<Model> {
        let graph = graph.as_ref();
        let table = graph.parameters();
        if tensors.len() != table.len() {
            let (actual, expected) = (tensors.len(), table.len());
            return Err(ParametersError::Count { actual, expected }.into());
        }
        let stored: Vec<DType> = tensors.iter().map(Tensor::dtype).collect();
        let dtypes = kernel_dtypes(graph, &stored, dtype).into_iter();
        check_shapes(named(table, tensors.iter().map(Tensor::shape)))?;
        let checked = tensors.into_iter().zip(dtypes).map(|(tensor, dtype)| {
            tensor.same_device((OPERATOR, "a parameter"), stream)?;
            tensor.to_dtype(dtype)?.contiguous()
        });
        let tensors: Vec<Tensor> = checked.collect::<Result<_>>()?;
        let model = Model::with(stream, graph, OnceLock::new(), dtype, tensors);
        if stream.device().is_cpu() {
            // The CPU backend reads parameters from the host.
            model.parameters()?;
        }
        Ok(model)
    }

    /// Returns the parameters, rounded to the model's element type. A model [made of
    /// tensors](Self::from_tensors) copies them from the device at the first call, and the host waits for the
    /// copy.
    ///
    /// # Errors
    /// Errors of that copy; none for other models.
    pub fn parameters(&self) -> Result<&Parameters> {
        let (known, tensors) = self.values();
        if let Some(parameters) = known.get() {
            return Ok(parameters);
        }
        let table = self.graph().parameters().iter().zip(tensors);
        let values = table.map(|(parameter, tensor)| {
            let value = tensor.to_f32_array()?;
            Ok((parameter.name.clone(), value))
        });
        let values: Vec<_> = values.collect::<Result<_>>()?;
        let parameters = Parameters::new(self.graph(), values)?;
        Ok(known.get_or_init(|| parameters))
    }
}

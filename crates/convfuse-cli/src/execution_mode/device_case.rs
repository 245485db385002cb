//! A case uploaded to a device.

use std::cell::OnceCell;

use convfuse::lab;
use convfuse::model::{Model, Options};
use convfuse::{DType, Parameters, Stream, Tensor};
use ndarray::{ArrayD, Axis};
use op_spec::graph::Layer;
use oracle::Case;

use super::named;

/// A case on a device: its inputs, and its parameters in the form that each mode needs.
#[derive(Debug)]
pub struct DeviceCase<'a> {
    pub(super) of: &'a Case,
    stream: &'a Stream,
    dtype: DType,
    /// The first input.
    pub x: Tensor,
    /// The further inputs, in the chain's order.
    pub further: Vec<Tensor>,
    parameters: OnceCell<Vec<Tensor>>,
    model: OnceCell<Model>,
}

impl<'a> DeviceCase<'a> {
    /// Uploads the inputs to the stream's device, rounded to this type.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(
        case: &'a Case,
        stream: &'a Stream,
        dtype: DType,
    ) -> convfuse::Result<DeviceCase<'a>> {
        let upload = |values| Tensor::from_f32_array(stream, values, dtype);
        let further = case.inputs.iter().map(upload);
        Ok(DeviceCase {
            of: case,
            stream,
            dtype,
            x: upload(&case.x)?,
            further: further.collect::<convfuse::Result<_>>()?,
            parameters: OnceCell::new(),
            model: OnceCell::new(),
        })
    }

    /// Returns the parameters of the only layer, in the form that the operator's function takes.
    pub(super) fn parameters(&self, layer: &Layer) -> convfuse::Result<&[Tensor]> {
        if let Some(parameters) = self.parameters.get() {
            return Ok(parameters);
        }
        let upload = |values: &ArrayD<f32>| {
            let mut values = values.view();
            // A factor per channel has trailing extents of 1 in a chain, but not in the operator's function.
            while matches!(layer, Layer::Scale(_)) && values.ndim() > 1 {
                let last = Axis(values.ndim() - 1);
                values = values.remove_axis(last);
            }
            Tensor::from_f32_array(self.stream, &values, self.dtype)
        };
        let parameters = self.of.parameters.iter().map(upload);
        let parameters = parameters.collect::<convfuse::Result<_>>()?;
        Ok(self.parameters.get_or_init(|| parameters))
    }

    /// Returns the graph as a model.
    pub(super) fn model(&self) -> convfuse::Result<&Model> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let graph = &self.of.graph;
        let names = graph.parameters().iter();
        let names = names.map(|parameter| parameter.name.clone());
        let values = names.zip(self.of.parameters.iter().cloned());
        let parameters = Parameters::new(graph, values)?;
        let model = Model::with_dtype(self.stream, graph, &parameters, self.dtype)?;
        Ok(self.model.get_or_init(|| model))
    }
}

/// The layers of a case, ready to run on a device.
#[derive(Debug)]
pub enum Executable<'a> {
    /// An operator, with its parameters.
    Operator(&'a Layer, Vec<Tensor>, Box<Options>),
    /// A model.
    Model(Model, Box<Options>),
}

impl Executable<'_> {
    /// Computes all outputs for the first input and the further inputs.
    ///
    /// # Errors
    /// Errors of the layers and of the device.
    pub fn run(&self, x: &Tensor, further: &[Tensor]) -> convfuse::Result<Vec<Tensor>> {
        match self {
            Executable::Operator(layer, parameters, options) => {
                // The operator's function takes further inputs as parameters.
                let parameters = parameters.iter().chain(further).cloned();
                let parameters: Vec<Tensor> = parameters.collect();
                Ok(vec![lab::layer(x, layer, &parameters, options)?])
            }
            Executable::Model(model, options) => {
                model.forward_all(named(model.graph(), x, further), options)
            }
        }
    }

    /// Returns the kernels that run for a dense input of this shape; empty for an operator's function.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn kernels(&self, input: &[usize]) -> convfuse::Result<Vec<&'static str>> {
        match self {
            Executable::Operator(..) => Ok(Vec::new()),
            Executable::Model(model, options) => lab::launched_kernels(model, input, options),
        }
    }
}

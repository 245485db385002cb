//! Runs with a model's parameters.

use super::captures::OtherStreams;
use super::{Launches, OPERATOR, Runs, must_prepare};
use crate::device::{Stream, Tensor};
use crate::error::Result;
use crate::model::inputs::Inputs;
use crate::model::{Model, Options};
use crate::sync::Mutex;

impl Model {
    /// Prepares runs over memory that the caller passes to each run, for inputs of the shapes and memory
    /// layouts of `inputs`. Kernels are chosen and loaded, and parameters are converted to the forms that
    /// they read. The host waits until that is done. From then on all streams of the device may run it, also
    /// for the first time during a capture. Runs get no parameters.
    ///
    /// `stream` is the stream that the caller is about to run it on.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if the device is not a GPU;
    /// [`InCapture`](crate::Error::InCapture) if `stream` or the model's stream is in capture; the errors of
    /// [`plan_for`](Self::plan_for).
    pub fn launches<'a>(
        &self,
        stream: &Stream,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
    ) -> Result<Launches> {
        must_prepare(&[stream, self.stream()])?;
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        let orders = self.orders(OPERATOR, &inputs, stream)?;
        self.device()
            .must_be(stream.device(), (OPERATOR, "the model"))?;
        let problem = self.graph().problem(inputs[0].shape())?;
        let program = self.program(inputs[0].shape(), &orders, options)?;
        program.make_ready(OPERATOR, self.stream())?;
        self.stream().synchronize()?;
        Ok(Launches {
            device: self.device().clone(),
            graph: self.graph().clone(),
            dtype: self.dtype(),
            options: options.clone(),
            problem,
            orders,
            given: Vec::new(),
            read_as: self.parameter_dtypes().to_vec(),
            renewed: Vec::new(),
            runs: Runs::Kernels(program),
            streams: Mutex::default(),
            others: OtherStreams::default(),
        })
    }
}

//! A program ready to run on one stream.

use std::sync::Arc;

use super::Program;
use crate::device::{Stream, Tensor};
use crate::error::Result;

/// A program on one stream, with loaded kernels, ordered parameters and its own workspace.
///
/// The stream has already waited for the writes of the parameters. Dropping `Ready` records the runs' reads
/// of the parameters, so that these are not freed before.
#[derive(Debug)]
pub(crate) struct Ready {
    program: Arc<Program>,
    stream: Stream,
    workspace: Tensor,
}

impl Ready {
    /// Loads the kernels, makes `stream` wait for writes of the parameters on other streams, and allocates
    /// the workspace.
    ///
    /// # Errors
    /// `DeviceMismatch`, `OutOfMemory`; errors of loading.
    pub(crate) fn new(
        operator: &'static str,
        program: Arc<Program>,
        stream: &Stream,
    ) -> Result<Ready> {
        program.make_ready(operator, stream)?;
        Ok(Ready {
            workspace: program.workspace(stream)?,
            stream: stream.clone(),
            program,
        })
    }

    /// The program.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Queues the launches on the stream, to which the outputs belong, and calls `before` before each launch.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeMismatch` and `LayoutMismatch` for tensors that do not match the program,
    /// `NotContiguous` and `Misaligned` for outputs that kernels cannot write, `DeviceMismatch`,
    /// `TensorInUse`; errors of launches.
    pub(crate) fn run(
        &mut self,
        operator: &'static str,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
        before: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (program, stream) = (&*self.program, &self.stream);
        program.expect_inputs(operator, inputs)?;
        program.expect_outputs(operator, outputs.iter().map(|output| &**output))?;
        for output in &mut *outputs {
            output.rewrite((operator, "output"), stream)?;
        }
        // The reads stay open until the last launch is queued.
        let inputs = program.open_inputs(operator, inputs, stream)?;
        let outputs: Vec<&Tensor> = outputs.iter().map(|output| &**output).collect();
        let parameters = program.parameters.iter().map(Tensor::reading);
        let parameters: Vec<_> = parameters.collect();
        program.launch(
            stream,
            &inputs,
            &parameters,
            &outputs,
            Some(&self.workspace),
            before,
        )
    }

    /// Queues the launches on `recorder`, whose capture can be replayed on the stream any number of times.
    /// Inputs and outputs belong to the stream. The caller keeps them, and `self`, as long as it replays.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn record(
        &self,
        operator: &'static str,
        recorder: &Stream,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<()> {
        let program = &*self.program;
        for (input, tensor) in program.inputs.iter().zip(inputs) {
            input.named(tensor.must_belong_to(&self.stream, (operator, "input")))?;
        }
        program.expect_inputs(operator, inputs)?;
        program.expect_outputs(operator, outputs.iter().copied())?;
        let inputs: Vec<_> = inputs.iter().map(|tensor| tensor.reading()).collect();
        let parameters: Vec<_> = program.parameters.iter().map(Tensor::reading).collect();
        program.launch(
            recorder,
            &inputs,
            &parameters,
            outputs,
            Some(&self.workspace),
            &mut || Ok(()),
        )
    }

    /// Bytes of the workspace.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes()
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.program.note_earlier_reads(&self.stream);
    }
}

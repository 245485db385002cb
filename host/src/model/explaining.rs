//! The functions of models that explain which kernels run.

use super::{Explanation, Model, Options};
use crate::device::{DeviceProperties, Order};
use crate::error::{Error, Result};

impl Model {
    /// Explains which kernels run on inputs of this shape.
    ///
    /// # Errors
    /// As [`plan`](Self::plan). On the CPU device, which runs no kernels, [`Error::NoKernels`].
    pub fn explain(&self, input: &[usize], options: &Options) -> Result<Explanation> {
        self.explain_orders(input, &self.dense(), options)
    }

    /// Explains which kernels would run on a device of these properties. The model may be on any device,
    /// including the CPU; [`Explanation::of`] needs no model.
    ///
    /// # Errors
    /// [`Error::Graph`] for an input that the graph refuses; [`Error::NoKernels`] for a partition that no
    /// kernels implement.
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench79;
    /// use convfuse::{Device, DeviceProperties, Model, Options};
    ///
    /// let stream = Device::cpu().stream()?;
    /// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
    /// for &(name, properties) in DeviceProperties::NAMED {
    ///     let explanation = model.explain_for(&[128, 3, 16, 32, 32], &Options::default(), &properties)?;
    ///     println!("{name}: {}", explanation.regions[0].kernels);
    /// }
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn explain_for(
        &self,
        input: &[usize],
        options: &Options,
        properties: &DeviceProperties,
    ) -> Result<Explanation> {
        self.explain_as(input, &self.dense(), options, properties)
    }

    /// Explains which kernels run on the model's device for inputs of these orders.
    pub(super) fn explain_orders(
        &self,
        input: &[usize],
        orders: &[Order],
        options: &Options,
    ) -> Result<Explanation> {
        if self.device().is_cpu() {
            return Err(Error::no_kernels_on_cpu(self.graph()));
        }
        self.explain_as(input, orders, options, &self.device().properties())
    }

    fn explain_as(
        &self,
        input: &[usize],
        orders: &[Order],
        options: &Options,
        properties: &DeviceProperties,
    ) -> Result<Explanation> {
        let problem = self.graph().problem(input)?;
        let query = self.query(&problem, orders, options, properties);
        Explanation::of_query(query)
    }
}

/// Returns the kernels of a model's launches, in order, for dense inputs of these shapes. For a program that
/// already ran this is only a look-up.
///
/// # Errors
/// As [`Model::explain`].
#[cfg(any(test, feature = "lab"))]
pub fn launched_kernels(
    model: &Model,
    input: &[usize],
    options: &Options,
) -> Result<Vec<&'static str>> {
    let program = model.program(input, &model.dense(), options)?;
    Ok(program.steps().iter().map(|step| step.kernel).collect())
}

//! A call of an operator, with conversions of its tensors to the library's.

use std::ffi::c_void;

use convfuse::graph::Graph;
use convfuse::spec::Layout;
use convfuse::{DType, Inputs, Stream, Tensor};

use crate::torch::shim::Torch;
use crate::torch::tensor::{Place, TorchTensor};

/// One call of an operator.
pub(crate) struct Call<'a> {
    pub(crate) torch: &'static Torch,
    /// The first input, and the further ones in the graph's order.
    pub(crate) inputs: &'a [TorchTensor],
    /// The parameters in the order of the graph's table.
    pub(crate) parameters: &'a [TorchTensor],
    /// A chain or a network in JSON.
    pub(crate) graph: &'a str,
    pub(crate) is_fast: bool,
    pub(crate) is_batch_invariant: bool,
    /// Whether outputs are channels-last even if the first input is not.
    pub(crate) is_channels_last: bool,
    /// Whether the call may write to running statistics.
    pub(crate) is_renewing: bool,
}

impl Call<'_> {
    /// Returns the device and element type of the inputs. Refuses inputs with different ones, and parameters
    /// on another device.
    pub(super) fn kind(&self) -> Result<(Place, DType), String> {
        let [x, further @ ..] = self.inputs else {
            return Err("convfuse: there are no inputs, must be at least one".into());
        };
        let (place, dtype) = (x.place()?, x.dtype("the input")?);
        for input in further {
            if input.place()? != place {
                return Err("convfuse: a further input is on another device than the first".into());
            }
            if input.dtype("a further input")? != dtype {
                return Err(
                    "convfuse: a further input has another element type than the first".into(),
                );
            }
        }
        for (index, parameter) in self.parameters.iter().enumerate() {
            if parameter.place()? != place {
                return Err(format!(
                    "convfuse: parameter {index} is on another device than the input; move the module there"
                ));
            }
        }
        Ok((place, dtype))
    }

    /// Returns the layout of outputs: channels-last if requested or if the first input is, as in the
    /// operator's fake implementation. Only strides decide.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        let (shape, strides) = self.inputs[0].layout()?;
        let mut step = 1;
        let is_contiguous = shape.contains(&0)
            || shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
                let is_next = extent == 1 || stride == step;
                step *= extent;
                is_next
            });
        let is_last = strides.get(1) == Some(&1) && !is_contiguous;
        match (4..=5).contains(&shape.len()) && (is_last || self.is_channels_last) {
            true => Ok(Layout::Nhwc),
            false => Ok(Layout::Nchw),
        }
    }

    /// Wraps the memory of the inputs.
    ///
    /// # Safety
    /// As for [`over`].
    pub(super) unsafe fn input_tensors(
        &self,
        stream: &Stream,
        dtype: DType,
    ) -> Result<Vec<Tensor>, String> {
        let each = self.inputs.iter().map(|input| {
            let ((shape, strides), data) = (input.layout()?, input.data()?);
            // SAFETY: the caller's promise.
            unsafe { over(stream, data, shape, strides, dtype) }
        });
        each.collect()
    }

    /// Wraps the memory of the parameters, with the shapes of the graph's table and their stored types.
    ///
    /// # Safety
    /// As for [`over`].
    pub(super) unsafe fn parameter_tensors(
        &self,
        graph: &Graph,
        stream: &Stream,
    ) -> Result<Vec<Tensor>, String> {
        let table = graph.parameters();
        if table.len() != self.parameters.len() {
            let names: Vec<&str> = table.iter().map(|parameter| &*parameter.name).collect();
            return Err(format!(
                "convfuse: there are {} parameters, the model has {}: {}",
                self.parameters.len(),
                table.len(),
                names.join(", ")
            ));
        }
        let each = table
            .iter()
            .zip(self.parameters)
            .map(|(parameter, tensor)| {
                let name = &parameter.name;
                let (stored, (shape, strides)) = (tensor.dtype(name)?, tensor.layout()?);
                let expected = parameter.shape.iter().map(|&extent| extent as i64);
                let expected: Vec<i64> = expected.collect();
                // A factor of another shape, such as (c) or (1, c, 1, 1), has the same elements in the same
                // order.
                if squeezed(&expected) != squeezed(shape) {
                    return Err(format!(
                        "convfuse: {name}: shape is {shape:?}, expected {expected:?}"
                    ));
                }
                let strides = match expected == shape {
                    true => strides.to_vec(),
                    false => restrided(&expected, shape, strides),
                };
                // SAFETY: the caller's promise.
                unsafe { over(stream, tensor.data()?, &expected, &strides, stored) }
            });
        each.collect()
    }
}

/// Returns the extents other than 1.
fn squeezed(shape: &[i64]) -> Vec<i64> {
    let extents = shape.iter().copied();
    extents.filter(|&extent| extent != 1).collect()
}

/// Returns strides for a shape that differs only by extents of 1.
fn restrided(expected: &[i64], shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut known = shape
        .iter()
        .zip(strides)
        .filter(|(extent, _)| **extent != 1);
    let of = |&extent: &i64| match extent {
        1 => 1,
        _ => known.next().map_or(1, |(_, stride)| *stride),
    };
    expected.iter().map(of).collect()
}

/// Wraps the memory of a PyTorch tensor.
///
/// # Safety
/// As for `Tensor::from_raw_parts`; the memory must outlive all uses of the result.
pub(super) unsafe fn over(
    stream: &Stream,
    data: *mut c_void,
    shape: &[i64],
    strides: &[i64],
    dtype: DType,
) -> Result<Tensor, String> {
    let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
    let (strides, owner) = (Some(&*strides), Box::new(()));
    // SAFETY: the caller's promise.
    let tensor = unsafe { Tensor::from_raw_parts(stream, data, &shape, strides, dtype, owner) };
    tensor.map_err(said)
}

/// Combines the first tensor and the further ones, which have these names, to the inputs of a graph.
pub(super) fn inputs<'a>(
    names: &[String],
    tensors: &'a [Tensor],
) -> Result<Inputs<&'a Tensor>, String> {
    if names.len() + 1 != tensors.len() {
        let (actual, expected) = (tensors.len() - 1, names.len());
        return Err(format!(
            "convfuse: there are {actual} further inputs, the model has {expected}: {names:?}"
        ));
    }
    let further = names.iter().zip(&tensors[1..]);
    Ok(
        further.fold(Inputs::new(&tensors[0]), |inputs, (name, tensor)| {
            inputs.with(name, tensor)
        }),
    )
}

/// Formats an error of the library.
pub(super) fn said(error: convfuse::Error) -> String {
    match error {
        convfuse::Error::InCapture { .. } => format!(
            "convfuse: {error}. Call the module once with an input of this shape before the capture, as for any warm-up"
        ),
        _ => format!("convfuse: {error}"),
    }
}

//! Runs of the CPU backend over the caller's memory.

use std::sync::Arc;

use ndarray::{ArrayD, IxDyn};
use op_spec::Layout;
use op_spec::graph::{Graph, Parameter};

use super::Launches;
use crate::cpu;
use crate::device::raw::RawPointer;
use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::model::programs::kernel_dtypes;
use crate::parameters::Parameters;

/// A run of the CPU backend.
pub(super) struct Backend {
    inputs: Vec<Strided>,
    /// The parameters, with the element types in which kernels read them.
    parameters: Vec<(Strided, DType)>,
    table: Arc<[Parameter]>,
}

impl Backend {
    /// Makes the run of a graph on tensors with these shapes and strides.
    pub(super) fn of(
        graph: &Graph,
        inputs: &[&Tensor],
        parameters: &[Tensor],
        dtype: DType,
    ) -> Backend {
        let stored: Vec<DType> = parameters.iter().map(Tensor::dtype).collect();
        let dtypes = kernel_dtypes(graph, &stored, dtype);
        Backend {
            inputs: inputs.iter().map(|input| Strided::of(input)).collect(),
            parameters: parameters.iter().map(Strided::of).zip(dtypes).collect(),
            table: graph.parameters().into(),
        }
    }
}

/// Shape, strides and element type of a tensor.
struct Strided {
    shape: Box<[usize]>,
    strides: Box<[isize]>,
    dtype: DType,
}

impl Strided {
    fn of(tensor: &Tensor) -> Strided {
        Strided {
            shape: tensor.shape().into(),
            strides: tensor.strides().into(),
            dtype: tensor.dtype(),
        }
    }

    /// # Safety
    /// As [`Tensor::from_raw_parts`]; the memory outlives all uses of the returned tensor.
    unsafe fn over(&self, stream: &Stream, address: RawPointer) -> Result<Tensor> {
        let (shape, strides, owner) = (&self.shape, Some(&*self.strides), Box::new(()));
        // SAFETY: the caller's promise.
        unsafe { Tensor::from_raw_parts(stream, address, shape, strides, self.dtype, owner) }
    }
}

impl Launches {
    /// One run of the CPU backend.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    pub(super) unsafe fn run_on_cpu(
        &self,
        stream: &Stream,
        backend: &Backend,
        [inputs, parameters]: [&[RawPointer]; 2],
        outputs: &[RawPointer],
    ) -> Result<()> {
        let inputs = backend.inputs.iter().zip(inputs);
        // SAFETY: the caller's promise.
        let inputs = inputs.map(|(lie, &address)| unsafe { lie.over(stream, address) });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let values = backend.parameters.iter().zip(parameters);
        let values = values.map(|((lie, dtype), &address)| {
            // SAFETY: as above.
            unsafe { lie.over(stream, address)? }
                .to_dtype(*dtype)?
                .to_f32_array()
        });
        let values = Parameters::of(&backend.table, values.collect::<Result<_>>()?);
        let dtype = inputs[0].dtype();
        let inputs = inputs.iter().map(Tensor::host_f32);
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = inputs.iter().map(|input| input.view()).collect();
        let (ys, renewed) = cpu::run_renewing(&self.graph, &self.problem, dtype, &values, &views)?;
        let write = |output: RawPointer, y: ArrayD<f32>, dtype: DType, layout: Layout| {
            let (shape, owner) = (y.shape().to_vec(), Box::new(()));
            // SAFETY: as above.
            let target =
                unsafe { Tensor::from_raw_parts(stream, output, &shape, None, dtype, owner) };
            target?.assign(Tensor::from_cpu(stream, y, dtype, layout)?)
        };
        let (given, new) = outputs.split_at(ys.len());
        for (index, (&output, y)) in given.iter().zip(ys).enumerate() {
            write(output, y, self.dtype, self.layout_of_output(index))?;
        }
        for (&output, (_, values)) in new.iter().zip(renewed) {
            let values = ArrayD::from_shape_vec(IxDyn(&[values.len()]), values);
            let values = values.expect("as many elements");
            write(output, values, DType::F32, Layout::Nchw)?;
        }
        Ok(())
    }
}

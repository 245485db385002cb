//! Prepared parameters: layouts for fused kernels, and folded parameters.
//!
//! Parameters that a program keeps are prepared once, for all programs of a model. Parameters passed to each
//! run are prepared in each run, by launches of the program itself.

use std::cell::RefCell;

use crate::device::{Order, Tensor};
use crate::error::Result;
use crate::operators::Precision;
use crate::program::{PreparedParameters, Program, ProgramBuilder, Value};
use launch_config::gemm::PadChannelsGeometry;
use launch_config::implicit_gemm::GemmTile;

/// The key of a layer's prepared parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// A norm's weight and bias, combined with the scale after it.
    FoldedScale,
    /// A batch norm's parameters as a factor and a summand for each channel, in f32.
    FoldedBatchNorm,
    /// A parameter of arithmetic as a factor and a summand for each channel, in f32, combined with those of
    /// the preceding layers from `first` on.
    FoldedArithmetic { first: usize },
    /// Parameters of the one-launch kernel of a convolution, a norm, a scale, a pool and a clamp.
    OneLaunch(Precision),
    /// Channels-last filters. Filters with few channels are padded; the padding also depends on the input's
    /// extents.
    ChannelsLast {
        class: usize,
        padded: Option<PadChannelsGeometry>,
    },
    /// Filters and bias of a class of phases of a transposed convolution.
    PhaseFilters { class: usize },
    /// Filters in the operand layout of an implicit GEMM.
    Gemm {
        class: usize,
        precision: Precision,
        tile: GemmTile,
        k_vector_channels: u32,
        k_block_planes: u32,
        slice_planes: u32,
        passes: u32,
        depth_k_blocks: u32,
        outputs_d: u32,
    },
}

/// The prepared parameters of a chain, by layer and preparation.
pub(crate) type Prepared = PreparedParameters<(usize, Preparation)>;

/// The preparations of a program's parameters, in order. They run when the program is complete.
#[derive(Debug, Default)]
pub(crate) struct Preparations(RefCell<Vec<Preparing>>);

/// A preparation of parameters of one program.
#[derive(Debug)]
struct Preparing {
    of: (usize, Preparation),
    program: Program,
    inputs: Vec<Value>,
    outputs: [Value; 2],
}

impl Preparations {
    /// The kernels of the preparations from the number `first` on.
    pub(crate) fn kernels(&self, first: usize) -> Vec<&'static str> {
        let all = self.0.borrow();
        let steps = all[first..].iter().flat_map(|of| of.program.steps());
        steps.map(|step| step.kernel).collect()
    }

    /// The number of preparations.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Provides the prepared parameters of `program`, whose other parameters have been provided. Prepares
    /// those that no other program of the model has.
    ///
    /// # Errors
    /// Errors of runs.
    pub(crate) fn provide(self, program: &mut ProgramBuilder, known: &Prepared) -> Result<()> {
        for preparing in self.0.into_inner() {
            let tensor = |&input| program.known(input).expect("parameters are provided");
            let inputs: Vec<&Tensor> = preparing.inputs.iter().map(tensor).collect();
            let stream = inputs[0].stream();
            let prepare = || preparing.program.run_once("parameters", stream, &inputs);
            let mut is_known = true;
            let tensors = known.get(preparing.of, || {
                is_known = false;
                prepare()
            })?;
            if cfg!(debug_assertions) && is_known && stream.device().is_emulator() {
                must_be_same(preparing.of, &tensors, &prepare()?);
            }
            for (output, tensor) in preparing.outputs.into_iter().zip(&tensors) {
                program.provide(output, tensor);
            }
        }
        Ok(())
    }
}

/// Fails unless tensors of a key are those of another program with the same key. Otherwise the key lacks
/// something that they depend on.
fn must_be_same(of: (usize, Preparation), known: &[Tensor], fresh: &[Tensor]) {
    for (known, fresh) in known.iter().zip(fresh) {
        // No launch writes the reciprocals of scales if there are none.
        let bits = |tensor: &Tensor| {
            let values = tensor.to_f32_array().ok()?;
            Some(values.mapv(f32::to_bits))
        };
        let is_same = known.shape() == fresh.shape() && bits(known) == bits(fresh);
        assert!(is_same, "the key {of:?} is that of other tensors, too");
    }
}

/// Returns the values that `append` computes from `parameters` by a launch. The first parameter must be
/// present.
///
/// If the program keeps its parameters, the values become further parameters of it, which a separate program
/// computes on the stream of the first parameter. If each run gets the parameters, the program computes the
/// values in each run.
pub(crate) fn prepared<const N: usize>(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    of: (usize, Preparation),
    parameters: [Option<Value>; N],
    append: impl FnOnce(&mut ProgramBuilder, [Option<Value>; N]) -> Result<[Value; 2]>,
) -> Result<[Value; 2]> {
    let mut present = parameters.iter().flatten();
    if !present.all(|&value| program.keeps(value)) {
        return append(program, parameters);
    }
    let mut preparing = program.beside();
    let mut inputs = [None; N];
    for (input, parameter) in inputs.iter_mut().zip(parameters) {
        let Some(value) = parameter else { continue };
        let (shape, dtype) = (program.shape(value), program.dtype(value));
        *input = Some(preparing.input_as_it_lies(None, shape, dtype, &Order::Dense)?);
    }
    let results = append(&mut preparing, inputs)?;
    let mut absent = |y| program.absent(preparing.shape(y), preparing.dtype(y));
    let outputs = [absent(results[0])?, absent(results[1])?];
    preparations.0.borrow_mut().push(Preparing {
        of,
        program: preparing.finish(&results),
        inputs: parameters.into_iter().flatten().collect(),
        outputs,
    });
    Ok(outputs)
}

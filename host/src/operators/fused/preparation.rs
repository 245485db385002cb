//! Prepared parameters: layouts for fused kernels, and folded parameters.
//!
//! Parameters that a program keeps are prepared once, for all programs of a model. Parameters passed to each
//! run are prepared in each run, by launches of the program itself.

use crate::error::Result;
use crate::operators::Precision;
use crate::program::{PreparedParameters, ProgramBuilder, Value};
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
pub(crate) type Preparations = PreparedParameters<(usize, Preparation)>;

/// Returns the values that `append` computes from `parameters` by a launch. The first parameter must be
/// present.
///
/// If the program keeps its parameters, the values become further parameters of it. A separate program
/// computes them on the stream of the first parameter, unless another program of the chain already has. If
/// each run gets the parameters, the program computes the values in each run. A program that is only
/// explained computes nothing.
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
    if program.is_explained() {
        let mut known = [None; N];
        for (known, value) in known.iter_mut().zip(parameters) {
            let absent = |value| preparing.absent(program.shape(value), program.dtype(value));
            *known = value.map(absent).transpose()?;
        }
        let [first, second] = append(&mut preparing, known)?;
        program.is_prepared_by(&preparing);
        let mut absent = |value| program.absent(preparing.shape(value), preparing.dtype(value));
        return Ok([absent(first)?, absent(second)?]);
    }
    let tensors = preparations.get(of, || {
        let known = parameters.map(|value| value.and_then(|value| program.known(value)));
        let first = known[0].expect("the first parameter is not optional");
        let parameters = known.map(|tensor| preparing.optional_parameter(tensor));
        let outputs = append(&mut preparing, parameters)?;
        let preparing = preparing.finish(&outputs);
        preparing.run_once("parameters", first.stream(), &[])
    })?;
    Ok([0, 1].map(|index| program.parameter(&tensors[index])))
}

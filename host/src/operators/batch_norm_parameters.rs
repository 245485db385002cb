//! The parameters of batch norms: folded for each channel, or renewed by the batch's statistics.

use kernels_gpu::batch_norm::{BATCH_NORM_MOMENTS, FOLD_BATCH_NORM};
use launch_config::batch_norm::{BatchMoments, FoldGeometry};
use launch_config::elementwise::fold_shape;
use launch_config::{AffineType, Presence};

use super::launching::{Affine, Parameters};
use super::norm_statistics::NormInput;
use super::preparation::{Preparation, Preparations, prepared};
use crate::device::DType;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::BatchNormProblem;

/// Running mean, running variance, weight and bias of a batch norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistics {
    pub(crate) mean: Value,
    pub(crate) variance: Value,
    pub(crate) weight: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// The arguments for a kernel of another operator that folds a batch norm itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoldedInKernel {
    /// Running mean, running variance, weight and bias.
    pub(crate) values: [Option<Value>; 4],
    pub(crate) geometry: FoldGeometry,
    pub(crate) ty: AffineType,
    pub(crate) presence: Presence,
}

impl FoldedInKernel {
    /// Returns the arguments for a norm, or those for no norm.
    pub(crate) fn of(
        program: &ProgramBuilder,
        norm: Option<(Statistics, BatchNormProblem)>,
    ) -> Result<Self> {
        let Some((of, problem)) = norm else {
            return Ok(Self {
                values: [None; 4],
                geometry: FoldGeometry::NONE,
                ty: AffineType::F32,
                presence: Presence::ABSENT,
            });
        };
        Ok(Self {
            values: [Some(of.mean), Some(of.variance), of.weight, of.bias],
            geometry: FoldGeometry::of(&problem)?,
            ty: AffineType::of(program.dtype(of.mean) == DType::F32),
            presence: Presence::PRESENT,
        })
    }
}

/// Gain and shift of each channel in `fma(gain, x, shift)`: f32 of shape `(c)`, for any storage type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folded {
    pub(crate) gain: Value,
    pub(crate) shift: Value,
}

/// Appends the launch that folds the parameters.
pub(super) fn fold(
    program: &mut ProgramBuilder,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Folded> {
    let geometry = FoldGeometry::of(problem)?;
    let (label, fold) = (program.label(of.mean), fold_shape(geometry.channels));
    let gain = program.tensor(&[problem.shape.c], DType::F32)?;
    let shift = program.tensor_like(gain)?;
    let arguments = (
        of.mean,
        of.variance,
        of.weight,
        of.bias,
        gain,
        shift,
        geometry,
    );
    // SAFETY: every present value has an element for each channel, and the geometry says which are present.
    unsafe { program.launch(&FOLD_BATCH_NORM, &label, fold, arguments)? }
    Ok(Folded { gain, shift })
}

/// Returns the folded parameters of the batch norm `layer` of a chain, [prepared] from `of`, whose values
/// have one element type.
pub(crate) fn folded(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    layer: usize,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Folded> {
    let known = [Some(of.mean), Some(of.variance), of.weight, of.bias];
    let append = |program: &mut ProgramBuilder, known: [Option<Value>; 4]| {
        let [Some(mean), Some(variance), weight, bias] = known else {
            unreachable!("statistics are not optional");
        };
        let of = Statistics {
            mean,
            variance,
            weight,
            bias,
        };
        let Folded { gain, shift } = fold(program, of, problem)?;
        Ok([gain, shift])
    };
    let of = (layer, Preparation::FoldedBatchNorm);
    let [gain, shift] = prepared(program, preparations, of, known, append)?;
    Ok(Folded { gain, shift })
}

/// A batch norm with the batch's statistics, and the running mean and variance that it renews.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfBatch<'a> {
    pub(crate) problem: &'a BatchNormProblem,
    pub(crate) running: [Option<Value>; 2],
}

/// Appends the launch that combines the moments of rows into the batch's moments. It also renews the running
/// mean and variance, if each run gets them.
pub(crate) fn of_batch(
    program: &mut ProgramBuilder,
    input: NormInput,
    OfBatch { problem, running }: OfBatch<'_>,
) -> Result<NormInput> {
    let given = running.map(|running| running.filter(|&value| !program.keeps(value)));
    let momentum = problem.momentum.filter(|_| given != [None; 2]);
    let geometry = BatchMoments::new(input.norm, momentum);
    let norm = input.norm.of_batch();
    let moments = program.tensor(&[norm.partial_elements() as usize], DType::F32)?;
    let [mut known, mut renewed] = [[None; 2]; 2];
    for (index, parameter) in given.into_iter().flatten().enumerate() {
        // An earlier norm may already have renewed the same parameters.
        let current = program.renewed(parameter).unwrap_or(parameter);
        let new = program.tensor(&[problem.shape.c], DType::F32)?;
        known[index] = Some(program.converted(current, DType::F32)?);
        renewed[index] = Some(new);
        program.renew(parameter, new);
    }
    let ([mean, variance], [new_mean, new_variance]) = (known, renewed);
    let arguments = (
        input.partials,
        moments,
        mean,
        variance,
        new_mean,
        new_variance,
        geometry,
    );
    // SAFETY: the partial results are those of the norm's rows (channels), and `moments` has room for one
    // result per channel; running statistics have an element for each channel.
    unsafe { program.launch(&BATCH_NORM_MOMENTS, &[], geometry.shape(), arguments)? }
    Ok(NormInput {
        partials: moments,
        norm,
        ..input
    })
}

/// Splits the parameters of a norm with the batch's statistics: weight and bias, and the running statistics
/// that it renews.
pub(crate) fn of_layer(
    problem: &BatchNormProblem,
    parameters: Parameters,
) -> (Affine, [Option<Value>; 2]) {
    let mut present = parameters.into_iter().flatten();
    let mut next = |is_there: bool| match is_there {
        true => present.next(),
        false => None,
    };
    let affine = Affine {
        weight: next(problem.weight),
        bias: next(problem.bias),
    };
    (affine, [(); 2].map(|()| next(problem.momentum.is_some())))
}

//! `scale`, folded into the weight and bias of the norm before it.

use kernels_gpu::fused::fold_scale::FOLD_SCALE;

use super::preparation::{Preparation, Preparations, prepared};
use crate::error::Result;
use crate::operators::launching::{Affine, kernel};
use crate::program::{ProgramBuilder, Value};
use crate::spec::{Quantity, SpecError};
use launch_config::elementwise;

/// `weight * scale` and `bias * scale`, with 1 and 0 for absent parameters: the folded parameters of the norm
/// `layer`. The arguments are parameters of `program`, all of `c` elements.
///
/// `norm(x, weight, bias) * scale` and `norm(x, weight * scale, bias * scale)` are equal up to rounding if
/// all values are finite. An infinite scale times a zero bias is NaN here; the composition does not compute
/// that product.
pub(crate) fn fold_scale(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    layer: usize,
    affine: Affine,
    scale: Value,
) -> Result<Affine> {
    let channels = program.shape(scale).iter().product();
    let dtype = program.dtype(scale);
    let len = u32::try_from(channels).map_err(|_| SpecError::BeyondKernel {
        operator: FOLD_SCALE.name(),
        quantity: Quantity::scalar("channels"),
        actual: channels,
        limit: u32::MAX as usize,
    })?;
    // The folded parameters are stored as the tensors are.
    let affine = affine.narrow(program, dtype)?;
    let known = [Some(scale), affine.weight, affine.bias];
    let append = |program: &mut ProgramBuilder, [scale, weight, bias]: [Option<Value>; 3]| {
        let shape = elementwise::fold_shape(len);
        let (kernel, shape) = kernel(&FOLD_SCALE, &[dtype.label()], shape)?;
        let gain = program.tensor(&[channels], dtype)?;
        let shift = program.tensor_like(gain)?;
        let [has_weight, has_bias] = [weight, bias].map(|value| u32::from(value.is_some()));
        let arguments = (weight, bias, scale, gain, shift, len, has_weight, has_bias);
        // SAFETY: all values that exist have `len` elements, and the flags say which do.
        unsafe { program.launch(kernel, shape, arguments) }
        Ok([gain, shift])
    };
    let of = (layer, Preparation::FoldedScale);
    let folded = prepared(program, preparations, of, known, append)?;
    let [weight, bias] = folded.map(Some);
    Ok(Affine { weight, bias })
}

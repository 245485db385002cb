//! A `scale`, folded into the weight and bias of the preceding norm.

use kernels_gpu::fused::fold_scale::FOLD_SCALE;

use crate::error::Result;
use crate::operators::launching::Affine;
use crate::operators::preparation::{Preparation, Preparations, prepared};
use crate::program::{ProgramBuilder, Value};
use crate::spec::{Quantity, SpecError};
use launch_config::{Presence, elementwise};

/// Converts the number of channels to the kernel's integer type.
fn kernel_channels(channels: usize) -> Result<u32> {
    let len = u32::try_from(channels).map_err(|_| SpecError::BeyondKernel {
        operator: FOLD_SCALE.name(),
        quantity: Quantity::scalar("channels"),
        actual: channels,
        limit: u32::MAX as usize,
    });
    Ok(len?)
}

/// Returns `weight * scale` and `bias * scale`, the folded parameters of the norm `layer`. Absent parameters
/// count as 1 and 0. The arguments are parameters of `program`, all with `c` elements.
///
/// `norm(x, weight, bias) * scale` and `norm(x, weight * scale, bias * scale)` are equal up to rounding if
/// all values are finite. An infinite scale times a zero bias is NaN here; the unfused operators do not
/// compute that product.
pub(crate) fn fold_scale(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    layer: usize,
    affine: Affine,
    scale: Value,
) -> Result<Affine> {
    let channels: usize = program.shape(scale).iter().product();
    let dtype = program.dtype(scale);
    let len = kernel_channels(channels)?;
    // The folded parameters have the tensors' type.
    let affine = affine.narrow(program, dtype)?;
    let known = [Some(scale), affine.weight, affine.bias];
    let append = |program: &mut ProgramBuilder, [scale, weight, bias]: [Option<Value>; 3]| {
        let gain = program.tensor(&[channels], dtype)?;
        let shift = program.tensor_like(gain)?;
        let [has_weight, has_bias] = [weight, bias].map(|value| Presence::of(value.is_some()));
        let arguments = (weight, bias, scale, gain, shift, len, has_weight, has_bias);
        let (label, shape) = ([dtype.label()], elementwise::fold_shape(len));
        // SAFETY: every present value has `len` elements, and the flags say which are present.
        unsafe { program.launch(&FOLD_SCALE, &label, shape, arguments)? }
        Ok([gain, shift])
    };
    let of = (layer, Preparation::FoldedScale);
    let folded = prepared(program, preparations, of, known, append)?;
    let [weight, bias] = folded.map(Some);
    Ok(Affine { weight, bias })
}

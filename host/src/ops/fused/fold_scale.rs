//! `scale`, moved into the weight and bias of the norm before it.

use kernels_gpu::fused::fold_scale::FOLD_SCALE;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::launching::{Affine, grid};
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::elementwise;
use crate::spec::{Quantity, SpecError};

const OPERATOR: &str = "fold_scale";

/// `[weight * scale, bias * scale]`, with 1 and 0 for what is absent: the parameters of a norm that scales by itself. The
/// arguments are parameters of the program `of`, `(c)` all of them.
///
/// `norm(x, weight, bias) * scale` and `norm(x, weight * scale, bias * scale)` are equal up to rounding where all are
/// finite. An infinite scale meets a zero bias here (NaN), and meets it never in the composition.
pub(crate) fn fold_scale(of: &ProgramBuilder, affine: Affine, scale: Value) -> Result<Vec<Tensor>> {
    let scale = of.known(scale);
    let (channels, dtype) = (scale.len(), scale.dtype());
    let len = u32::try_from(channels).map_err(|_| SpecError::BeyondKernel {
        operator: OPERATOR,
        quantity: Quantity::scalar("channels"),
        actual: channels,
        limit: u32::MAX as usize,
    })?;
    let shape = grid(OPERATOR, elementwise::fold_shape(len))?;
    let mut program = ProgramBuilder::new(scale.device());
    let affine = affine.known(of, &mut program);
    let factors = program.parameter(scale);
    let outputs = [
        program.tensor(&[channels], dtype)?,
        program.tensor(&[channels], dtype)?,
    ];
    let arguments = (
        affine.weight,
        affine.bias,
        factors,
        outputs[0],
        outputs[1],
        len,
        u32::from(affine.weight.is_some()),
        u32::from(affine.bias.is_some()),
    );
    let kernel = FOLD_SCALE.instance(&[dtype.label()])?;
    // SAFETY: all values that exist have `len` elements, and the flags say which do.
    unsafe { program.launch(kernel, shape, arguments) }
    let program = program.finish(&outputs);
    program.run_once(OPERATOR, scale.stream(), &[])
}

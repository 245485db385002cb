//! Copies of parts of rows: the launches of `cat` and `narrow`.

use kernels_gpu::copy_rows::COPY_ROWS;
use launch_config::copy_rows::RowsGeometry;

use crate::device::DType;
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};

/// Plans a launch for each copy.
///
/// # Errors
/// [`TooManyBlocks`](crate::Error::TooManyBlocks)
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    copies: &[Option<RowsGeometry>],
) -> Result<()> {
    let labels = [dtype.label()];
    let mut copies = copies.iter().flatten();
    copies.try_for_each(|copy| plan.launch(&COPY_ROWS, &labels, copy.shape()))
}

/// Appends the copies of operands to `y`, in which other launches write the parts without a copy.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    operands: &[Value],
    copies: &[Option<RowsGeometry>],
    y: Value,
) {
    let dtype = program.dtype(y);
    for (&x, copy) in operands.iter().zip(copies) {
        let Some(copy) = copy else { continue };
        let element = dtype.size() as u64;
        let bytes = 2 * copy.units() * u64::from(copy.unit_elements) * element;
        let (kernel, shape) = program.next(&COPY_ROWS);
        // SAFETY: the copy is from rows of `x` to rows of `y`, whose shapes it was made for, in the same
        // layout.
        unsafe { program.launch_moving(kernel, shape, (x, y, *copy), bytes) };
    }
}

//! Copies of parts of rows: the launches of `cat` and `narrow`.

use kernels_gpu::copy_rows::COPY_ROWS;
use launch_config::copy_rows::RowsGeometry;

use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

/// Appends the copies of operands to `y`, in which other launches write the parts without a copy.
///
/// # Errors
/// [`TooManyBlocks`](crate::Error::TooManyBlocks)
pub(crate) fn append(
    program: &mut ProgramBuilder,
    operands: &[Value],
    copies: &[Option<RowsGeometry>],
    y: Value,
) -> Result<()> {
    let dtype = program.dtype(y);
    for (&x, copy) in operands.iter().zip(copies) {
        let Some(copy) = copy else { continue };
        let element = dtype.size() as u64;
        let bytes = 2 * copy.units() * u64::from(copy.unit_elements) * element;
        let (label, arguments) = ([dtype.label()], (x, y, *copy));
        // SAFETY: the copy is from rows of `x` to rows of `y`, whose shapes it was made for, in the same
        // layout.
        unsafe { program.launch_moving(&COPY_ROWS, &label, copy.shape(), arguments, bytes)? };
    }
    Ok(())
}

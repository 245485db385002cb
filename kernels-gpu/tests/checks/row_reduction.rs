//! Reductions of rows of any length.

use cuda_std::{Storage, bf16, f16};
use launch_config::ElementType;
use launch_config::row_reduction::{PART_ELEMENTS, RowGeometry};
use op_spec::graph::Layer;
use op_spec::{ReductionOp, ReductionSpec};

use super::super::kernels::reduction::ROW_REDUCTION;
use super::{
    Failure, Outcome, Run, Tensor, case, compare, element_type, expected, label, rounded_once,
    same_bits,
};

/// Rows and their lengths: single values, about a vector, a warp, a warp's vectors and its loads in flight,
/// one part and a few elements more or less, several parts whose number is or is not a multiple of a vector.
/// More rows than a block has warps.
const SHAPES: [(usize, usize); 20] = [
    (1, 1),
    (3, 2),
    (2, 3),
    (9, 4),
    (2, 7),
    (17, 31),
    (1, 32),
    (2, 33),
    (3, 124),
    (1, 127),
    (2, 128),
    (1, 132),
    (2, 512),
    (1, 516),
    (1, 635),
    (2, PART as usize - 1),
    (1, PART as usize),
    (3, PART as usize + 1),
    (2, 3 * PART as usize + 8),
    (1, 4 * PART as usize - 3),
];

const PART: u64 = PART_ELEMENTS;

/// Launches a step with results of type `U`.
fn launch<T: Storage, U: Storage>(
    run: &Run,
    operation: ReductionOp,
    x: &Tensor<T>,
    g: RowGeometry,
) -> Result<Tensor<U>, Failure> {
    let y = run.empty::<U>(g.results() as usize)?;
    let g = RowGeometry {
        output: element_type::<U>(),
        ..g
    };
    let labels = [operation.name().into(), label::<T>()];
    run.launch(&ROW_REDUCTION, &labels, g.shape(), (x.source(), y.ptr(), g))?;
    Ok(y)
}

/// Reduces rows, with two launches if rows have several parts.
fn reduced<T: Storage>(
    run: &Run,
    operation: ReductionOp,
    x: &Tensor<T>,
    g: RowGeometry,
) -> Result<Tensor<T>, Failure> {
    if g.parts == 1 {
        return launch::<T, T>(run, operation, x, g);
    }
    let parts = launch::<T, f32>(run, operation.of_step(0, 2), x, g)?;
    let of_parts = RowGeometry {
        divisor: g.divisor,
        ..RowGeometry::new(g.rows, g.parts)
    };
    launch::<f32, T>(run, operation.of_step(1, 2), &parts, of_parts)
}

/// Checks each operation, on rows with and without NaN and infinities, and on each row alone.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for &operation in ReductionOp::ALL {
        for (rows, elements) in SHAPES {
            for is_special in [false, true] {
                let layer = Layer::from(ReductionSpec::new(operation, &[2]));
                let mut case = case::<T>([layer], &[1, rows, elements]);
                if is_special {
                    case = case.special();
                }
                let x = run.load::<T>(&case)?.x;
                let g = RowGeometry::new(rows as u64, elements as u64);
                let y = reduced(run, operation, &x, g)?;
                let wanted = match operation.selects() {
                    true => rounded_once::<T>(&case),
                    false => expected::<T>(&case),
                };
                compare(&case.name, &y, &wanted)?;
                if rows == 1 || is_special {
                    continue;
                }
                let last = x.values()?.split_off((rows - 1) * elements);
                let g = RowGeometry::new(1, elements as u64);
                let alone = reduced(run, operation, &run.tensor::<T>(&last)?, g)?;
                let last = run.tensor::<T>(&y.values()?[rows - 1..])?;
                same_bits(&format!("the last row of {}", case.name), &alone, &last)?;
            }
        }
    }
    Ok(())
}

/// Checks a divisor that is not the number of values, and results of each type.
pub(crate) fn averages_by_any_divisor(run: &Run) -> Outcome {
    let x = run.tensor::<f32>(&[1.0, 2.0, 4.0, -3.5, 0.5])?;
    let g = RowGeometry {
        divisor: 3.0,
        ..RowGeometry::new(1, 5)
    };
    assert_eq!(g.output, ElementType::F32);
    let mean = ReductionOp::Mean;
    let third = 4.0 / 3.0;
    let wanted = run.tensor::<f32>(&[third])?;
    same_bits("f32", &launch::<f32, f32>(run, mean, &x, g)?, &wanted)?;
    let wanted = run.tensor::<f16>(&[third])?;
    same_bits("f16", &launch::<f32, f16>(run, mean, &x, g)?, &wanted)?;
    let wanted = run.tensor::<bf16>(&[third])?;
    same_bits("bf16", &launch::<f32, bf16>(run, mean, &x, g)?, &wanted)
}

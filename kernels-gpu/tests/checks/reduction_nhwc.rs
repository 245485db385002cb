//! Reductions over the pixels of channels-last tensors.

use cuda_std::{Storage, bf16, f16};
use launch_config::reduction_nhwc::{PixelOperation, ReductionNhwcGeometry};
use op_spec::graph::Layer;
use op_spec::{ReductionOp, ReductionSpec};

use super::super::kernels::reduction_nhwc::REDUCTION_NHWC;
use super::far::number;
use super::{
    Failure, Outcome, Run, Tensor, case, compare, element_type, expected, label, rounded_once,
    same_bits,
};

/// Inputs: one pixel; one pixel more than a thread has loads in flight, of one vector; lanes that are not a
/// multiple of four; several blocks of channels, the last one partial; several parts, the last one partial.
const SHAPES: [[usize; 3]; 8] = [
    [2, 4, 1],
    [3, 4, 5 * 64],
    [2, 48, 67],
    [2, 72, 97],
    [1, 96, 100],
    [1, 320, 11],
    [2, 64, 1024 + 1],
    [1, 12, 64 * 64 + 3],
];

const OPERATIONS: [ReductionOp; 4] = [
    ReductionOp::Max,
    ReductionOp::Min,
    ReductionOp::Sum,
    ReductionOp::Mean,
];

/// The geometry of an operation on `n` samples of `c` channels and `pixels` pixels.
fn geometry(operation: ReductionOp, [n, c, pixels]: [usize; 3]) -> ReductionNhwcGeometry {
    let operation = match operation {
        ReductionOp::Max => PixelOperation::Max,
        ReductionOp::Min => PixelOperation::Min,
        _ => PixelOperation::Sum,
    };
    ReductionNhwcGeometry::new(operation, n as u64, c as u32, pixels as u64).expect("whole vectors")
}

/// Launches a step with results of type `U`.
fn launch<T: Storage, U: Storage>(
    run: &Run,
    x: &Tensor<T>,
    g: ReductionNhwcGeometry,
) -> Result<Tensor<U>, Failure> {
    let y = run.empty::<U>(g.results() as usize)?;
    let g = ReductionNhwcGeometry {
        output: element_type::<U>(),
        ..g
    };
    let arguments = (x.source(), y.ptr(), g);
    run.launch(&REDUCTION_NHWC, &[label::<T>()], g.shape(), arguments)?;
    Ok(y)
}

/// Reduces `x`, which is channels last, with two launches if samples have several parts.
fn reduced<T: Storage>(
    run: &Run,
    operation: ReductionOp,
    x: &Tensor<T>,
    [n, c, pixels]: [usize; 3],
    g: ReductionNhwcGeometry,
) -> Result<Tensor<T>, Failure> {
    let divisor = match operation {
        ReductionOp::Mean => pixels as f32,
        _ => 1.0,
    };
    if g.parts == 1 {
        return launch::<T, T>(run, x, ReductionNhwcGeometry { divisor, ..g });
    }
    let parts = launch::<T, f32>(run, x, g)?;
    let of_parts = ReductionNhwcGeometry {
        divisor,
        ..geometry(operation, [n, c, g.parts as usize])
    };
    assert_eq!(of_parts.parts, 1);
    launch::<f32, T>(run, &parts, of_parts)
}

/// Checks each operation, on tensors with and without NaN and infinities, in parts of a few pixels, and on
/// the last sample alone.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for operation in OPERATIONS {
        for shape @ [n, c, pixels] in SHAPES {
            for is_special in [false, true] {
                let layer = Layer::from(ReductionSpec::new(operation, &[2]));
                let mut case = case::<T>([layer], &shape);
                if is_special {
                    case = case.special();
                }
                let dense = run.load::<T>(&case)?.x;
                let x = run.channels_last::<T>(&dense, n as u64, c as u32)?;
                let wanted = match operation.selects() {
                    true => rounded_once::<T>(&case),
                    false => expected::<T>(&case),
                };
                let g = geometry(operation, shape);
                let y = reduced(run, operation, &x, shape, g)?;
                compare(&case.name, &y, &wanted)?;
                let part_pixels = (pixels as u32).div_ceil(7);
                let in_parts = ReductionNhwcGeometry {
                    part_pixels,
                    parts: (pixels as u32).div_ceil(part_pixels),
                    ..g
                };
                let in_parts = reduced(run, operation, &x, shape, in_parts)?;
                compare(&format!("{} in parts", case.name), &in_parts, &wanted)?;
                if n == 1 || is_special {
                    continue;
                }
                let last = x.values()?.split_off((n - 1) * pixels * c);
                let last = run.tensor::<T>(&last)?;
                let shape = [1, c, pixels];
                let alone = reduced(run, operation, &last, shape, geometry(operation, shape))?;
                let of_last = run.tensor::<T>(&y.values()?[(n - 1) * c..])?;
                same_bits(
                    &format!("the last sample of {}", case.name),
                    &alone,
                    &of_last,
                )?;
            }
        }
    }
    Ok(())
}

/// Checks a divisor that is not the number of pixels, and results of each type.
pub(crate) fn averages_by_any_divisor(run: &Run) -> Outcome {
    let x = [1.0, 2.0, 4.0, -3.5].map(|value| [value; 4]).concat();
    let x = run.tensor::<f32>(&x)?;
    let g = ReductionNhwcGeometry {
        divisor: 3.0,
        ..geometry(ReductionOp::Mean, [1, 4, 4])
    };
    let third = [3.5 / 3.0; 4];
    let wanted = run.tensor::<f32>(&third)?;
    same_bits("f32", &launch::<f32, f32>(run, &x, g)?, &wanted)?;
    let wanted = run.tensor::<f16>(&third)?;
    same_bits("f16", &launch::<f32, f16>(run, &x, g)?, &wanted)?;
    let wanted = run.tensor::<bf16>(&third)?;
    same_bits("bf16", &launch::<f32, bf16>(run, &x, g)?, &wanted)
}

/// Checks tensors of more than 2^32 elements: the last part of the last sample.
pub(crate) fn far(run: &Run) -> Outcome {
    let [n, c, pixels] = [3, 8, 700_000_001];
    let g = geometry(ReductionOp::Sum, [n, c, pixels]);
    let x = run.computed::<f32>((n * c * pixels) as u64, number)?;
    let y = run.sparse::<f32>(g.results())?;
    let shape = g.shape();
    let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
    let arguments = (x.source(), y.ptr(), g);
    run.launch_some(
        &REDUCTION_NHWC,
        &[label::<f32>()],
        shape,
        &[last],
        arguments,
    )?;
    let first = u64::from(g.parts - 1) * u64::from(g.part_pixels);
    y.are("parts of pixels", g.results() - 8..g.results(), |index| {
        let pixels = first..pixels as u64;
        let element = |pixel| ((n as u64 - 1) * 700_000_001 + pixel) * c as u64 + index % 8;
        pixels.map(|pixel| number(element(pixel))).sum()
    })
}

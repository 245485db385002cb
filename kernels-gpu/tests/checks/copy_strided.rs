//! Copies of arrays with any strides, bit by bit against a copy element by element, or against its rounding
//! to the target's type.

use cuda_std::Storage;
use launch_config::copy_strided::{Collapsed, CopyGeometry};
use oracle::data::signed;

use super::super::kernels::copy_strided::COPY_STRIDED;
use super::{Outcome, Run, label, same_bits};

/// Extents, and strides.
type Row<'a> = (&'a [usize], &'a [isize]);

/// Row copies: dense rows, rows that end inside vectors, rows with gaps, whole vectors and not, along either
/// of two axes; short rows of many axes; backwards, repeated, every second element. Tile copies: channels
/// last with few, some and many channels, several tiles and parts of them along either axis, the long axis
/// read or written; backwards, with gaps.
const ROWS: [Row; 21] = [
    (&[5001], &[1]),
    (&[1], &[7]),
    (&[70, 131], &[131, 1]),
    (&[3, 2048], &[2052, 1]),
    (&[2, 3, 8], &[44, 14, 1]),
    (&[30, 131], &[200, 1]),
    (&[2, 3, 4, 5, 6], &[1200, 300, 60, 10, 1]),
    (
        &[3, 2, 3, 2, 3, 2, 3, 5],
        &[20000, 9000, 2900, 1400, 400, 130, 40, 3],
    ),
    (&[40, 30], &[-30, -1]),
    (&[7, 300], &[1, 0]),
    (&[300, 7], &[0, 2]),
    (&[2, 9000], &[9001, -1]),
    (&[2, 3, 31, 37], &[3441, 1, 111, 3]),
    (&[2, 8, 33, 40], &[10560, 1, 320, 8]),
    (&[1, 70, 13, 11], &[0, 1, 770, 70]),
    (&[3, 130, 70], &[9100, 1, 130]),
    (&[2000, 5], &[1, 2000]),
    (&[4, 700, 3, 5], &[15, 60, 5, 1]),
    (&[5, 65, 66], &[-4290, -1, 65]),
    (&[90, 80, 2], &[1, 200, 90]),
    (&[2, 64, 64], &[5000, 1, 66]),
];

/// Checks every row, with memory that is vector-aligned and memory that is not.
pub(crate) fn copies<S: Storage, T: Storage>(run: &Run) -> Outcome {
    for (shape, strides) in ROWS {
        for first in [0, 3] {
            copy::<S, T>(run, shape, strides, first)?;
        }
    }
    Ok(())
}

/// Checks every 16-bit pattern, including NaN, in rows forwards and backwards and in tiles.
pub(crate) fn bits<T: Storage>(run: &Run) -> Outcome {
    const ALL: usize = 1 << 16;
    // Two patterns a word; a copy of words does not interpret them.
    let word = |i: u32| f32::from_bits((2 * i) | ((2 * i + 1) << 16));
    let words: Vec<f32> = (0..ALL as u32 / 2).map(word).collect();
    let x = run.tensor::<f32>(&words)?;
    let rows: [Row; 3] = [(&[ALL], &[1]), (&[ALL], &[-1]), (&[256, 256], &[1, 256])];
    for (shape, strides) in rows {
        let collapsed = Collapsed::new(shape, strides).expect("few axes");
        let g = CopyGeometry::new(&collapsed, before(shape, strides).is_multiple_of(4));
        let start = x.source::<T>().wrapping_add(before(shape, strides));
        let y = run.empty::<f32>(ALL / 2)?;
        let labels = [label::<T>(), label::<T>()];
        run.launch(
            &COPY_STRIDED,
            &labels,
            g.shape(),
            (start.cast(), y.ptr(), g),
        )?;
        let place = |i: u32| match strides {
            [-1] => ALL as u32 - 1 - i,
            [1, 256] => i % 256 * 256 + i / 256,
            _ => i,
        };
        let wanted = |i: u32| f32::from_bits(place(2 * i) | (place(2 * i + 1) << 16));
        let wanted: Vec<f32> = (0..ALL as u32 / 2).map(wanted).collect();
        let wanted = run.tensor::<f32>(&wanted)?;
        same_bits(&format!("all bits by {strides:?}"), &y, &wanted)?;
    }
    Ok(())
}

/// Checks random permutations of random axes, some with gaps, reversed or repeated.
pub(crate) fn random<S: Storage, T: Storage>(run: &Run) -> Outcome {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % limit
    };
    for _ in 0..60 {
        let rank = 1 + below(6);
        let most = [6000, 90, 24, 9, 6, 4][rank - 1];
        let shape: Vec<usize> = (0..rank).map(|_| 1 + below(most)).collect();
        let mut order: Vec<usize> = (0..rank).collect();
        for axis in (1..rank).rev() {
            order.swap(axis, below(axis + 1));
        }
        let mut strides = vec![0isize; rank];
        let mut next = 1 + below(3) / 2;
        for axis in order {
            strides[axis] = next as isize;
            match below(12) {
                0 => strides[axis] = 0,
                1 => strides[axis] *= -1,
                _ => {}
            }
            next = next * shape[axis] + below(5) / 4;
        }
        copy::<S, T>(run, &shape, &strides, below(5))?;
    }
    Ok(())
}

/// Checks one copy, from memory with `first` unused elements in front.
fn copy<S: Storage, T: Storage>(
    run: &Run,
    shape: &[usize],
    strides: &[isize],
    first: usize,
) -> Outcome {
    let collapsed = Collapsed::new(shape, strides).expect("few axes");
    let g = CopyGeometry::new(
        &collapsed,
        (first + before(shape, strides)).is_multiple_of(4),
    );
    let mut memory: Vec<f32> = signed(1, &[first + g.span as usize]).into_iter().collect();
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, 7e4];
    for (at, special) in specials.into_iter().enumerate() {
        memory
            .iter_mut()
            .skip(11 * at + 2)
            .step_by(97)
            .for_each(|x| *x = special);
    }
    let origin = first + before(shape, strides);
    let mut index = vec![0; shape.len()];
    let values: Vec<f32> = (0..g.elements)
        .map(|element| {
            let mut left = element as usize;
            for axis in (0..shape.len()).rev() {
                index[axis] = left % shape[axis];
                left /= shape[axis];
            }
            let offset = |(&index, &stride): (&usize, &isize)| index as isize * stride;
            let offset: isize = index.iter().zip(strides).map(offset).sum();
            // As stored in the source; `tensor` rounds to the target's type.
            S::from_f32(memory[origin.strict_add_signed(offset)]).to_f32()
        })
        .collect();
    let (x, y, wanted) = (
        run.tensor::<S>(&memory)?,
        run.empty::<T>(values.len())?,
        run.tensor::<T>(&values)?,
    );
    let start = x.source::<S>().wrapping_add(origin).cast();
    let labels = [label::<S>(), label::<T>()];
    run.launch(&COPY_STRIDED, &labels, g.shape(), (start, y.ptr(), g))?;
    same_bits(
        &format!("{shape:?} by {strides:?} from {first}"),
        &y,
        &wanted,
    )
}

/// Elements before the one with all indices 0.
fn before(shape: &[usize], strides: &[isize]) -> usize {
    let backwards = shape.iter().zip(strides).filter(|(_, stride)| **stride < 0);
    backwards
        .map(|(&extent, stride)| (extent - 1) * stride.unsigned_abs())
        .sum()
}

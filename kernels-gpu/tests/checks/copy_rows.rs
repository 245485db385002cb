//! Copies of parts of rows, bit by bit against a copy element by element.

use cuda_std::Storage;
use launch_config::copy_rows::{RowsGeometry, RowsOf};
use launch_config::reciprocal::Reciprocal;
use oracle::data::signed;

use super::super::kernels::copy_rows::COPY_ROWS;
use super::{Outcome, Run, label, same_bits};

/// Rows, elements of each, pitch and start of the source and of the target.
type Row = (usize, usize, [usize; 2], [usize; 2]);

/// One element; whole rows into wider rows, and out of wider rows; units of single elements and of vectors;
/// several blocks to a row and several rows to a block, with a partial last block.
const ROWS: [Row; 8] = [
    (1, 1, [1, 0], [1, 0]),
    (3, 35, [35, 0], [77, 42]),
    (3, 42, [77, 35], [42, 0]),
    (2, 3001, [3001, 0], [9000, 4000]),
    (5, 2052, [6000, 8], [2056, 4]),
    (700, 8, [8, 0], [24, 16]),
    (700, 12, [20, 4], [12, 0]),
    (900, 5, [7, 1], [6, 1]),
];

/// Checks every row, from the first element of a tensor to the last one of another. All other elements of the
/// target stay unchanged.
pub(crate) fn copies<T: Storage>(run: &Run) -> Outcome {
    for row in ROWS {
        let (rows, elements, source, target) = row;
        let mut values: Vec<f32> = signed(1, &[rows * source[0]]).into_iter().collect();
        let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40];
        let some = values.iter_mut().step_by(13);
        some.zip(specials.iter().cycle()).for_each(|(x, s)| *x = *s);
        let before: Vec<f32> = signed(2, &[rows * target[0]]).into_iter().collect();
        let mut wanted = before.clone();
        for row in 0..rows {
            let from = row * source[0] + source[1];
            let to = row * target[0] + target[1];
            wanted[to..to + elements].copy_from_slice(&values[from..from + elements]);
        }
        let of = |[pitch, start]: [usize; 2]| RowsOf {
            pitch: pitch as u64,
            start: start as u64,
        };
        let mut g = RowsGeometry::new(rows as u64, elements as u64, of(source), of(target));
        let (x, wanted) = (run.tensor::<T>(&values)?, run.tensor::<T>(&wanted)?);
        let copy = |what: &str, g: RowsGeometry| {
            let y = run.tensor::<T>(&before)?;
            let arguments = (x.source(), y.ptr(), g);
            run.launch(&COPY_ROWS, &[label::<T>()], g.shape(), arguments)?;
            same_bits(&format!("{row:?}{what}"), &y, &wanted)
        };
        copy("", g)?;
        // Treats the rows as too long for a reciprocal.
        if g.row_units > 1024 {
            g.near = Reciprocal::of(1024);
            copy(" far", g)?;
        }
    }
    Ok(())
}

//! Implicit GEMM with a norm and values that are not finite: NaN at each position of a pooling window, and
//! infinities in elements that no window of the convolution reads.

use launch_config::implicit_gemm::{W64N128, WARP_SPECIALIZED};

use super::convolved::{Convolution, Operand};
use super::implicit_gemm::check_convolution;
use super::rows::{Row, rows};
use super::{Outcome, Run};

/// Checks filters of one tap, so that a NaN affects one pixel. Each window has a NaN at another position.
/// Windows are square ones, for which the code is unrolled, and others: of four columns, of two, and of
/// numbers that are not a vector.
pub(crate) fn windows<F: Operand>(run: &Run) -> Outcome {
    for pool in [[2, 2], [3, 3], [4, 4], [2, 5], [2, 4], [3, 2]] {
        let [h, w] = pool.map(|extent| extent as usize);
        let row = Row::new([1, 9, 20], [1, h * h + 1, w * w + 2], [1, 1, 1]);
        let mut conv = Convolution::new::<F::Stored>(row.pool(pool[0], pool[1]));
        conv.put_nan_in_windows(4);
        for tile in [None, Some(W64N128)] {
            let what = format!("NaN in windows {pool:?}");
            check_convolution::<F>(run, &what, &conv, tile)?;
        }
    }
    Ok(())
}

/// Checks infinities in the columns and rows between windows and after the last one. Neighbouring filter
/// columns may share a K-vector or an MMA step with them, where they would meet a filter of 0.
pub(crate) fn between_windows<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        // The stride exceeds the filter's width, but not its height.
        [1, 2, 9], [1, 7, 18], [1, 6, 3], stride([1, 1, 4]);
        [1, 1, 9], [1, 7, 20], [1, 6, 5], stride([1, 1, 6]);
        // The dilation is not 1.
        [1, 2, 9], [1, 7, 13], [1, 6, 3], stride([1, 1, 2]), dilation([1, 1, 3]);
        [1, 4, 9], [1, 7, 14], [1, 6, 3], stride([1, 1, 3]), dilation([1, 1, 2]);
        // Columns after the last window, in a K-vector with columns of that window.
        [1, 4, 9], [1, 7, 18], [1, 6, 3], stride([1, 1, 2]);
        [1, 1, 9], [1, 7, 21], [1, 6, 7], stride([1, 1, 4]);
        // A dilation larger than the number of windows; rows that no window has, after an odd number of taps.
        [1, 4, 9], [1, 7, 11], [1, 6, 3], dilation([1, 1, 4]);
        [1, 8, 9], [1, 7, 18], [1, 1, 3], stride([1, 2, 1]);
        [1, 8, 9], [1, 9, 18], [1, 2, 3], dilation([1, 5, 1]);
    };
    for (number, row) in rows.into_iter().enumerate() {
        let Row {
            filter, attributes, ..
        } = row;
        let [of_rows, of_columns] = [1, 2].map(|axis| {
            [
                filter[axis],
                attributes.stride[axis],
                attributes.dilation[axis],
            ]
        });
        let mut conv = Convolution::new::<F::Stored>(row);
        let windows = [conv.geometry.p, conv.geometry.q];
        let is_seen = |windows: u32, [taps, stride, dilation]: [usize; 3], at: usize| {
            (0..windows as usize)
                .any(|window| (0..taps).any(|tap| window * stride + tap * dilation == at))
        };
        let mut unseen = 0;
        for (index, x) in conv.case.x.indexed_iter_mut() {
            if !is_seen(windows[0], of_rows, index[3]) || !is_seen(windows[1], of_columns, index[4])
            {
                *x = f32::INFINITY;
                unseen += 1;
            }
        }
        assert!(unseen > 0, "row {number} has elements that no window has");
        for tile in [None, Some(W64N128), Some(WARP_SPECIALIZED)] {
            let what = format!("infinities between windows, row {number}");
            check_convolution::<F>(run, &what, &conv, tile)?;
        }
    }
    Ok(())
}

//! Implicit GEMM with a norm and values that are not finite: NaN at each position of a pooling window, and
//! infinities in elements that no window of the convolution reads.

use launch_config::implicit_gemm::{W64N128, WARP_SPECIALIZED};
use op_spec::ConvSpec;

use super::convolved::Convolution;
use super::implicit_gemm::{Operand, check_convolution, spec};
use super::{Outcome, Run};

/// Filters of one tap, so that a NaN is one pixel's, and windows each of which has one at another place:
/// square ones, which are written out, and others, of four columns, of two and of as many as are no vector.
pub(crate) fn windows<F: Operand>(run: &Run) -> Outcome {
    for pool in [[2, 2], [3, 3], [4, 4], [2, 5], [2, 4], [3, 2]] {
        let [h, w] = pool.map(|extent| extent as usize);
        let shape = [1, h * h + 1, w * w + 2];
        let mut conv =
            Convolution::new::<F::Stored>([1, 9, 20], shape, [1, 1, 1], ConvSpec::default());
        for row in 0..h {
            for column in 0..w {
                // Of the windows, the one at (row, column) has its NaN there.
                conv.case.x[[0, 4, 0, row * h + row, column * w + column]] = f32::NAN;
            }
        }
        for tile in [None, Some(W64N128)] {
            let what = format!("NaN in windows {pool:?}");
            check_convolution::<F>(run, &what, &conv, F::PRODUCTS, Some(pool), tile, 1)?;
        }
    }
    Ok(())
}

/// Infinities in the columns and rows between windows and behind the last one: columns of the filter's reach
/// may be neighbours in a K-vector with these, or a step's other half, where they would meet a filter of 0.
pub(crate) fn between_windows<F: Operand>(run: &Run) -> Outcome {
    // `[n, c, k]`; extents of the input and of the filter, stride and dilation, by rows and columns.
    let rows = [
        // The stride is more than the filter is wide, and not more than it is high.
        ([1, 2, 9], [7, 18], [6, 3], [1, 4], [1, 1]),
        ([1, 1, 9], [7, 20], [6, 5], [1, 6], [1, 1]),
        // The dilation is not 1.
        ([1, 2, 9], [7, 13], [6, 3], [1, 2], [1, 3]),
        ([1, 4, 9], [7, 14], [6, 3], [1, 3], [1, 2]),
        // Columns behind the last window, in a K-vector with columns of its.
        ([1, 4, 9], [7, 18], [6, 3], [1, 2], [1, 1]),
        ([1, 1, 9], [7, 21], [6, 7], [1, 4], [1, 1]),
        // More columns from a tap to the next than there are windows, and rows that no window has, behind an
        // odd number of taps.
        ([1, 4, 9], [7, 11], [6, 3], [1, 1], [1, 4]),
        ([1, 8, 9], [7, 18], [1, 3], [2, 1], [1, 1]),
        ([1, 8, 9], [9, 18], [2, 3], [1, 1], [5, 1]),
    ];
    for (number, (channels, [height, width], taps, stride, dilation)) in
        rows.into_iter().enumerate()
    {
        let [of_rows, of_columns] = [0, 1].map(|axis| [taps[axis], stride[axis], dilation[axis]]);
        let attributes = spec(
            [1, stride[0], stride[1]],
            [0; 3],
            [1, dilation[0], dilation[1]],
            1,
        );
        let (input, filter) = ([1, height, width], [1, taps[0], taps[1]]);
        let mut conv = Convolution::new::<F::Stored>(channels, input, filter, attributes);
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
            check_convolution::<F>(run, &what, &conv, F::PRODUCTS, None, tile, 1)?;
        }
    }
    Ok(())
}

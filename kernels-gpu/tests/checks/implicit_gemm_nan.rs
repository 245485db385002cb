//! What is not finite where a norm follows the implicit matrix product: NaN among the pixels of windows that it pools, at each place that a
//! window has, and infinities that no window of the convolution has.

use op_spec::ConvSpec;
use op_spec::launch::implicit_gemm::W64N128;

use super::convolved::Convolution;
use super::implicit_gemm::{Packed, check_convolution, spec};
use super::{Outcome, Run};

/// Filters of one tap, so that a NaN is one pixel's, and windows each of which has one at another place: square ones, which are
/// written out, and others, of four columns, of two and of as many as are no vector.
pub(crate) fn windows<F: Packed>(run: &Run) -> Outcome {
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

/// Infinities in the columns between windows and behind the last one: columns of the filter's reach may be neighbours in a cell with these, where they would meet
/// a filter of 0.
pub(crate) fn between_windows<F: Packed>(run: &Run) -> Outcome {
    // `[n, c, k]`, columns of the input and of the filter, stride, dilation.
    let rows = [
        // The stride is more than the filter is wide, and not more than it is high.
        ([1, 2, 9], 18, 3, 4, 1),
        ([1, 1, 9], 20, 5, 6, 1),
        // The dilation is not 1.
        ([1, 2, 9], 13, 3, 2, 3),
        ([1, 4, 9], 14, 3, 3, 2),
        // Columns behind the last window, in a cell with columns of its.
        ([1, 4, 9], 18, 3, 2, 1),
        ([1, 1, 9], 21, 7, 4, 1),
    ];
    for (number, (channels, width, taps, stride, dilation)) in rows.into_iter().enumerate() {
        let attributes = spec([1, 1, stride], [0; 3], [1, 1, dilation], 1);
        let (input, filter) = ([1, 7, width], [1, 6, taps]);
        let mut conv = Convolution::new::<F::Stored>(channels, input, filter, attributes);
        let windows = conv.geometry.q as usize;
        let is_seen = |column: usize| {
            (0..windows).any(|q| (0..taps).any(|tap| q * stride + tap * dilation == column))
        };
        let mut unseen = 0;
        for (index, x) in conv.case.x.indexed_iter_mut() {
            if !is_seen(index[4]) {
                *x = f32::INFINITY;
                unseen += 1;
            }
        }
        assert!(unseen > 0, "row {number} has columns that no window has");
        for tile in [None, Some(W64N128)] {
            let what = format!("infinities between windows, row {number}");
            check_convolution::<F>(run, &what, &conv, F::PRODUCTS, None, tile, 1)?;
        }
    }
    Ok(())
}

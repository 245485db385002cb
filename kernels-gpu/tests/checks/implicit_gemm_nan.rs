//! NaN among the pixels of windows that the implicit matrix product pools, at each place that a window has.

use op_spec::ConvSpec;
use op_spec::launch::implicit_gemm::W64N128;

use super::convolved::Convolution;
use super::implicit_gemm::{Packed, check_convolution};
use super::{Outcome, Run};

/// Filters of one tap, so that a NaN is one pixel's, and windows each of which has one at another place: square ones, which are
/// written out, and others.
pub(crate) fn windows<F: Packed>(run: &Run) -> Outcome {
    for pool in [[2, 2], [3, 3], [4, 4], [2, 5]] {
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

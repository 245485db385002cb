//! NaN among the pixels of windows that the depthwise convolution pools, at each position of a window.

use cuda_std::Storage;

use super::convolved::Convolution;
use super::rows::Row;
use super::{Outcome, Run, depthwise};

/// A filter of one tap, so that a NaN affects one pixel.
pub(crate) fn windows<T: Storage>(run: &Run) -> Outcome {
    let [h, w] = [2, 3];
    let row = Row::new([1, 2, 2], [1, h * h + 1, w * w + 2], [1, 1, 1]);
    let mut conv = Convolution::new::<T>(row.groups(2).pool(h as u32, w as u32));
    conv.put_nan_in_windows(1);
    depthwise::check::<T>(run, "NaN in windows", &conv)
}

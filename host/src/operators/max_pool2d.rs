//! Maximum over sliding windows of images; [`pool`](super::pool) has the launches.

use super::launching::{single, with_or_without_batch};
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::MaxPool2dSpec;

/// `y[n, c, p, q]` is the largest of `x[n, c, h, w]` over the window of `(p, q)`.
///
/// *Shapes*: `(n, c, h, w)` to `(n, c, p, q)` with
/// `p = (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1`. `ceil_mode` rounds up, but omits windows
/// that would start in the padding behind the image. Without a batch, `(c, h, w)` to `(c, p, q)`.
///
/// *Numerics*: exact. A window with a *NaN* gives NaN; padding never wins, not even against `-inf`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a rank other than 3 and 4, zero extents, a window larger than the
/// padded input, padding over half the window.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::MaxPool2dSpec};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((1, 1, 4, 4), |(_, _, h, w)| (4 * h + w) as f32);
/// let y = ops::max_pool2d(&Tensor::from_array(&stream, &image)?, &MaxPool2dSpec::new(2))?;
/// assert_eq!(y.to_array::<f32>()?.iter().copied().collect::<Vec<_>>(), [5.0, 7.0, 13.0, 15.0]);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.max_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html).
pub fn max_pool2d(x: &Tensor, spec: &MaxPool2dSpec) -> Result<Tensor> {
    with_or_without_batch(x, 4, |x| {
        single("max_pool2d", x, spec.problem(x.shape())?, &[])
    })
}

//! Maximum over sliding windows of images.

use super::launching::{compute, single, with_or_without_batch};
use super::pool::Overlapping;
use kernels_gpu::max_pool2d::MAX_POOL2D;
use launch_config::KernelGeometry;
use launch_config::max_pool2d::PoolGeometry;
use launch_config::pool::WindowGeometry;

use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{MaxPool2dProblem, MaxPool2dSpec};

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
        single("max_pool2d", x, spec.problem(x.shape())?.into(), &[])
    })
}

/// Returns the kernels of overlapping windows; `None` if threads compute stacks of windows.
fn overlapping(of: &PoolGeometry) -> Option<Overlapping> {
    let windows = WindowGeometry::of_images(of);
    (!of.task.is_stack()).then(|| Overlapping::of(&windows))?
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &MaxPool2dProblem,
) -> Result<Value> {
    let geometry = problem.geometry()?;
    let y = program.tensor(&problem.output_shape(), program.dtype(x))?;
    let (label, shape) = (program.label(x), geometry.shape());
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe {
        match overlapping(&geometry) {
            Some(of) => of.append(program, [x, y]),
            None => compute(program, &MAX_POOL2D, &label, shape, y, (x, y, geometry)),
        }
    }
}

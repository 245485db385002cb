//! Upsampling of sequences, images and volumes.

use kernels_gpu::upsample::{UPSAMPLE, UPSAMPLE_NHWC};
use launch_config::KernelGeometry;
use launch_config::upsample::UpsampleGeometry;
use op_spec::Layout;

use super::launching::{OwnKernels, Parameters, compute, single};
use crate::device::{Order, Tensor};
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{UpsampleProblem, UpsampleSpec};

/// `y[n, c, ..]` is the value of `x[n, c, ..]` nearest to a position, or interpolated linearly around it.
///
/// *Shapes*: `(n, c, ..)` with one to three spatial axes to `(n, c, ..)`, whose spatial extents are `size` or
/// `floor(input * scale_factor)`.
///
/// *Numerics*: positions are computed in f32 by PyTorch's formulas, see [`UpsampleSpec`]. Nearest values are
/// copied unchanged. Interpolation is in f32, along the columns first. A *NaN* or an infinity next to a
/// position gives NaN even if its weight is 0, as in PyTorch.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a rank that does not match the mode, extents of 0, neither or both of
/// a size and a factor, a factor that is not a finite number above 0, `align_corners` with nearest values.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{UpsampleMode, UpsampleSpec}};
/// use ndarray::arr3;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &arr3(&[[[1.0f32, 3.0]]]))?;
/// let nearest = ops::upsample(&x, &UpsampleSpec::scale_factor(2.0))?;
/// assert_eq!(nearest.to_array::<f32>()?, arr3(&[[[1.0, 1.0, 3.0, 3.0]]]).into_dyn());
/// let linear = UpsampleSpec::size(3).mode(UpsampleMode::Linear).align_corners(true);
/// let linear = ops::upsample(&x, &linear)?;
/// assert_eq!(linear.to_array::<f32>()?, arr3(&[[[1.0, 2.0, 3.0]]]).into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.interpolate`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html).
pub fn upsample(x: &Tensor, spec: &UpsampleSpec) -> Result<Tensor> {
    single("upsample", x, spec.problem(x.shape())?, &[])
}

impl OwnKernels for UpsampleProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
        let geometry = self.geometry()?;
        let y = program.tensor(&self.output_shape(), program.dtype(x))?;
        let (label, shape) = (program.label(x), geometry.shape());
        // SAFETY: `x` and `y` have the problem's input and output shapes.
        unsafe { compute(program, &UPSAMPLE, &label, shape, y, (x, y, geometry)) }
    }
}

/// Appends the operator of `x`, which is dense NHWC, to a dense NHWC output of the shape `output`.
pub(crate) fn append_nhwc(
    program: &mut ProgramBuilder,
    x: Value,
    geometry: &UpsampleGeometry,
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    let (label, shape) = (program.label(x), geometry.shape());
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe { compute(program, &UPSAMPLE_NHWC, &label, shape, y, (x, y, *geometry)) }
}

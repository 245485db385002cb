//! Maximum pools, average pools, and averages over all positions. The function for maximum pools of images is
//! [`max_pool2d`](crate::ops::max_pool2d).

use std::ffi::c_void;

use super::launching::{OwnKernels, Parameters, compute, single};
use super::reduction::Steps;
use cuda_std::Family;
use kernels_gpu::max_pool2d::MAX_POOL2D;
use kernels_gpu::pool::POOL;
use kernels_gpu::pool::nhwc::{AVG_POOL_NHWC, MAX_POOL_NHWC};
use kernels_gpu::pool::overlapping::{AVG_POOL_OVERLAPPING, MAX_POOL_OVERLAPPING};
use kernels_gpu::pool::rows::POOL_ROWS;
use launch_config::KernelGeometry;
use launch_config::max_pool2d::PoolGeometry;
use launch_config::overlapping::OverlappingGeometry;
use launch_config::pool::{NhwcWindowGeometry, WindowGeometry};
use launch_config::pool_rows::PoolRowsGeometry;
use op_spec::Layout;

use crate::device::{DType, Order, Tensor};
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{
    AdaptiveAvgPoolProblem, AdaptiveAvgPoolSpec, AvgPoolProblem, AvgPoolSpec, MaxPool2dProblem,
    MaxPool3dProblem, MaxPool3dSpec, PoolProblem,
};

/// `y[n, c, z, p, q]` is the largest of `x[n, c, d, h, w]` over the window of `(z, p, q)`.
///
/// *Shapes*: `(n, c, d, h, w)` to `(n, c, z, p, q)`, each extent as in
/// [`max_pool2d`](crate::ops::max_pool2d).
///
/// *Numerics*: exact. A window with a *NaN* gives NaN; padding never wins, not even against `-inf`. A window
/// that contains only padding, which dilation allows, gives `-inf`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a rank other than 5, zero extents, a window larger than the padded
/// input, padding over half the window.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::MaxPool3dSpec};
/// use ndarray::Array5;
///
/// let stream = Device::best().stream()?;
/// let volume = Array5::from_shape_fn((1, 1, 2, 2, 4), |(_, _, d, h, w)| (8 * d + 4 * h + w) as f32);
/// let y = ops::max_pool3d(&Tensor::from_array(&stream, &volume)?, &MaxPool3dSpec::new(2))?;
/// assert_eq!(y.to_array::<f32>()?.iter().copied().collect::<Vec<_>>(), [13.0, 15.0]);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.max_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool3d.html),
/// without indices.
pub fn max_pool3d(x: &Tensor, spec: &MaxPool3dSpec) -> Result<Tensor> {
    single("max_pool3d", x, spec.problem(x.shape())?, &[])
}

/// `y[n, c, p, q]` is the sum of `x[n, c, h, w]` over the window of `(p, q)`, divided by the number of its
/// elements.
///
/// *Shapes*: `(n, c, h, w)` to `(n, c, p, q)`, with `p = (h + 2 padding - kernel) / stride + 1`. `ceil_mode`
/// rounds up, but omits windows that would start in the padding behind the image.
///
/// *Numerics*: sums in f32, in a fixed order: each row of a window, then the sums of rows. A single window
/// over a whole image is summed by many threads. The divisor counts padding unless `count_include_pad` is
/// false, but never the part of a window beyond the padding. `divisor_override`, rounded to f32, replaces it.
/// *NaN* in a window gives NaN, and so do infinities of both signs.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a rank other than 4, zero extents, a window larger than the padded
/// input, padding over half the window, a divisor of 0.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::AvgPool2dSpec};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((1, 1, 2, 4), |(_, _, h, w)| (4 * h + w) as f32);
/// let y = ops::avg_pool2d(&Tensor::from_array(&stream, &image)?, &AvgPool2dSpec::new(2))?;
/// assert_eq!(y.to_array::<f32>()?.iter().copied().collect::<Vec<_>>(), [2.5, 4.5]);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.avg_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html).
pub fn avg_pool2d(x: &Tensor, spec: &AvgPoolSpec<2>) -> Result<Tensor> {
    single("avg_pool2d", x, spec.problem(x.shape())?, &[])
}

/// `y[n, c, z, p, q]` is the sum of `x[n, c, d, h, w]` over the window of `(z, p, q)`, divided by the number
/// of its elements.
///
/// *Shapes*: `(n, c, d, h, w)` to `(n, c, z, p, q)`, each extent as in [`avg_pool2d`].
///
/// *Numerics*, *NaN*: as [`avg_pool2d`], slice by slice.
///
/// # Errors
/// As [`avg_pool2d`], with rank 5 instead of 4.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::AvgPool3dSpec};
/// use ndarray::Array5;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 2, 4, 4, 4)))?;
/// let spec = AvgPool3dSpec::new(2).divisor_override(4);
/// assert!(ops::avg_pool3d(&x, &spec)?.to_array::<f32>()?.iter().all(|&value| value == 2.0));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.avg_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool3d.html).
pub fn avg_pool3d(x: &Tensor, spec: &AvgPoolSpec<3>) -> Result<Tensor> {
    single("avg_pool3d", x, spec.problem(x.shape())?, &[])
}

/// `y[n, c, p, q]` is the average of a window of `x[n, c, h, w]`. If `output_size` is 1, the window is the
/// whole image.
///
/// *Shapes*: `(n, c, h, w)` to `(n, c, p, q)` with `output_size`, which divides `h` and `w`. Windows are
/// `(h / p, w / q)`, side by side.
///
/// *Numerics*: sums in f32, in an order that depends only on the extents of an image: runs of at most 32
/// elements, then a binary tree. The error grows with the logarithm of the number of elements, and a sample's
/// averages have the same bits in any batch. Channels-last images have other runs, whose order also depends
/// on the channels. *NaN* gives NaN, and so do infinities of both signs.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a rank other than 4, zero extents, extents that are not multiples of
/// the output's.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::AdaptiveAvgPool2dSpec};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((1, 1, 3, 5), |(_, _, h, w)| (5 * h + w) as f32);
/// let x = Tensor::from_array(&stream, &image)?;
/// let y = ops::adaptive_avg_pool2d(&x, &AdaptiveAvgPool2dSpec::default())?;
/// assert_eq!(y.to_array::<f32>()?[[0, 0, 0, 0]], 7.0);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.adaptive_avg_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html).
pub fn adaptive_avg_pool2d(x: &Tensor, spec: &AdaptiveAvgPoolSpec<2>) -> Result<Tensor> {
    single("adaptive_avg_pool2d", x, spec.problem(x.shape())?, &[])
}

/// `y[n, c, z, p, q]` is the average of a window of `x[n, c, d, h, w]`. If `output_size` is 1, the window is
/// the whole volume.
///
/// *Shapes*: `(n, c, d, h, w)` to `(n, c, z, p, q)` with `output_size`, which divides the extents.
///
/// *Numerics*, *NaN*: as [`adaptive_avg_pool2d`].
///
/// # Errors
/// As [`adaptive_avg_pool2d`], with rank 5 instead of 4.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::AdaptiveAvgPool3dSpec};
/// use ndarray::Array5;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array5::<f32>::ones((2, 3, 4, 5, 6)))?;
/// let y = ops::adaptive_avg_pool3d(&x, &AdaptiveAvgPool3dSpec::default())?;
/// assert_eq!(y.shape(), [2, 3, 1, 1, 1]);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.adaptive_avg_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool3d.html).
pub fn adaptive_avg_pool3d(x: &Tensor, spec: &AdaptiveAvgPoolSpec<3>) -> Result<Tensor> {
    single("adaptive_avg_pool3d", x, spec.problem(x.shape())?, &[])
}

/// The kernels of a pool.
enum Kernels {
    /// Averages of whole planes are row reductions.
    Planes(Steps),
    Overlapping(Overlapping),
    /// Maxima of images whose windows overlap little, or that threads compute in stacks.
    Images(PoolGeometry),
    Windows(WindowGeometry),
}

impl Kernels {
    fn of(problem: &PoolProblem, dtype: DType) -> Result<Self> {
        if let Some(divisor) = problem.of_whole_planes() {
            let elements = problem.input.iter().product::<usize>() as u64;
            let planes = (problem.n * problem.c) as u64;
            let steps = Steps::of_rows(planes, elements, divisor as f32, dtype);
            return Ok(Self::Planes(steps));
        }
        if problem.is_max_of_images() {
            let images = PoolGeometry::of(problem)?;
            let overlapping = || Overlapping::of(&WindowGeometry::of_images(&images));
            let overlapping = (!images.task.is_stack()).then(overlapping).flatten();
            return Ok(overlapping.map_or(Self::Images(images), Self::Overlapping));
        }
        let windows = problem.geometry()?;
        Ok(Overlapping::of(&windows).map_or(Self::Windows(windows), Self::Overlapping))
    }
}

/// The kernels of overlapping windows.
#[derive(Clone, Copy)]
enum Overlapping {
    /// Segments of rows, in shared memory.
    Rows(PoolRowsGeometry),
    /// Tiles of windows that share lines.
    Tiles(OverlappingGeometry),
}

impl Overlapping {
    /// Returns the kernels, if the windows overlap so much that they are faster than other kernels.
    fn of(windows: &WindowGeometry) -> Option<Self> {
        let rows = PoolRowsGeometry::new(windows).map(Self::Rows);
        rows.or_else(|| OverlappingGeometry::new(windows).map(Self::Tiles))
    }

    /// Appends the pool, from `x` to `y`.
    ///
    /// # Safety
    /// `x` and `y` have the shapes of the pool's input and output.
    unsafe fn append(self, program: &mut ProgramBuilder, [x, y]: [Value; 2]) -> Result<Value> {
        let label = program.label(x);
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Rows(of) => compute(program, &POOL_ROWS, &label, of.shape(), y, (x, y, of)),
                Self::Tiles(of) => {
                    let family = tiles_family(&of);
                    compute(program, family, &label, of.shape(), y, (x, y, of))
                }
            }
        }
    }
}

/// Input, output and geometry.
type TilesArguments = (*const c_void, *mut c_void, OverlappingGeometry);

/// Returns the kernels of tiles.
fn tiles_family(of: &OverlappingGeometry) -> &'static Family<TilesArguments> {
    match of.windows.are_maxima() {
        true => &MAX_POOL_OVERLAPPING,
        false => &AVG_POOL_OVERLAPPING,
    }
}

impl OwnKernels for PoolProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
        let (output, dtype) = (self.output_shape(), program.dtype(x));
        match Kernels::of(self, dtype)? {
            Kernels::Planes(steps) => steps.append(program, x, &output),
            Kernels::Overlapping(of) => {
                let y = program.tensor(&output, dtype)?;
                // SAFETY: `x` and `y` have the problem's input and output shapes.
                unsafe { of.append(program, [x, y]) }
            }
            Kernels::Images(images) => {
                let y = program.tensor(&output, dtype)?;
                let (label, shape) = ([dtype.label()], images.shape());
                // SAFETY: `x` and `y` have the problem's input and output shapes.
                unsafe { compute(program, &MAX_POOL2D, &label, shape, y, (x, y, images)) }
            }
            Kernels::Windows(windows) => {
                let y = program.tensor(&output, dtype)?;
                let (label, shape) = ([dtype.label()], windows.shape());
                // SAFETY: `x` and `y` have the problem's input and output shapes.
                unsafe { compute(program, &POOL, &label, shape, y, (x, y, windows)) }
            }
        }
    }
}

macro_rules! as_pools {
    ($($Problem:ty),+) => {$(
        impl OwnKernels for $Problem {
            fn append(&self, program: &mut ProgramBuilder, x: Value, of: Parameters) -> Result<Value> {
                self.pool.append(program, x, of)
            }
        }
    )+};
}

as_pools!(
    MaxPool2dProblem,
    MaxPool3dProblem,
    AvgPoolProblem<2>,
    AvgPoolProblem<3>,
    AdaptiveAvgPoolProblem<2>,
    AdaptiveAvgPoolProblem<3>
);

/// Returns the windows of a channels-last pool, if there is a kernel for them. Averages of whole planes are
/// excluded, because their kernels add in another order.
pub(crate) fn nhwc_windows(pool: &PoolProblem) -> Option<NhwcWindowGeometry> {
    let windows = if pool.is_max_of_images() {
        WindowGeometry::of_images(&PoolGeometry::of(pool).ok()?)
    } else if pool.of_whole_planes().is_none() {
        pool.geometry().ok()?
    } else {
        return None;
    };
    NhwcWindowGeometry::new(&windows, u32::try_from(pool.c).ok()?).ok()
}

/// Input, output and geometry.
type NhwcArguments = (*const c_void, *mut c_void, NhwcWindowGeometry);

/// Returns the kernels for windows of channels-last tensors.
fn nhwc_family(windows: &NhwcWindowGeometry) -> &'static Family<NhwcArguments> {
    match windows.windows.are_maxima() {
        true => &MAX_POOL_NHWC,
        false => &AVG_POOL_NHWC,
    }
}

/// Appends the pool of `x`, which is dense NHWC, to a dense NHWC output of the shape `output`.
pub(crate) fn append_nhwc(
    program: &mut ProgramBuilder,
    x: Value,
    windows: &NhwcWindowGeometry,
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    let (family, label) = (nhwc_family(windows), program.label(x));
    let arguments = (x, y, *windows);
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe { compute(program, family, &label, windows.shape(), y, arguments) }
}

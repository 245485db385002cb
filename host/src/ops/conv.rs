//! Convolution in two and three dimensions.

use cuda_std::Label;
use kernels_gpu::conv::{CONV_DIRECT, CONV_GEMM, CONV_IM2COL};
use ndarray::{Ix1, Ix4, Ix5};

use super::Arena;
use super::launching::{Argument, bytes, from_cpu, grid, launch, shape_of};
use crate::cpu;
use crate::device::{LaunchShape, Tensor};
use crate::error::{Error, Result};
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::conv_gemm::ColumnPlan;
use crate::spec::{Conv2dSpec, Conv3dSpec, ConvSpec};

/// How a convolution is computed on a GPU. Both sum in f32 and give results that repeat bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ConvAlgorithm {
    /// Each thread walks over the filter for its outputs. No workspace.
    Direct,
    /// The input is spread out into a column matrix, which is then multiplied by the filters; the bias joins in that
    /// product's last step. Faster where there are many output channels; needs a workspace.
    #[default]
    Im2col,
}

/// Choices that do not change what a convolution computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvOptions {
    /// The algorithm.
    pub algorithm: ConvAlgorithm,
    /// The most bytes that the column matrix may take at a time; it is made in chunks that fit.
    pub workspace_bytes: u64,
}

impl Default for ConvOptions {
    /// [`ConvAlgorithm::Im2col`] in chunks of at most 64 MiB.
    fn default() -> Self {
        ConvOptions {
            algorithm: ConvAlgorithm::default(),
            workspace_bytes: 64 << 20,
        }
    }
}

impl ConvOptions {
    /// The default limit with another algorithm.
    pub fn algorithm(algorithm: ConvAlgorithm) -> ConvOptions {
        ConvOptions {
            algorithm,
            ..ConvOptions::default()
        }
    }

    /// The same with another limit.
    #[must_use]
    pub fn workspace_bytes(self, workspace_bytes: u64) -> ConvOptions {
        ConvOptions {
            workspace_bytes,
            ..self
        }
    }
}

/// `y[n, k, p, q] = bias[k] + sum over c, r, s of x[n, c, h, w] * weight[k, c, r, s]` (a cross-correlation), with
/// `h = p * stride - padding + r * dilation`, and zeros outside the image.
///
/// *Shapes*: `x` is `(n, c, h, w)`, `weight` `(k, c / groups, r, s)`, `bias`, optional, `(k)`; the output is
/// `(n, k, p, q)` with `p = (h + 2 padding - dilation (r - 1) - 1) / stride + 1`.
///
/// *Numerics*: f32 sums with one rounding per product and addition, in an order that depends on the shapes alone;
/// `L = c / groups * r * s` and `cond = sum |x * weight| + |bias|` in the bound of [`ops`](crate::ops#numerics).
/// *NaN* and infinities spread to every output whose window holds them.
///
/// # Errors
/// [`Error::Spec`]: what PyTorch refuses. [`Error::DTypeMismatch`], [`Error::DeviceMismatch`].
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::Conv2dSpec};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array4::<f32>::ones((1, 2, 5, 5)))?;
/// let weight = Tensor::from_array(&stream, &Array4::<f32>::ones((3, 2, 3, 3)))?;
/// let spec = Conv2dSpec { padding: [1, 1], ..Conv2dSpec::default() };
/// let y = ops::conv2d(&x, &weight, None, &spec)?;
/// assert_eq!(y.shape(), [1, 3, 5, 5]);
/// let y = y.to_array::<f32>()?;
/// assert_eq!((y[[0, 0, 2, 2]], y[[0, 0, 0, 0]]), (18.0, 8.0));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.nn.functional.conv2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html).
pub fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv2dSpec,
) -> Result<Tensor> {
    conv2d_with(x, weight, bias, spec, &ConvOptions::default())
}

/// [`conv2d`] with a choice of algorithm and workspace; the CPU backend has one algorithm and ignores both.
pub fn conv2d_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv2dSpec,
    options: &ConvOptions,
) -> Result<Tensor> {
    conv_in(&mut Arena::fresh(), x, weight, bias, spec, options)
}

/// [`conv2d`] with a depth: `x` is `(n, c, d, h, w)`, `weight` `(k, c / groups, t, r, s)`, the output
/// `(n, k, z, p, q)`. All that is said there holds.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::Conv3dSpec};
/// use ndarray::{Array5, array};
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 1, 3, 4, 5)))?;
/// let weight = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 1, 2, 2, 2)))?;
/// let bias = Tensor::from_array(&stream, &array![0.5f32])?;
/// let y = ops::conv3d(&x, &weight, Some(&bias), &Conv3dSpec::default())?;
/// assert_eq!(y.shape(), [1, 1, 2, 3, 4]);
/// assert!(y.to_array::<f32>()?.iter().all(|&value| value == 8.5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.nn.functional.conv3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv3d.html).
pub fn conv3d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv3dSpec,
) -> Result<Tensor> {
    conv3d_with(x, weight, bias, spec, &ConvOptions::default())
}

/// [`conv3d`] with a choice of algorithm and workspace; the CPU backend has one algorithm and ignores both.
pub fn conv3d_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv3dSpec,
    options: &ConvOptions,
) -> Result<Tensor> {
    conv_in(&mut Arena::fresh(), x, weight, bias, spec, options)
}

/// Both convolutions; two dimensions are three with a depth of 1.
pub(crate) fn conv_in<const D: usize>(
    arena: &mut Arena,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &ConvSpec<D>,
    options: &ConvOptions,
) -> Result<Tensor>
where
    ConvSpec<D>: CpuConv,
{
    let operator = ConvSpec::<D>::OPERATOR;
    let problem = spec.problem(x.shape(), weight.shape(), shape_of(bias))?;
    let stream = x.stream();
    let open = |argument, tensor| Argument::open(operator, argument, tensor, x);
    let arguments = Arguments {
        x: Argument::input(operator, x)?,
        weight: open("weight", weight)?,
        bias: bias.map(|bias| open("bias", bias)).transpose()?,
    };
    if x.device().is_cpu() {
        return spec.on_cpu(x, weight, bias);
    }
    let geometry = problem.geometry()?;
    let y = arena.tensor(stream, &problem.output_shape(), x.dtype())?;
    if y.is_empty() {
        return Ok(y);
    }
    match options.algorithm {
        ConvAlgorithm::Direct => direct::<D>(&arguments, &geometry, &y)?,
        ConvAlgorithm::Im2col => {
            im2col::<D>(arena, &arguments, &geometry, &y, options.workspace_bytes)?
        }
    }
    Ok(y)
}

/// The tensors that the kernels read.
struct Arguments<'a> {
    x: Argument<'a>,
    weight: Argument<'a>,
    bias: Option<Argument<'a>>,
}

impl Arguments<'_> {
    /// The bias' address, null if there is none.
    fn bias<T>(&self) -> *const T {
        self.bias
            .as_ref()
            .map_or(std::ptr::null(), Argument::pointer)
    }

    fn parameter_bytes(&self) -> u64 {
        self.weight.tensor.bytes() + self.bias.as_ref().map_or(0, |bias| bias.tensor.bytes())
    }
}

fn direct<const D: usize>(
    arguments: &Arguments<'_>,
    geometry: &ConvGeometry,
    y: &Tensor,
) -> Result<()> {
    let (stream, dtype) = (y.stream(), y.dtype());
    let tile = geometry.direct_tile();
    let shape = grid(operator::<D>(), geometry.direct_shape(tile))?;
    let labels = [dimensions::<D>(), tile.name().into(), dtype.label()];
    // SAFETY: the tensors have the shapes that the geometry was made from, in this element type; the bias is
    // there if the geometry says so; `y` is fresh; `geometry()` refused planes of 2^31 elements.
    unsafe {
        launch(
            stream,
            &CONV_DIRECT,
            &labels,
            shape,
            (
                arguments.x.pointer(),
                arguments.weight.pointer(),
                arguments.bias(),
                y.output(),
                *geometry,
            ),
        )?;
    }
    stream.moved(bytes(&[arguments.x.tensor, y]) + arguments.parameter_bytes());
    Ok(())
}

fn im2col<const D: usize>(
    arena: &mut Arena,
    arguments: &Arguments<'_>,
    geometry: &ConvGeometry,
    y: &Tensor,
    workspace_bytes: u64,
) -> Result<()> {
    let (stream, dtype) = (y.stream(), y.dtype());
    let element = dtype.size() as u64;
    let Some(plan) = ColumnPlan::new(geometry, workspace_bytes / element) else {
        return Err(Error::WorkspaceTooSmall {
            operator: operator::<D>(),
            limit: workspace_bytes,
        });
    };
    let columns = arena.tensor(stream, &[plan.workspace_elements() as usize], dtype)?;
    let reading = columns.read_on(operator::<D>(), "columns", stream)?;
    let tile = geometry.gemm_tile();
    let label = tile.name().unwrap_or_default().into();
    for chunk in plan.chunks() {
        let spread: LaunchShape = grid(operator::<D>(), chunk.im2col_shape(geometry))?;
        let product = grid(operator::<D>(), chunk.gemm_shape(geometry, tile))?;
        // SAFETY: the tensors have the shapes that the geometry was made from, in this element type; the bias
        // is there if the geometry says so; the column matrix holds the plan's largest chunk, and each
        // chunk's writing follows the last one's reading in stream order; `y` is fresh; `geometry()` refused
        // planes of 2^31 elements.
        unsafe {
            launch(
                stream,
                &CONV_IM2COL,
                &[dimensions::<D>(), dtype.label()],
                spread,
                (arguments.x.pointer(), columns.output(), *geometry, chunk),
            )?;
            launch(
                stream,
                &CONV_GEMM,
                &[label, dtype.label()],
                product,
                (
                    arguments.weight.pointer(),
                    arguments.bias(),
                    reading.pointer(),
                    y.output(),
                    *geometry,
                    chunk,
                ),
            )?;
        }
        let rows = u64::from(geometry.groups) * u64::from(geometry.reduction());
        let columns_bytes = chunk.samples * rows * u64::from(chunk.pitch) * element;
        stream.moved(2 * columns_bytes + arguments.parameter_bytes());
    }
    stream.moved(bytes(&[arguments.x.tensor, y]));
    Ok(())
}

/// What kernels of so many dimensions are labelled.
const fn dimensions<const D: usize>() -> Label {
    Label::Number(D as u32)
}

fn operator<const D: usize>() -> &'static str {
    ConvSpec::<D>::OPERATOR
}

/// The CPU backend's convolution of this many dimensions.
pub(crate) trait CpuConv {
    fn on_cpu(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor>;
}

macro_rules! cpu_conv {
    ($spec:ty, $function:path, $Ix:ty) => {
        impl CpuConv for $spec {
            fn on_cpu(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
                let bias = bias.map(|bias| bias.host_f32_as::<Ix1>());
                let bias = bias.as_ref().map(|bias| bias.view());
                let (input, filter) = (x.host_f32_as::<$Ix>(), weight.host_f32_as::<$Ix>());
                from_cpu(x, $function(input.view(), filter.view(), bias, self))
            }
        }
    };
}

cpu_conv!(Conv2dSpec, cpu::conv2d, Ix4);
cpu_conv!(Conv3dSpec, cpu::conv3d, Ix5);

//! Convolution in one to three dimensions.

mod pad;

use cuda_std::Label;
use kernels_gpu::conv::{CONV_DIRECT, CONV_GEMM, CONV_IM2COL};
use launch_config::KernelGeometry;

pub(crate) use pad::append as append_pad;

use super::launching::{kernel, shape_of, single_with, with_or_without_batch};
use crate::device::Tensor;
use crate::error::{Error, Result};
use crate::graph::LayerProblem;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{Conv1dSpec, Conv2dSpec, Conv3dSpec, ConvProblem, ConvSpec};
use launch_config::conv::ConvGeometry;
use launch_config::conv_gemm::ColumnPlan;

/// The algorithm of a convolution on a GPU. Both accumulate in f32, and results repeat bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ConvAlgorithm {
    /// Direct convolution: each thread loops over the filter for its outputs. No workspace.
    Direct,
    /// im2col and a GEMM with the filters, which adds the bias at its end. Faster with many output channels;
    /// needs a workspace.
    #[default]
    Im2col,
}

/// Choices that do not change what a convolution computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvOptions {
    /// The algorithm.
    pub algorithm: ConvAlgorithm,
    /// The most bytes of the im2col matrix at a time. It is computed in chunks of that size, at most 65,536.
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

    /// The same with this limit.
    #[must_use]
    pub fn workspace_bytes(self, workspace_bytes: u64) -> ConvOptions {
        ConvOptions {
            workspace_bytes,
            ..self
        }
    }
}

/// `y[n, k, p, q] = bias[k] + sum over c, r, s of x[n, c, h, w] * weight[k, c, r, s]` (a cross-correlation),
/// with `h = p * stride - padding + r * dilation`, and zeros outside the image, or the values of
/// `padding_mode`.
///
/// *Shapes*: `x` is `(n, c, h, w)`, `weight` `(k, c / groups, r, s)`, `bias`, optional, `(k)`; the output is
/// `(n, k, p, q)` with `p = (h + 2 padding - dilation (r - 1) - 1) / stride + 1`.
///
/// Without a batch, `x` is `(c, h, w)` and the output `(k, p, q)`.
///
/// *Padding*: a number of elements on both sides, or [`Padding::Same`](crate::spec::Padding), which makes the
/// output as large as the image and puts an odd element at the end. A separate launch pads the image if
/// padding is not zeros, or differs between the two sides.
///
/// *Numerics*: f32 sums with one rounding per product and addition, in an order that depends on the shapes
/// alone; `L = c / groups * r * s` and `cond = sum |x * weight| + |bias|` in the bound of
/// [`ops`](crate::ops#numerics). *NaN* and infinities spread to every output whose window holds them.
///
/// # Errors
/// [`Error::Spec`]: attributes that PyTorch refuses, such as [`Padding::Same`](crate::spec::Padding) with a
/// stride, or reflected padding that is not less than the extent. [`Error::DTypeMismatch`],
/// [`Error::DeviceMismatch`].
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::Conv2dSpec};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array4::<f32>::ones((1, 2, 5, 5)))?;
/// let weight = Tensor::from_array(&stream, &Array4::<f32>::ones((3, 2, 3, 3)))?;
/// let spec = Conv2dSpec { padding: [1, 1].into(), ..Conv2dSpec::default() };
/// let y = ops::conv2d(&x, &weight, None, &spec)?;
/// assert_eq!(y.shape(), [1, 3, 5, 5]);
/// let y = y.to_array::<f32>()?;
/// assert_eq!((y[[0, 0, 2, 2]], y[[0, 0, 0, 0]]), (18.0, 8.0));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.conv2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html).
pub fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv2dSpec,
) -> Result<Tensor> {
    conv2d_with(x, weight, bias, spec, &ConvOptions::default())
}

/// [`conv2d`] with a choice of algorithm and workspace; the CPU backend has one algorithm and ignores both.
///
/// # Errors
/// As there; [`Error::WorkspaceTooSmall`], [`Error::TooManyChunks`].
pub fn conv2d_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv2dSpec,
    options: &ConvOptions,
) -> Result<Tensor> {
    run(x, weight, bias, spec, options)
}

/// [`conv2d`] for sequences: `x` is `(n, c, w)`, `weight` `(k, c / groups, s)`, the output `(n, k, q)`. All
/// rules of `conv2d` hold.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{Conv1dSpec, Padding}};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 2.0, 3.0, 4.0]]])?;
/// let weight = Tensor::from_array(&stream, &array![[[1.0f32, 1.0, 1.0]]])?;
/// let spec = Conv1dSpec { padding: Padding::Same, ..Conv1dSpec::default() };
/// let y = ops::conv1d(&x, &weight, None, &spec)?;
/// assert_eq!(y.to_array::<f32>()?, array![[[3.0, 6.0, 9.0, 7.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.conv1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv1d.html).
pub fn conv1d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv1dSpec,
) -> Result<Tensor> {
    conv1d_with(x, weight, bias, spec, &ConvOptions::default())
}

/// [`conv1d`] with a choice of algorithm and workspace; the CPU backend has one algorithm and ignores both.
///
/// # Errors
/// As [`conv2d_with`].
pub fn conv1d_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv1dSpec,
    options: &ConvOptions,
) -> Result<Tensor> {
    run(x, weight, bias, spec, options)
}

/// [`conv2d`] with a depth: `x` is `(n, c, d, h, w)`, `weight` `(k, c / groups, t, r, s)`, the output
/// `(n, k, z, p, q)`. All rules of `conv2d` hold.
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
/// As
/// [`torch.nn.functional.conv3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv3d.html).
pub fn conv3d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv3dSpec,
) -> Result<Tensor> {
    conv3d_with(x, weight, bias, spec, &ConvOptions::default())
}

/// [`conv3d`] with a choice of algorithm and workspace; the CPU backend has one algorithm and ignores both.
///
/// # Errors
/// As [`conv2d_with`].
pub fn conv3d_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Conv3dSpec,
    options: &ConvOptions,
) -> Result<Tensor> {
    run(x, weight, bias, spec, options)
}

/// The common implementation of all convolutions.
fn run<const D: usize>(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &ConvSpec<D>,
    options: &ConvOptions,
) -> Result<Tensor>
where
    ConvProblem<D>: Into<LayerProblem>,
{
    with_or_without_batch(x, D + 2, |x| {
        let problem = spec.problem(x.shape(), weight.shape(), shape_of(bias))?;
        let parameters = [("weight", Some(weight)), ("bias", bias)];
        let operator = ConvSpec::<D>::OPERATOR;
        single_with(operator, x, problem.into(), &parameters, options)
    })
}

/// The most chunks of an im2col matrix in a program, at two launches each. With 64 MiB, images of 10^9 pixels
/// take far fewer.
const MAX_CHUNKS: usize = 1 << 16;

/// The parameters of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filters {
    pub(crate) weight: Value,
    pub(crate) bias: Option<Value>,
}

impl Filters {
    /// Bytes of both.
    pub(super) fn bytes(self, program: &ProgramBuilder) -> u64 {
        let bias = self.bias.map_or(0, |bias| program.bytes(&[bias]));
        program.bytes(&[self.weight]) + bias
    }
}

/// Appends a convolution of any kind to a program; absent dimensions have extents of 1.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    filters: Filters,
    problem: &ConvProblem<D>,
    options: &ConvOptions,
) -> Result<Value> {
    let x = pad::append(program, x, problem.pad.as_ref())?;
    let geometry = problem.geometry()?;
    let y = program.tensor(&problem.output_shape(), program.dtype(x))?;
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    match options.algorithm {
        ConvAlgorithm::Direct => direct::<D>(program, x, filters, &geometry, y)?,
        ConvAlgorithm::Im2col => {
            im2col::<D>(program, x, filters, &geometry, y, options.workspace_bytes)?;
        }
    }
    Ok(y)
}

/// The label of kernels of this many dimensions.
fn dimensions<const D: usize>() -> Label {
    // Sequences are images of one row.
    Label::Number((D as u32).max(2))
}

fn direct<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    filters: Filters,
    geometry: &ConvGeometry,
    y: Value,
) -> Result<()> {
    let dtype = program.dtype(x);
    let tile = geometry.direct_tile();
    let Filters { weight, bias } = filters;
    let labels = [dimensions::<D>(), tile.name().into(), dtype.label()];
    let (kernel, shape) = kernel(&CONV_DIRECT, &labels, geometry.direct_shape(tile))?;
    let arguments = (x, weight, bias, y, *geometry);
    // SAFETY: the values have the shapes that the geometry was made from; the bias is there if the geometry
    // says so; `geometry()` refused planes of 2^31 elements.
    unsafe { program.launch(kernel, shape, arguments) }
    Ok(())
}

fn im2col<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    filters: Filters,
    geometry: &ConvGeometry,
    y: Value,
    workspace_bytes: u64,
) -> Result<()> {
    let dtype = program.dtype(x);
    let element = dtype.size() as u64;
    let plan = ColumnPlan::new(geometry, workspace_bytes / element);
    let plan = plan.ok_or(Error::WorkspaceTooSmall {
        operator: ConvSpec::<D>::OPERATOR,
        limit: workspace_bytes,
    })?;
    // Checked first: the chunks of a plan may exceed memory.
    if plan.chunks().nth(MAX_CHUNKS).is_some() {
        return Err(Error::TooManyChunks {
            operator: ConvSpec::<D>::OPERATOR,
            limit: workspace_bytes,
            most: MAX_CHUNKS,
        });
    }
    let columns = program.tensor(&[plan.workspace_elements() as usize], dtype)?;
    let tile = geometry.gemm_tile();
    let Filters { weight, bias } = filters;
    let spread_labels = [dimensions::<D>(), dtype.label()];
    let product_labels = [tile.name().unwrap_or_default().into(), dtype.label()];
    let rows = u64::from(geometry.groups) * u64::from(geometry.reduction());
    for chunk in plan.chunks() {
        let shape = chunk.im2col_shape(geometry);
        let (spread, spread_shape) = kernel(&CONV_IM2COL, &spread_labels, shape)?;
        let shape = chunk.gemm_shape(geometry, tile);
        let (product, product_shape) = kernel(&CONV_GEMM, &product_labels, shape)?;
        let of_chunk = |channels: u32, pixels: u32| {
            chunk.samples * u64::from(channels) * u64::from(pixels) * element
        };
        let column_bytes = chunk.samples * rows * u64::from(chunk.pitch) * element;
        // If a sample is divided, its first chunk accounts for the input.
        let input_bytes = match chunk.first_pixel {
            0 => of_chunk(geometry.input_channels(), geometry.input_pixels()),
            _ => 0,
        };
        let spread_bytes = input_bytes + column_bytes;
        let output_bytes = of_chunk(geometry.output_channels(), chunk.pixels);
        let product_bytes = column_bytes + filters.bytes(program) + output_bytes;
        let spreading = (x, columns, *geometry, chunk);
        let multiplying = (weight, bias, columns, y, *geometry, chunk);
        // SAFETY: the values have the shapes that the geometry was made from; the bias is there if the
        // geometry says so; the column matrix holds the plan's largest chunk, and each chunk's writing
        // follows the last one's reading; `geometry()` refused planes of 2^31 elements.
        unsafe {
            program.launch_moving(spread, spread_shape, spreading, spread_bytes);
            program.launch_moving(product, product_shape, multiplying, product_bytes);
        }
    }
    Ok(())
}

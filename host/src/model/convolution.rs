//! Convolutions as functions: models of one layer, whose kernels the table of
//! [`lowering`](crate::lowering) chooses.

use super::{Model, Options};
use crate::device::Tensor;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::graph::{Chain, ConvLayer, ConvTransposeLayer, Layer, LayerProblem};
use crate::operators::launching::{checked, on_cpu, shape_of, with_or_without_batch};
use crate::spec::{
    Conv1dSpec, Conv2dSpec, Conv3dSpec, ConvSpec, ConvTranspose1dSpec, ConvTranspose2dSpec,
    ConvTranspose3dSpec,
};

/// Defines functions for convolutions: for each, one with the default options and one with options.
macro_rules! convolutions {
    ($(
        $(#[$doc:meta])* $name:ident($Spec:ident) = Layer::$Layer:ident($Of:ident);
        $(#[$with_doc:meta])* $with:ident;
    )+) => {
        /// Calls the function of a convolution; `None` for another layer.
        pub(crate) fn of_layer(
            x: &Tensor,
            layer: &Layer,
            weight: &Tensor,
            bias: Option<&Tensor>,
            options: &Options,
        ) -> Option<Result<Tensor>> {
            match layer {
                $(Layer::$Layer(of) => Some($with(x, weight, bias, &of.attributes, options)),)+
                _ => None,
            }
        }

    $(
        $(#[$doc])*
        pub fn $name(
            x: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            spec: &$Spec,
        ) -> Result<Tensor> {
            $with(x, weight, bias, spec, &Options::default())
        }

        $(#[$with_doc])*
        pub fn $with(
            x: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            spec: &$Spec,
            options: &Options,
        ) -> Result<Tensor> {
            with_or_without_batch(x, spec.stride.len() + 2, |x| {
                let problem = spec.problem(x.shape(), weight.shape(), shape_of(bias))?;
                let of = $Of::new(stringify!($name), problem.k, problem.kernel_size);
                let layer = Layer::$Layer(of.attributes(*spec).bias(bias.is_some()));
                run_layer((layer, problem.into()), x, weight, bias, options)
            })
        }
    )+};
}

convolutions! {
    /// `y[n, k, p, q] = bias[k] + sum over c, r, s of x[n, c, h, w] * weight[k, c, r, s]` (a
    /// cross-correlation), with `h = p * stride - padding + r * dilation`, and zeros outside the image, or
    /// the values of `padding_mode`.
    ///
    /// *Shapes*: `x` is `(n, c, h, w)`, `weight` `(k, c / groups, r, s)`, `bias`, optional, `(k)`; the output
    /// is `(n, k, p, q)` with `p = (h + 2 padding - dilation (r - 1) - 1) / stride + 1`.
    ///
    /// Without a batch, `x` is `(c, h, w)` and the output `(k, p, q)`.
    ///
    /// *Padding*: a number of elements on both sides, or [`Padding::Same`](crate::spec::Padding), which makes
    /// the output as large as the image and puts an odd element at the end. A separate launch pads the image
    /// if padding is not zeros, or differs between the two sides.
    ///
    /// *Numerics*: as for a model with this one layer. In f32, tensor cores have the errors of
    /// [`Precision::Accurate`](crate::model::Precision::Accurate). The kernels of the row `direct` meet the
    /// bound of [`ops`](crate::ops#numerics), where `L = c / groups * r * s` and the condition is the sum of
    /// the magnitudes of all products and the bias. The order of a sum depends on the shapes alone. *NaN* and
    /// infinities spread to every output whose window contains them.
    ///
    /// # Errors
    /// [`Error::Spec`]: attributes that PyTorch refuses, such as [`Padding::Same`](crate::spec::Padding) with
    /// a stride, or reflected padding that is not less than the extent. [`Error::DTypeMismatch`],
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
    /// let spec = Conv2dSpec::default().padding(1);
    /// let y = ops::conv2d(&x, &weight, None, &spec)?;
    /// assert_eq!(y.shape(), [1, 3, 5, 5]);
    /// let y = y.to_array::<f32>()?;
    /// assert_eq!((y[[0, 0, 2, 2]], y[[0, 0, 0, 0]]), (18.0, 8.0));
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    ///
    /// As
    /// [`torch.nn.functional.conv2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html).
    conv2d(Conv2dSpec) = Layer::Conv2d(ConvLayer);
    /// [`conv2d`] with options for the choice of kernels, as for a model with this one layer. The CPU backend
    /// ignores them. [`Partition::of_layer`](crate::graph::Partition::of_layer) names a row of the kernel
    /// table, such as `direct`.
    ///
    /// # Errors
    /// As [`conv2d`]; [`Error::NoKernels`] if the named row does not support the problem.
    conv2d_with;

    /// [`conv2d`] for sequences: `x` is `(n, c, w)`, `weight` `(k, c / groups, s)`, the output `(n, k, q)`.
    /// All rules of `conv2d` hold.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor, ops, spec::{Conv1dSpec, Padding}};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &array![[[1.0f32, 2.0, 3.0, 4.0]]])?;
    /// let weight = Tensor::from_array(&stream, &array![[[1.0f32, 1.0, 1.0]]])?;
    /// let spec = Conv1dSpec::default().padding(Padding::Same);
    /// let y = ops::conv1d(&x, &weight, None, &spec)?;
    /// assert_eq!(y.to_array::<f32>()?, array![[[3.0, 6.0, 9.0, 7.0]]].into_dyn());
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    ///
    /// As
    /// [`torch.nn.functional.conv1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv1d.html).
    conv1d(Conv1dSpec) = Layer::Conv1d(ConvLayer);
    /// [`conv1d`] with options for the choice of kernels, as [`conv2d_with`].
    ///
    /// # Errors
    /// As [`conv2d_with`].
    conv1d_with;

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
    conv3d(Conv3dSpec) = Layer::Conv3d(ConvLayer);
    /// [`conv3d`] with options for the choice of kernels, as [`conv2d_with`].
    ///
    /// # Errors
    /// As [`conv2d_with`].
    conv3d_with;

    /// `y[n, k, p, q] = bias[k] +` the sum of all `weight[c, k, r, s] * x[n, c, h, w]` with `p = h * stride -
    /// padding + r * dilation`, `q` likewise: the gradient of a convolution by its input, also called
    /// deconvolution.
    ///
    /// *Shapes*: `x` is `(n, c, h, w)`, `weight` `(c, k / groups, r, s)`, `bias`, optional, `(k)`; the output
    /// is `(n, k, p, q)` with `p = (h - 1) stride - 2 padding + dilation (r - 1) + output_padding + 1`.
    ///
    /// Without a batch, `x` is `(c, h, w)` and the output `(k, p, q)`.
    ///
    /// *Numerics*: all outputs whose positions have the same residue modulo the stride form an ordinary
    /// convolution with a subset of the taps. Its numerics are those of [`conv2d`], with the largest number
    /// of taps of an output. On the CPU device the terms of a sum are added tap by tap. *NaN* and infinities
    /// spread to every output that sums a product with them. An output without products is the bias.
    ///
    /// # Errors
    /// [`Error::Spec`]: attributes that PyTorch refuses, such as an output padding that neither stride nor
    /// dilation exceeds; padding that leaves no output. [`Error::DTypeMismatch`], [`Error::DeviceMismatch`].
    /// [`Error::NoKernels`] on a GPU for a stride or a dilation of more than 32,767.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor, ops, spec::ConvTranspose2dSpec};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &array![[[[1.0f32, 2.0]]]])?;
    /// let weight = Tensor::from_array(&stream, &array![[[[1.0f32, 10.0], [100.0, 1000.0]]]])?;
    /// let spec = ConvTranspose2dSpec::default().stride(2);
    /// let y = ops::conv_transpose2d(&x, &weight, None, &spec)?.to_array::<f32>()?;
    /// let expected = array![[[[1.0, 10.0, 2.0, 20.0], [100.0, 1000.0, 200.0, 2000.0]]]];
    /// assert_eq!(y, expected.into_dyn());
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    ///
    /// As
    /// [`torch.nn.functional.conv_transpose2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose2d.html).
    conv_transpose2d(ConvTranspose2dSpec) = Layer::ConvTranspose2d(ConvTransposeLayer);
    /// [`conv_transpose2d`] with options for the choice of kernels, as for a model with this one layer. The
    /// CPU backend ignores them.
    ///
    /// # Errors
    /// As [`conv_transpose2d`]; [`Error::NoKernels`] if the named row does not support the problem.
    conv_transpose2d_with;

    /// [`conv_transpose2d`] for sequences: `x` is `(n, c, w)`, `weight` `(c, k / groups, s)`, the output
    /// `(n, k, q)`. All rules of `conv_transpose2d` hold.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor, ops, spec::ConvTranspose1dSpec};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &array![[[1.0f32, 2.0, 3.0]]])?;
    /// let weight = Tensor::from_array(&stream, &array![[[1.0f32, 10.0, 100.0]]])?;
    /// let spec = ConvTranspose1dSpec::default().stride(2).padding(1);
    /// let y = ops::conv_transpose1d(&x, &weight, None, &spec)?;
    /// assert_eq!(y.to_array::<f32>()?, array![[[10.0, 102.0, 20.0, 203.0, 30.0]]].into_dyn());
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    ///
    /// As
    /// [`torch.nn.functional.conv_transpose1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose1d.html).
    conv_transpose1d(ConvTranspose1dSpec) = Layer::ConvTranspose1d(ConvTransposeLayer);
    /// [`conv_transpose1d`] with options for the choice of kernels, as [`conv_transpose2d_with`].
    ///
    /// # Errors
    /// As [`conv_transpose2d_with`].
    conv_transpose1d_with;

    /// [`conv_transpose2d`] with a depth: `x` is `(n, c, d, h, w)`, `weight` `(c, k / groups, t, r, s)`, the
    /// output `(n, k, z, p, q)`. All rules of `conv_transpose2d` hold.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor, ops, spec::ConvTranspose3dSpec};
    /// use ndarray::{Array5, array};
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 1, 2, 3, 4)))?;
    /// let weight = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 1, 2, 2, 2)))?;
    /// let bias = Tensor::from_array(&stream, &array![0.5f32])?;
    /// let spec = ConvTranspose3dSpec::default().stride(2);
    /// let y = ops::conv_transpose3d(&x, &weight, Some(&bias), &spec)?;
    /// assert_eq!(y.shape(), [1, 1, 4, 6, 8]);
    /// assert!(y.to_array::<f32>()?.iter().all(|&value| value == 1.5));
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    ///
    /// As
    /// [`torch.nn.functional.conv_transpose3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose3d.html).
    conv_transpose3d(ConvTranspose3dSpec) = Layer::ConvTranspose3d(ConvTransposeLayer);
    /// [`conv_transpose3d`] with options for the choice of kernels, as [`conv_transpose2d_with`].
    ///
    /// # Errors
    /// As [`conv_transpose2d_with`].
    conv_transpose3d_with;
}

/// `y[n, k] = bias[k] + sum over c of x[n, c] * weight[k, c]`, a convolution without spatial dimensions.
///
/// *Shapes*: `x` is `(n, c)` or `(c)`, `weight` `(k, c)`, `bias`, optional, `(k)`; the output is `(n, k)` or
/// `(k)`.
///
/// *Numerics*: as [`conv2d`] with one tap. *NaN* and infinities spread to all outputs of their sample.
///
/// # Errors
/// [`Error::Spec`] if the number of channels differs from that of `weight`. [`Error::DTypeMismatch`],
/// [`Error::DeviceMismatch`].
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0, 3.0]])?;
/// let weight = Tensor::from_array(&stream, &array![[1.0f32, 10.0, 100.0], [1.0, 1.0, 1.0]])?;
/// let bias = Tensor::from_array(&stream, &array![0.5f32, 0.0])?;
/// let y = ops::linear(&x, &weight, Some(&bias))?;
/// assert_eq!(y.to_array::<f32>()?, array![[321.5, 6.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.linear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html)
/// with one axis behind the batch.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    linear_with(x, weight, bias, &Options::default())
}

/// [`linear`] with options for the choice of kernels, as [`conv2d_with`].
///
/// # Errors
/// As [`conv2d_with`].
pub fn linear_with(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &Options,
) -> Result<Tensor> {
    with_or_without_batch(x, 2, |x| {
        let spec = ConvSpec::<0>::default();
        let problem = spec.problem(x.shape(), weight.shape(), shape_of(bias))?;
        let layer = Layer::linear(ConvSpec::<0>::OPERATOR, problem.c, problem.k);
        let layer = Layer::from(layer.bias(bias.is_some()));
        run_layer(
            (layer, LayerProblem::Linear(problem)),
            x,
            weight,
            bias,
            options,
        )
    })
}

/// Runs a layer, given with its problem, on `x`, which has a batch.
fn run_layer(
    (layer, problem): (Layer, LayerProblem),
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &Options,
) -> Result<Tensor> {
    let parameters = [("weight", Some(weight)), ("bias", bias)];
    let operator = layer.operator();
    if x.device().is_cpu() {
        return on_cpu(operator, x, &problem, &parameters);
    }
    let chain = Chain::new(x.shape()[1], [layer])?;
    let tensors = checked(operator, x, &parameters)?.into_iter().flatten();
    let model = Model::from_tensors(x.stream(), chain, tensors.collect(), x.dtype())?;
    model.forward_with(x, options)
}

//! Pointwise functions, and lists of them with residuals.
//!
//! To add a function, add a row to the list below. The CPU implementation is in `cpu/pointwise.rs`.

use kernels_gpu::pointwise::{POINTWISE, POINTWISE_KEPT, POINTWISE_RESIDUAL};
use launch_config::pointwise::Step;

use super::launching::{OwnKernels, Parameters, compute, single};
use super::pointwise_steps::push;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ArithmeticOp, ClampSpec, GeluApproximation, PointwiseProblem, PointwiseSpec};
use launch_config::pointwise::{Function, MAX_STEPS, OperandList, PointwiseList, shape};

/// `y = min(max(x, spec.min), spec.max)`, elementwise.
///
/// *Shapes*: any; the output has the input's shape.
///
/// *Numerics*: exact for f32; bounds are rounded to f32, results to the storage type.
///
/// *NaN* stays NaN. With `min > max` every number becomes `max`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) if both bounds are absent.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::ClampSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-2.0f32, 0.25, 7.0])?;
/// let y = ops::clamp(&x, &ClampSpec::new(0.0, None))?;
/// assert_eq!(y.to_array::<f32>()?, array![0.0, 0.25, 7.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.clamp`](https://docs.pytorch.org/docs/stable/generated/torch.clamp.html).
pub fn clamp(x: &Tensor, spec: &ClampSpec) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Clamp(*spec))
}

/// Defines pointwise functions. The comment before each is the specific part of its documentation: the
/// formula, the numerics and the treatment of NaN. The common part follows. The string after a function is
/// its name in PyTorch; the array is the result of the example's call for -1, 0 and 2.
macro_rules! pointwise {
    ($(
        $(#[$about:meta])+
        pub fn $name:ident($($attribute:ident: $type:ty),*) = $function:expr,
        $torch:literal, $call:literal => $results:literal;
    )*) => {$(
        $(#[$about])+
        ///
        /// *Shapes*: any; the output has the input's shape.
        ///
        /// # Errors
        /// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
        ///
        /// # Examples
        /// ```
        /// use convfuse::{Device, Tensor, ops, spec::GeluApproximation};
        /// use ndarray::array;
        ///
        /// let stream = Device::best().stream()?;
        /// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
        #[doc = concat!("let y = ops::", $call, "?.to_array::<f32>()?;")]
        #[doc = concat!("let expected = ", $results, ";")]
        /// assert!(y.iter().zip(&expected).all(|(y, expected): (&f32, &f32)| (y - expected).abs() < 1e-5));
        /// # Ok::<(), convfuse::Error>(())
        /// ```
        ///
        /// As
        #[doc = concat!("[`", $torch, "`](https://docs.pytorch.org/docs/stable/generated/", $torch, ".html).")]
        pub fn $name(x: &Tensor $(, $attribute: $type)*) -> Result<Tensor> {
            apply(x, &$function)
        }
    )*};
}

pointwise! {
    /// `y = max(x, 0)`, elementwise.
    ///
    /// *Numerics*: exact. -0 becomes 0 on a GPU and stays on the CPU, as in PyTorch 2.11.
    ///
    /// *NaN* stays NaN.
    ///
    /// In a chain, every kernel that supports [`clamp`] also supports `relu`, which is the clamp with the
    /// lower bound 0 and no upper bound.
    pub fn relu() = PointwiseSpec::Relu {},
        "torch.nn.functional.relu", "relu(&x)" => "[0.0, 0.0, 2.0]";

    /// `y = x` where `x > 0`, else `y = negative_slope * x`, elementwise.
    ///
    /// *Numerics*: exact above 0; elsewhere slope and product are rounded to f32, results to the storage
    /// type. The slope may be any number, also below 0 or above 1. The product follows IEEE 754 on a GPU and
    /// on the CPU, as in PyTorch. A slope of 0 turns minus infinity into NaN, and finite numbers below 0 into
    /// -0. A negative slope turns -0 into 0, and 0 into -0.
    ///
    /// *NaN* stays NaN.
    ///
    /// PyTorch's default slope is 0.01.
    pub fn leaky_relu(negative_slope: f64) = PointwiseSpec::LeakyRelu { negative_slope },
        "torch.nn.functional.leaky_relu", "leaky_relu(&x, 0.5)" => "[-0.5, 0.0, 2.0]";

    /// `y = x / (1 + e^-x)`, elementwise.
    ///
    /// *Numerics*: relative error up to 4 ulps of f32, also for tiny values. For 16-bit tensors up to `2^-16`
    /// before the result is rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives NaN (a product with 0), as in PyTorch on a GPU. Numbers far
    /// below 0, and -0, give -0.
    pub fn silu() = PointwiseSpec::Silu {},
        "torch.nn.functional.silu", "silu(&x)" => "[-0.268_941, 0.0, 1.761_594]";

    /// `y = x` times the cumulative normal distribution at `x`, elementwise.
    ///
    /// *Numerics*: relative error up to 6 ulps of f32, also far below 0, where PyTorch's `1 + erf(..)` loses
    /// all digits from about -5.5 on. For 16-bit tensors up to `2^-16` before the result is rounded to the
    /// storage type. `approximate` chooses between the exact distribution and PyTorch's tanh approximation.
    ///
    /// *NaN* stays NaN. Minus infinity gives NaN (a product with 0), as in PyTorch on a GPU. Numbers far
    /// below 0, and -0, give -0.
    pub fn gelu(approximate: GeluApproximation) = PointwiseSpec::Gelu { approximate },
        "torch.nn.functional.gelu", "gelu(&x, GeluApproximation::None)" => "[-0.158_655, 0.0, 1.954_5]";

    /// `y = 1 / (1 + e^-x)`, elementwise.
    ///
    /// *Numerics*: relative error up to 4 ulps of f32, also for tiny values. For 16-bit tensors up to `2^-16`
    /// before the result is rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives 0, and infinity gives 1.
    pub fn sigmoid() = PointwiseSpec::Sigmoid {},
        "torch.sigmoid", "sigmoid(&x)" => "[0.268_941, 0.5, 0.880_797]";

    /// `y = tanh(x)`, elementwise.
    ///
    /// *Numerics*: relative error up to 4 ulps of f32, also for tiny values. For 16-bit tensors up to `2^-16`
    /// before the result is rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives -1, infinity gives 1, and -0 gives -0.
    pub fn tanh() = PointwiseSpec::Tanh {},
        "torch.tanh", "tanh(&x)" => "[-0.761_594, 0.0, 0.964_028]";

    /// `y = x * min(max(x + 3, 0), 6) / 6`, elementwise.
    ///
    /// *Numerics*: relative error up to 3 ulps of f32, exact from 3 on. Unlike in PyTorch, no product
    /// overflows. Results are rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives NaN (a product with 0), as in PyTorch on a GPU. Numbers from -3
    /// down, and -0, give -0.
    pub fn hardswish() = PointwiseSpec::Hardswish {},
        "torch.nn.functional.hardswish", "hardswish(&x)" => "[-0.333_333, 0.0, 1.666_667]";

    /// `y = x` where `x > 0`, else `y = alpha * (e^x - 1)`, elementwise.
    ///
    /// *Numerics*: exact above 0; elsewhere relative error up to 3 ulps of f32, also near 0; results are
    /// rounded to the storage type. `alpha` may be any number.
    ///
    /// *NaN* stays NaN. Minus infinity gives `-alpha`, and -0 gives `-0 * alpha`.
    ///
    /// PyTorch's default `alpha` is 1.
    pub fn elu(alpha: f64) = PointwiseSpec::Elu { alpha },
        "torch.nn.functional.elu", "elu(&x, 1.0)" => "[-0.632_121, 0.0, 2.0]";

    /// `y = x` where `beta * x > threshold`, else `y = ln(1 + e^(beta * x)) / beta`, elementwise.
    ///
    /// *Numerics*: attributes are rounded to f32. The relative error is then up to 4 ulps of f32, also for
    /// tiny values. For 16-bit tensors it is up to `2^-16` before the result is rounded to the storage type.
    /// Unlike in PyTorch, `e^(beta * x)` does not overflow for a threshold above 88.
    ///
    /// *NaN* stays NaN. Minus infinity gives 0. `beta` and `threshold` may be any numbers.
    ///
    /// PyTorch's defaults are 1 and 20.
    pub fn softplus(beta: f64, threshold: f64) = PointwiseSpec::Softplus { beta, threshold },
        "torch.nn.functional.softplus", "softplus(&x, 1.0, 20.0)" => "[0.313_262, 0.693_147, 2.126_928]";

    /// `y = x * tanh(ln(1 + e^x))`, elementwise.
    ///
    /// *Numerics*: relative error up to 5 ulps of f32, also for tiny values. For 16-bit tensors up to `2^-16`
    /// before the result is rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives NaN (a product with 0), as in PyTorch on a GPU. Numbers far
    /// below 0, and -0, give -0.
    pub fn mish() = PointwiseSpec::Mish {},
        "torch.nn.functional.mish", "mish(&x)" => "[-0.303_401, 0.0, 1.943_959]";

    /// `y = min(max(x, min_val), max_val)`, elementwise.
    ///
    /// *Numerics*: as [`clamp`]. A `min_val` above `max_val` is refused.
    ///
    /// *NaN* stays NaN.
    ///
    /// PyTorch's defaults are -1 and 1.
    pub fn hardtanh(min_val: f64, max_val: f64) = PointwiseSpec::Hardtanh { min_val, max_val },
        "torch.nn.functional.hardtanh", "hardtanh(&x, -0.5, 1.0)" => "[-0.5, 0.0, 1.0]";

    /// `y = min(max(x + 3, 0), 6) / 6`, elementwise.
    ///
    /// *Numerics*: relative error up to 3 ulps of f32; results are rounded to the storage type.
    ///
    /// *NaN* stays NaN. Minus infinity gives 0, and infinity gives 1.
    pub fn hardsigmoid() = PointwiseSpec::Hardsigmoid {},
        "torch.nn.functional.hardsigmoid", "hardsigmoid(&x)" => "[0.333_333, 0.5, 0.833_333]";

    /// `y = min(x, value)`, elementwise.
    ///
    /// *Numerics*: exact for f32; `value` is rounded to f32, results to the storage type.
    ///
    /// *NaN* stays NaN, and a `value` that is NaN makes all of `y` NaN.
    pub fn minimum(value: f64) = PointwiseSpec::Minimum { value },
        "torch.minimum", "minimum(&x, 0.5)" => "[-1.0, 0.0, 0.5]";

    /// `y = max(x, value)`, elementwise.
    ///
    /// *Numerics*: exact for f32; `value` is rounded to f32, results to the storage type.
    ///
    /// *NaN* stays NaN, and a `value` that is NaN makes all of `y` NaN.
    pub fn maximum(value: f64) = PointwiseSpec::Maximum { value },
        "torch.maximum", "maximum(&x, 0.5)" => "[0.5, 0.5, 2.0]";
}

/// Runs any pointwise function.
pub(crate) fn apply(x: &Tensor, function: &PointwiseSpec) -> Result<Tensor> {
    single(function.operator(), x, function.problem(x.shape())?, &[])
}

/// A step of a list: a function, or an operation with a residual. `R` is the residual's handle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListStep<R> {
    Function(PointwiseProblem),
    /// Keeps a value for later steps. `Kept` is an operation with that value.
    Keep,
    Kept(ArithmeticOp),
    Residual(ArithmeticOp, R),
}

impl<R> ListStep<R> {
    /// Converts the handle of the step's residual.
    pub(crate) fn try_map<S>(self, of: impl FnOnce(R) -> Result<S>) -> Result<ListStep<S>> {
        Ok(match self {
            ListStep::Function(problem) => ListStep::Function(problem),
            ListStep::Keep => ListStep::Keep,
            ListStep::Kept(operation) => ListStep::Kept(operation),
            ListStep::Residual(operation, residual) => ListStep::Residual(operation, of(residual)?),
        })
    }
}

/// Whether every launch that reads a kept value has kept it itself.
pub(crate) fn keeps_in_launches<R: Copy>(steps: &[ListStep<R>]) -> bool {
    let mut steps = steps;
    while !steps.is_empty() {
        let (list, _, rest) = first_list(steps);
        let mut functions = list.functions.steps()[..list.functions.len()].iter();
        let first =
            functions.find(|step| step.function == Function::Keep || step.function.takes_kept());
        if first.is_some_and(|step| step.function.takes_kept()) {
            return false;
        }
        steps = rest;
    }
    true
}

/// Functions as the steps of a list.
pub(crate) fn steps(functions: &[PointwiseProblem]) -> Vec<ListStep<Value>> {
    functions.iter().copied().map(ListStep::Function).collect()
}

/// Splits off the first steps, as many as a list can hold. Returns the list, its residual, and the remaining
/// steps.
pub(crate) fn first_list<R: Copy>(
    steps: &[ListStep<R>],
) -> (OperandList, Option<R>, &[ListStep<R>]) {
    let mut functions = Vec::new();
    let (mut residual, mut list) = (None, OperandList::EMPTY);
    // Steps before a residual are not simplified together with steps after it.
    let (mut taken, mut from) = (0, 0);
    for step in steps {
        let mut longer = functions.clone();
        match step {
            ListStep::Function(problem) => push(&mut longer, from, Step::of(&problem.function)),
            ListStep::Keep => longer.push(Step::plain(Function::Keep)),
            ListStep::Kept(operation) => longer.push(Step::plain(Function::of_kept(*operation))),
            ListStep::Residual(operation, of) if residual.is_none() => {
                residual = Some(*of);
                from = functions.len();
                list.residual_at = from as u32;
                list.residual_operation = *operation;
            }
            ListStep::Residual(..) => break,
        }
        if longer.len() > MAX_STEPS {
            break;
        }
        functions = longer;
        taken += 1;
    }
    list.functions = PointwiseList::take(&mut functions.into_iter());
    (list, residual, &steps[taken..])
}

/// Appends the steps of a list to a program, in as few launches as lists can hold them.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    steps: &[ListStep<Value>],
) -> Result<Value> {
    let (mut value, mut steps) = (x, steps);
    let extents = program.shape(x).iter();
    let len: u64 = extents.map(|&extent| extent as u64).product();
    let (label, shape) = (program.label(x), shape(len));
    while !steps.is_empty() {
        let (list, residual, rest) = first_list(steps);
        let y = program.tensor_like(value)?;
        let arguments = (value, residual, y, len, list);
        // SAFETY: all values have `len` elements.
        value = unsafe {
            match residual {
                _ if list.functions.keeps().is_present() => {
                    compute(program, &POINTWISE_KEPT, &label, shape, y, arguments)?
                }
                Some(_) => compute(program, &POINTWISE_RESIDUAL, &label, shape, y, arguments)?,
                None => {
                    let arguments = (value, y, len, list.functions);
                    compute(program, &POINTWISE, &label, shape, y, arguments)?
                }
            }
        };
        steps = rest;
    }
    Ok(value)
}

impl OwnKernels for PointwiseProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
        append(program, x, &[ListStep::Function(*self)])
    }
}

//! Arithmetic: the other operand is a constant, a parameter that is broadcast, or a tensor of the same shape.

use kernels_gpu::arithmetic::FOLD_ARITHMETIC;
use launch_config::KernelGeometry;
use launch_config::arithmetic::ArithmeticFold;
use launch_config::elementwise::fold_shape;

use super::batch_norm;
use super::batch_norm_parameters::Folded;
use super::launching::{OwnKernels, Parameters, first, single};
use super::pointwise::{self, ListStep, apply};
use super::preparation::{Preparation, Preparations, prepared};
use super::scale;
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{
    ArithmeticOp, ArithmeticOperand, ArithmeticProblem, ArithmeticSpec, PointwiseSpec, ScaleProblem,
};

/// The other operand of arithmetic: a number, or a tensor.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Other<'a> {
    /// A number, which is rounded to f32.
    Value(f64),
    /// A tensor.
    Tensor(&'a Tensor),
}

impl From<f64> for Other<'_> {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl<'a> From<&'a Tensor> for Other<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

/// Defines the arithmetic operators. The comment before each is the specific part of its documentation. The
/// string is the call in the example, and the array is its result for 1, 2 and 3.
macro_rules! arithmetic {
    ($(
        $(#[$about:meta])+
        pub fn $name:ident = $Operation:ident, $call:literal => $results:literal;
    )*) => {$(
        $(#[$about])+
        ///
        /// *Shapes*: any; the output has the input's shape. `other` is a number, a tensor of the shape of
        /// `x`, or a tensor that PyTorch broadcasts to `x`, with one element or one for each channel:
        /// `(c, 1, 1)` or `(1, c, 1, 1)` for images.
        ///
        /// *NaN*, infinities and the sign of zeros follow IEEE 754.
        ///
        /// # Errors
        /// [`Error::Spec`](crate::Error::Spec) for other shapes,
        /// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
        /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
        ///
        /// # Examples
        /// ```
        /// use convfuse::{Device, Tensor, ops};
        /// use ndarray::array;
        ///
        /// let stream = Device::best().stream()?;
        /// let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0, 3.0]])?;
        /// let other = Tensor::from_array(&stream, &array![0.5f32, -2.0, 1.0])?;
        #[doc = concat!("let y = ops::", $call, "?;")]
        #[doc = concat!("assert_eq!(y.to_array::<f32>()?, array![", $results, "].into_dyn());")]
        /// # Ok::<(), convfuse::Error>(())
        /// ```
        ///
        /// As
        #[doc = concat!("[`torch.", stringify!($name), "`](https://docs.pytorch.org/docs/stable/generated/torch.", stringify!($name), ".html).")]
        pub fn $name<'a>(x: &Tensor, other: impl Into<Other<'a>>) -> Result<Tensor> {
            match other.into() {
                Other::Value(value) => apply(x, &PointwiseSpec::$Operation { value }),
                Other::Tensor(other) => with_tensor(x, ArithmeticOp::$Operation, other),
            }
        }
    )*};
}

arithmetic! {
    /// `y = x + other`, element by element.
    ///
    /// *Numerics*: one rounding, and one to the storage type. A number is rounded to f32.
    pub fn add = Add, "add(&x, &other)" => "[1.5, 0.0, 4.0]";

    /// `y = x - other`, element by element.
    ///
    /// *Numerics*: one rounding, and one to the storage type. A number is rounded to f32.
    pub fn sub = Sub, "sub(&x, &other)" => "[0.5, 4.0, 2.0]";

    /// `y = x * other`, element by element.
    ///
    /// *Numerics*: one rounding, and one to the storage type. A number is rounded to f32.
    pub fn mul = Mul, "mul(&x, &other)" => "[0.5, -4.0, 3.0]";

    /// `y = x / other`, element by element.
    ///
    /// *Numerics*: for a tensor of the shape of `x`, one rounding, and one to the storage type. Otherwise the
    /// result is a product with `1 / other`. Reciprocal and product are rounded to f32, as in PyTorch's
    /// quotient by a number on a GPU, and then to the storage type; the last bit may differ from the exact
    /// quotient's. The reciprocal of a number below `2^-128` is infinite.
    pub fn div = Div, "div(&x, &other)" => "[2.0, -1.0, 3.0]";
}

fn with_tensor(x: &Tensor, operation: ArithmeticOp, other: &Tensor) -> Result<Tensor> {
    let problem = ArithmeticSpec::new(operation).problem(x.shape(), other.shape())?;
    let parameters = [("other", Some(other))];
    single(operation.name(), x, problem, &parameters)
}

/// Returns the problem as a product with one factor per channel, if it is one.
fn as_scale(problem: &ArithmeticProblem) -> Option<ScaleProblem> {
    match problem.operand {
        ArithmeticOperand::Channels { shape, values }
            if problem.operation == ArithmeticOp::Mul && values == shape.c =>
        {
            Some(ScaleProblem::new(shape))
        }
        _ => None,
    }
}

/// Appends the launch that folds the other operand into a gain and a shift for each channel, applied after
/// those of `before`.
fn fold(
    program: &mut ProgramBuilder,
    other: Value,
    before: Option<Folded>,
    problem: &ArithmeticProblem,
) -> Result<Folded> {
    let geometry = ArithmeticFold::of(problem, before.is_some())?;
    let gain = program.tensor(&[geometry.channels as usize], DType::F32)?;
    let shift = program.tensor_like(gain)?;
    let [from_gain, from_shift] = [before.map(|of| of.gain), before.map(|of| of.shift)];
    let (label, fold) = (program.label(other), fold_shape(geometry.channels));
    let arguments = (other, from_gain, from_shift, gain, shift, geometry);
    // SAFETY: gains and shifts have an element for each channel, and `other` has the geometry's number of
    // elements.
    unsafe { program.launch(&FOLD_ARITHMETIC, &label, fold, arguments)? }
    Ok(Folded { gain, shift })
}

/// Returns the gain and the shift of the arithmetic layer `layer` of a chain, combined with those of
/// `before`, whose first layer is `first`. They are [prepared] from the parameter.
pub(crate) fn folded(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    [first, layer]: [usize; 2],
    other: Value,
    before: Option<Folded>,
    problem: &ArithmeticProblem,
) -> Result<Folded> {
    let known = [
        Some(other),
        before.map(|of| of.gain),
        before.map(|of| of.shift),
    ];
    let append = |program: &mut ProgramBuilder, [other, gain, shift]: [Option<Value>; 3]| {
        let other = other.expect("the parameter is not optional");
        let before = gain.zip(shift).map(|(gain, shift)| Folded { gain, shift });
        let Folded { gain, shift } = fold(program, other, before, problem)?;
        Ok([gain, shift])
    };
    let of = (layer, Preparation::FoldedArithmetic { first });
    let [gain, shift] = prepared(program, preparations, of, known, append)?;
    Ok(Folded { gain, shift })
}

/// Appends the operator to a program, including the folding of its parameter.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    other: Value,
    problem: &ArithmeticProblem,
) -> Result<Value> {
    if let ArithmeticOperand::Elements(_) = problem.operand {
        let step = ListStep::Residual(problem.operation, other);
        return pointwise::append(program, x, &[step]);
    }
    if let Some(problem) = as_scale(problem) {
        return scale::append(program, x, other, &problem);
    }
    if program.bytes(&[x]) == 0 {
        return program.tensor_like(x);
    }
    let folded = fold(program, other, None, problem)?;
    batch_norm::append_folded(program, x, folded, problem.geometry()?)
}

impl OwnKernels for ArithmeticProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        append(program, x, first(given), self)
    }
}

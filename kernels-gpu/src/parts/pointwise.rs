//! The pointwise functions, and lists of them.
//!
//! A list is interpreted step by step. All threads take the same branches, and each step is applied to
//! several values, which share the cost of its branch.
//!
//! A new function is an arm of `step`. Functions with exponentials are computed to the accuracy of a type
//! `A`: with a relative error of a few ulps everywhere for f32 (`exponential`), and of `2^-16` for 16-bit
//! types (`coarse`). It is the type of stored results, or a 16-bit type for results of products in 11 bits.

use cuda_std::global::Global;
use cuda_std::math::{self, fma};
use cuda_std::{Storage, opaque};
use launch_config::elementwise::Bounds;
use launch_config::pointwise::{Function, MAX_STEPS, OperandList, PointwiseList, Step};
use op_spec::ArithmeticOp;

use super::coarse;
use super::exponential::{Exponential, exp_less_one, ln_of_one_and, scaled_tail, with_sign};
use super::map::clamp;
use super::unroll::unroll;

/// The most values that a list is applied to at a time.
const MAX_VALUES: usize = 32;

/// The list of a kernel. The variant is a compile-time constant of each kernel.
#[derive(Clone, Copy)]
pub(crate) enum List<'a, T> {
    Functions(&'a PointwiseList),
    WithResidual(&'a OperandList, Global<T>),
}

/// Storage for the value that a list keeps for later steps.
pub(crate) trait Keeps<const N: usize> {
    /// Keeps values, which replace the values kept before.
    fn keep(&mut self, values: [f32; N]);

    /// Applies `f` to each value and its kept value. Lists that keep nothing never need it.
    fn with_kept(&self, values: [f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N];
}

/// The second operands of an operation on values.
pub(crate) trait Others<const N: usize>: Copy {
    /// Applies `f` to each value and its counterpart.
    fn with_values(&self, values: [f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N];
}

impl<const N: usize> Others<N> for [f32; N] {
    #[inline(always)]
    fn with_values(&self, values: [f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N] {
        both(values, *self, f)
    }
}

/// Storage for lists that keep nothing.
pub(crate) struct KeepsNothing;

/// Keeps one value in a register for each value of the list.
pub(crate) struct InRegisters<const N: usize>(pub(crate) [f32; N]);

impl<const N: usize> Keeps<N> for KeepsNothing {
    #[inline(always)]
    fn keep(&mut self, _: [f32; N]) {}

    #[inline(always)]
    fn with_kept(&self, values: [f32; N], _: impl Fn(f32, f32) -> f32) -> [f32; N] {
        values
    }
}

impl<const N: usize> Keeps<N> for InRegisters<N> {
    #[inline(always)]
    fn keep(&mut self, values: [f32; N]) {
        self.0 = values;
    }

    #[inline(always)]
    fn with_kept(&self, values: [f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N] {
        both(values, self.0, f)
    }
}

/// Applies a list to values, to the accuracy of `A`.
///
/// All threads of a warp should call it together with the same list; threads of different warps need not.
#[inline(always)]
pub(crate) fn apply<A: Storage, const N: usize>(
    list: &PointwiseList,
    values: [f32; N],
) -> [f32; N] {
    let mut values = values;
    let mut at = 0;
    while at < list.len() {
        values = step::<A, N, _>(nth(list, at), values, &mut KeepsNothing);
        at += 1;
    }
    values
}

/// [`apply`] for a list with operands: a residual of each value, and a function that returns the gain and the
/// shift of each. An operand is `None` if the caller's lists never have it. The list keeps values in `keeps`.
#[inline(always)]
pub(crate) fn apply_with<A: Storage, const N: usize>(
    list: &OperandList,
    values: [f32; N],
    residual: Option<impl Others<N>>,
    of_channels: Option<impl Fn() -> [[f32; 2]; N] + Copy>,
    mut keeps: impl Keeps<N>,
) -> [f32; N] {
    let mut values = values;
    let mut at = 0;
    loop {
        if let Some(residual) = residual
            && at == list.residual_at
        {
            values = with_others(list.residual_operation, values, residual);
        }
        if let Some(of_channels) = of_channels
            && at == list.affine_at
        {
            let of_channels = of_channels();
            unroll!(32, |i| {
                if i < N {
                    let [gain, shift] = of_channels[i];
                    values[i] = fma(gain, values[i], shift);
                }
            });
        }
        if at as usize == list.functions.len() {
            return values;
        }
        let mut next = nth(&list.functions, at as usize);
        if residual.is_some() {
            // Loaded together with the other attributes. A load after the branches would use one of eight
            // addresses, for which the compiler would copy the list to local memory.
            next.attributes[2] = f32::from_bits(opaque::to_compiler(next.attributes[2].to_bits()));
        }
        values = step::<A, N, _>(next, values, &mut keeps);
        at += 1;
    }
}

/// [`apply_with`] for a list without gain and shift.
#[inline(always)]
pub(crate) fn apply_with_residual<A: Storage, const N: usize>(
    list: &OperandList,
    values: [f32; N],
    residual: [f32; N],
    keeps: impl Keeps<N>,
) -> [f32; N] {
    let none = None::<fn() -> [[f32; 2]; N]>;
    apply_with::<A, N>(list, values, Some(residual), none, keeps)
}

/// Returns step `at` through branches: an array with a variable index would be copied to each thread's local
/// memory.
#[inline(always)]
fn nth(list: &PointwiseList, at: usize) -> Step {
    const { assert!(MAX_STEPS == 8) };
    let steps = list.steps();
    match at {
        0 => steps[0],
        1 => steps[1],
        2 => steps[2],
        3 => steps[3],
        4 => steps[4],
        5 => steps[5],
        6 => steps[6],
        _ => steps[7],
    }
}

/// Applies one step to the values. It is not inlined on hosts, where one copy is enough.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
fn step<A: Storage, const N: usize, K: Keeps<N>>(
    step: Step,
    values: [f32; N],
    keeps: &mut K,
) -> [f32; N] {
    let [a, b, c] = step.attributes;
    match step.function {
        Function::Clamp => each(values, |x| clamp(Bounds { min: a, max: b }, x)),
        Function::LeakyRelu => each(values, |x| if x > 0.0 { x } else { x * a }),
        Function::Silu => each(values, silu::<A>),
        Function::Gelu => each(values, gelu::<A>),
        Function::GeluTanh => each(values, gelu_tanh::<A>),
        Function::Sigmoid => each(values, sigmoid::<A>),
        Function::Tanh => each(values, tanh::<A>),
        Function::Hardswish => each(values, hardswish),
        Function::Elu => each(values, |x| {
            // Computed unconditionally, which avoids a branch.
            let less_one = match coarse::suffices::<A>() {
                true => coarse::exp_less_one(x),
                false => exp_less_one(x),
            };
            let below = less_one * a;
            if x > 0.0 { x } else { below }
        }),
        Function::Softplus => each(values, |x| softplus::<A>(x, a, b, c)),
        Function::Mish => each(values, mish::<A>),
        Function::Hardsigmoid => each(values, hardsigmoid),
        Function::Affine => each(values, |x| fma(x, a, b)),
        Function::Keep => {
            keeps.keep(values);
            values
        }
        Function::AddKept => keeps.with_kept(values, |x, other| x + other),
        Function::SubKept => keeps.with_kept(values, |x, other| x - other),
        Function::MulKept => keeps.with_kept(values, |x, other| x * other),
        Function::DivKept => keeps.with_kept(values, |x, other| x / other),
    }
}

/// Applies an operation to values, with `others` as its second operands.
#[inline(always)]
fn with_others<const N: usize>(
    operation: ArithmeticOp,
    values: [f32; N],
    others: impl Others<N>,
) -> [f32; N] {
    match operation {
        ArithmeticOp::Add => others.with_values(values, |x, other| x + other),
        ArithmeticOp::Sub => others.with_values(values, |x, other| x - other),
        ArithmeticOp::Mul => others.with_values(values, |x, other| x * other),
        _ => others.with_values(values, |x, other| x / other),
    }
}

/// Applies `f` to each value and its counterpart in `others`.
#[inline(always)]
fn both<const N: usize>(
    mut values: [f32; N],
    others: [f32; N],
    f: impl Fn(f32, f32) -> f32,
) -> [f32; N] {
    const { assert!(N <= MAX_VALUES) };
    unroll!(32, |i| {
        if i < N {
            values[i] = f(values[i], others[i]);
        }
    });
    values
}

/// Applies `f` to each value.
#[inline(always)]
fn each<const N: usize>(mut values: [f32; N], f: impl Fn(f32) -> f32) -> [f32; N] {
    const { assert!(N <= MAX_VALUES) };
    unroll!(32, |i| {
        if i < N {
            values[i] = f(values[i]);
        }
    });
    values
}

/// `x` times a share: `above` if `x >= 0`, else `below` times the exponential.
#[inline(always)]
fn share(x: f32, exponential: Exponential, above: f32, below: f32) -> f32 {
    if x < 0.0 {
        exponential.times(x, below)
    } else {
        x * above
    }
}

/// `1 / (1 + e^-x)`, or `e^x / (1 + e^x)`.
#[inline(always)]
fn sigmoid<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::sigmoid(x);
    }
    let exponential = Exponential::of(-math::abs(x));
    let above = math::reciprocal_normal(exponential.and_one());
    if x < 0.0 {
        exponential.times(1.0, above)
    } else {
        above
    }
}

/// `x / (1 + e^-x)`. Minus infinity gives NaN, like its product with 0.
#[inline(always)]
pub(crate) fn silu<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return x * coarse::sigmoid(x);
    }
    let exponential = Exponential::of(-math::abs(x));
    let above = math::reciprocal_normal(exponential.and_one());
    share(x, exponential, above, above)
}

/// `x` times the cumulative distribution function of the standard normal distribution.
#[inline(always)]
fn gelu<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::gelu(x);
    }
    let magnitude = math::abs(x);
    let exponential = Exponential::of_product(magnitude, -0.5 * magnitude, NOTHING);
    // Beyond 16 the exponential is 0, but an infinite magnitude would give infinity less infinity.
    let tail = scaled_tail(math::min(magnitude, 16.0));
    share(x, exponential, fma(-exponential.value(), tail, 1.0), tail)
}

/// `x * (1 + tanh(u)) / 2` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, which is `x / (1 + e^(-2 u))`.
#[inline(always)]
fn gelu_tanh<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::gelu_tanh(x);
    }
    /// `2 sqrt(2 / pi)`: a multiple of 2^-20, and the remainder.
    const LINEAR: [f32; 2] = [1.595_768_9, 1.930_779e-7];
    /// 0.044715 times that constant, and its rounding error in f32.
    const CUBIC: [f32; 2] = [0.071_354_814, 2.398_832_5e-9];
    // `2 u / x` in two parts. The difference in the second part is exact while the sum is below 16; above,
    // e^(-2 u) is 0.
    let square = x * x;
    let factor = fma(CUBIC[0], square, LINEAR[0]);
    let lost = fma(CUBIC[0], square, LINEAR[0] - factor);
    let square_lost = fma(x, x, -square);
    let lost = lost + fma(CUBIC[0], square_lost, fma(CUBIC[1], square, LINEAR[1]));
    let down = -math::abs(x);
    let exponential = Exponential::of_product(down, factor, down * lost);
    let above = math::reciprocal_normal(exponential.and_one());
    share(x, exponential, above, above)
}

/// `(1 - e^(-2 x)) / (1 + e^(-2 x))` of the magnitude, with the sign of `x`.
#[inline(always)]
fn tanh<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::tanh(x);
    }
    let less_one = exp_less_one(-2.0 * math::abs(x));
    with_sign(less_one * math::reciprocal_normal(less_one + 2.0), x)
}

/// `x` times its hardsigmoid. Minus infinity gives NaN.
#[inline(always)]
pub(crate) fn hardswish(x: f32) -> f32 {
    x * hardsigmoid(x)
}

/// A sixth of `x + 3` between 0 and 6.
#[inline(always)]
fn hardsigmoid(x: f32) -> f32 {
    let bounds = Bounds { min: 0.0, max: 6.0 };
    clamp(bounds, x + 3.0) * (1.0 / 6.0)
}

/// `ln(1 + e^(beta x)) / beta`, or `x` if `beta x` is above the threshold.
#[inline(always)]
fn softplus<A: Storage>(x: f32, beta: f32, threshold: f32, beta_reciprocal: f32) -> f32 {
    let product = x * beta;
    let rest = if coarse::suffices::<A>() {
        coarse::ln_of_one_and(coarse::exponential(-math::abs(product)))
    } else {
        let exponential = Exponential::of_product(-math::abs(x), math::abs(beta), NOTHING);
        ln_of_one_and(exponential.value())
    };
    let value = (math::max(product, 0.0) + rest) * beta_reciprocal;
    if product > threshold { x } else { value }
}

/// `x tanh(ln(1 + e^x))`. The hyperbolic tangent is `(1 + 2 e) / (1 + 2 e + 2 e^2)` with `e = e^-x`, or
/// `e (e + 2) / (e (e + 2) + 2)` with `e = e^x`. Minus infinity gives NaN.
#[inline(always)]
fn mish<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::mish(x);
    }
    let exponential = Exponential::of(-math::abs(x));
    let e = exponential.value();
    let (over, under) = if x < 0.0 {
        (e + 2.0, fma(e, e + 2.0, 2.0))
    } else {
        let over = fma(e, 2.0, 1.0);
        (over, fma(2.0 * e, e, over))
    };
    let quotient = over * math::reciprocal_normal(under);
    share(x, exponential, quotient, quotient)
}

/// A summand that changes no number, not even -0.
const NOTHING: f32 = -0.0;

//! The operations of reductions.
//!
//! A new operation is a type in this module and an instance in `of_each_operation!`. `op_spec::ReductionOp`
//! defines it for values in any order, under the name of the instance.

use cuda_std::math;

use crate::parts::exponential::{exponential, ln_from_one};
use crate::parts::unroll::unroll;

/// A reduction of several values.
pub(crate) trait ReductionOperation {
    /// The partial result of a set of values.
    type State: Copy;

    /// The state of no values.
    const NONE: Self::State;

    /// Adds a value to a state.
    fn and_value(state: Self::State, value: f32) -> Self::State;

    /// Adds four values to a state, in this order. An operation that can do so with fewer instructions has
    /// its own.
    #[inline(always)]
    fn and_values(mut state: Self::State, values: [f32; 4]) -> Self::State {
        unroll!(4, |i| {
            state = Self::and_value(state, values[i]);
        });
        state
    }

    /// Combines two states.
    fn and(a: Self::State, b: Self::State) -> Self::State;

    /// Applies `of` to each number of a state, for example to fetch another lane's.
    fn map(state: Self::State, of: impl Fn(f32) -> f32) -> Self::State;

    /// One value that represents the state in a further step.
    fn partial(state: Self::State) -> f32;

    /// Adds the partial result of other values to a state. An operation that transforms the values has its
    /// own.
    #[inline(always)]
    fn and_partial(state: Self::State, partial: f32) -> Self::State {
        Self::and_value(state, partial)
    }

    /// The result; a mean divides by the divisor.
    #[inline(always)]
    fn finish(state: Self::State, _divisor: f32) -> f32 {
        Self::partial(state)
    }
}

/// Operations whose state is a single value.
macro_rules! of_values {
    ($(
        $(#[$doc:meta])*
        $Operation:ident from $none:expr, |$a:ident, $b:ident| $both:expr
        $(, |$combined:ident, $divisor:ident| $finished:expr)?;
    )+) => {$(
        $(#[$doc])*
        pub(crate) struct $Operation;

        impl ReductionOperation for $Operation {
            type State = f32;

            const NONE: f32 = $none;

            #[inline(always)]
            fn and_value(state: f32, value: f32) -> f32 {
                Self::and(state, value)
            }

            #[inline(always)]
            fn and($a: f32, $b: f32) -> f32 {
                $both
            }

            #[inline(always)]
            fn map(state: f32, of: impl Fn(f32) -> f32) -> f32 {
                of(state)
            }

            #[inline(always)]
            fn partial(state: f32) -> f32 {
                state
            }

            $(#[inline(always)]
            fn finish($combined: f32, $divisor: f32) -> f32 {
                $finished
            })?
        }
    )+};
}

of_values! {
    /// The maximum; NaN wins.
    Max from f32::NEG_INFINITY, |a, b| math::max_nan(a, b);
    /// The minimum; NaN wins.
    Min from f32::INFINITY, |a, b| math::min_nan(a, b);
    /// The sum.
    Sum from 0.0, |a, b| a + b;
    /// The sum, divided by the number of values.
    Mean from 0.0, |a, b| a + b, |combined, divisor| combined / divisor;
}

/// The logarithm of the sum of exponentials. The state is the largest value and the sum of `e^(x - largest)`,
/// which a larger value rescales: once for four values. Two infinities of the same sign count as equal.
pub(crate) struct LogSumExp;

impl LogSumExp {
    /// `e^-|a - b|`.
    #[inline(always)]
    fn ratio(a: f32, b: f32) -> f32 {
        if a == b {
            1.0
        } else {
            exponential::<f32>(-math::abs(a - b))
        }
    }

    /// `e^(x - largest)`, where `largest` is at least `x`. The difference of equal infinities is NaN, which
    /// the minimum drops, as it drops that of a NaN: a NaN in `largest` decides.
    #[inline(always)]
    fn term(x: f32, largest: f32) -> f32 {
        exponential::<f32>(math::min(x - largest, 0.0))
    }
}

impl ReductionOperation for LogSumExp {
    type State = [f32; 2];

    const NONE: [f32; 2] = [f32::NEG_INFINITY, 0.0];

    #[inline(always)]
    fn and_value(state: [f32; 2], value: f32) -> [f32; 2] {
        Self::and(state, [value, 1.0])
    }

    /// Rescales the sum once, to the largest of all values, and compares no value with another twice.
    #[inline(always)]
    fn and_values([before, sum]: [f32; 2], values: [f32; 4]) -> [f32; 2] {
        let mut largest = before;
        unroll!(4, |i| {
            largest = math::max_nan(largest, values[i]);
        });
        let mut sum = sum * Self::term(before, largest);
        unroll!(4, |i| {
            sum += Self::term(values[i], largest);
        });
        [largest, sum]
    }

    #[inline(always)]
    fn and([a, sum_a]: [f32; 2], [b, sum_b]: [f32; 2]) -> [f32; 2] {
        let ratio = Self::ratio(a, b);
        let sum = if b > a {
            math::fma(sum_a, ratio, sum_b)
        } else {
            math::fma(sum_b, ratio, sum_a)
        };
        [math::max_nan(a, b), sum]
    }

    #[inline(always)]
    fn map(state: [f32; 2], of: impl Fn(f32) -> f32) -> [f32; 2] {
        state.map(of)
    }

    #[inline(always)]
    fn partial([largest, sum]: [f32; 2]) -> f32 {
        largest + ln_from_one(sum)
    }
}

/// Defines a kernel with an instance of its parameter `O` for each operation, or (`of values`) for each
/// operation whose state is a single value: the fusions have no registers for more.
macro_rules! of_each_operation {
    (
        $(#[doc = $doc:expr])*
        #[kernel(instances(T: $types:tt), $($launch:tt)+)]
        $($function:tt)+
    ) => {
        $crate::parts::reduction_operations::of_operations! {
            [logsumexp: crate::parts::reduction_operations::LogSumExp,]
            $(#[doc = $doc])*
            #[kernel(instances(T: $types), $($launch)+)]
            $($function)+
        }
    };
    (
        of values
        $($kernel:tt)+
    ) => {
        $crate::parts::reduction_operations::of_operations! { [] $($kernel)+ }
    };
}

macro_rules! of_operations {
    (
        [$($further:tt)*]
        $(#[doc = $doc:expr])*
        #[kernel(instances(T: $types:tt), $($launch:tt)+)]
        $($function:tt)+
    ) => {
        $(#[doc = $doc])*
        #[kernel(
            instances(
                O: [
                    max: crate::parts::reduction_operations::Max,
                    min: crate::parts::reduction_operations::Min,
                    sum: crate::parts::reduction_operations::Sum,
                    mean: crate::parts::reduction_operations::Mean,
                    $($further)*
                ],
                T: $types,
            ),
            $($launch)+
        )]
        $($function)+
    };
}

pub(crate) use {of_each_operation, of_operations};

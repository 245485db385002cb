//! What reductions make of several values.
//!
//! A new operation is a type here, and an instance in `of_each_operation!`. Its definition for values in any
//! order is `op_spec::ReductionOp`, whose name the instance has.

use cuda_std::math;

use crate::parts::exponential::{Exponential, ln_from_one};

/// An operation on several values.
pub(crate) trait ReductionOperation {
    /// What is known of some values.
    type State: Copy;

    /// Of no values.
    const NONE: Self::State;

    /// Of one more value.
    fn and_value(state: Self::State, value: f32) -> Self::State;

    /// Of the values of both.
    fn and(a: Self::State, b: Self::State) -> Self::State;

    /// The state whose numbers are what `of` makes of this one's, such as another lane's.
    fn map(state: Self::State, of: impl Fn(f32) -> f32) -> Self::State;

    /// A value that stands for all of them in a further step.
    fn partial(state: Self::State) -> f32;

    /// The result, of a mean by this divisor.
    #[inline(always)]
    fn finish(state: Self::State, _divisor: f32) -> f32 {
        Self::partial(state)
    }
}

/// Operations whose state is a value.
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
    /// The largest; NaN wins.
    Max from f32::NEG_INFINITY, |a, b| math::max_nan(a, b);
    /// The smallest; NaN wins.
    Min from f32::INFINITY, |a, b| math::min_nan(a, b);
    /// The sum.
    Sum from 0.0, |a, b| a + b;
    /// The sum, divided by how many values there are.
    Mean from 0.0, |a, b| a + b, |combined, divisor| combined / divisor;
}

/// The logarithm of the sum of exponentials: the largest value, and the sum of `e^(x - largest)`, of which
/// each larger value rescales the sum. Both values infinite and of one sign count as equal.
pub(crate) struct LogSumExp;

impl LogSumExp {
    /// `e^-|a - b|`.
    #[inline(always)]
    fn ratio(a: f32, b: f32) -> f32 {
        if a == b {
            1.0
        } else {
            Exponential::of::<f32>(-math::abs(a - b)).value()
        }
    }
}

impl ReductionOperation for LogSumExp {
    type State = [f32; 2];

    const NONE: [f32; 2] = [f32::NEG_INFINITY, 0.0];

    #[inline(always)]
    fn and_value(state: [f32; 2], value: f32) -> [f32; 2] {
        Self::and(state, [value, 1.0])
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

/// A kernel with an instance of its parameter `O` for each operation, or for each whose state is a value: the
/// fusions have no registers for more.
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

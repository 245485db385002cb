//! What reductions over channels make of the channels' values.
//!
//! A new operation is a type here, and an instance in `of_each_operation!`. Its definition for values in any
//! order is `op_spec::ReductionOp`, whose name the instance has.

use cuda_std::math;

/// An operation on the values of several channels.
pub(crate) trait ChannelOperation {
    /// What a reduction starts with.
    const IDENTITY: f32;

    /// One step: the results of some channels and of others become the result of all.
    fn combine(a: f32, b: f32) -> f32;

    /// The result, from that of all channels.
    #[inline(always)]
    fn finish(combined: f32, _channels: u32) -> f32 {
        combined
    }
}

/// The largest; NaN wins.
pub(crate) struct Max;

impl ChannelOperation for Max {
    const IDENTITY: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        math::max_nan(a, b)
    }
}

/// The smallest; NaN wins.
pub(crate) struct Min;

impl ChannelOperation for Min {
    const IDENTITY: f32 = f32::INFINITY;

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        math::min_nan(a, b)
    }
}

/// The sum.
pub(crate) struct Sum;

impl ChannelOperation for Sum {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// The sum, divided by how many channels there are.
pub(crate) struct Mean;

impl ChannelOperation for Mean {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn finish(combined: f32, channels: u32) -> f32 {
        combined / channels as f32
    }
}

/// A kernel with an instance of its parameter `O` for each operation.
macro_rules! of_each_operation {
    (
        $(#[doc = $doc:expr])*
        #[kernel(instances(T: $types:tt), $($launch:tt)+)]
        $($function:tt)+
    ) => {
        $(#[doc = $doc])*
        #[kernel(
            instances(
                O: [
                    max: crate::parts::channel_operations::Max,
                    min: crate::parts::channel_operations::Min,
                    sum: crate::parts::channel_operations::Sum,
                    mean: crate::parts::channel_operations::Mean,
                ],
                T: $types,
            ),
            $($launch)+
        )]
        $($function)+
    };
}

pub(crate) use of_each_operation;

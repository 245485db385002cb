//! The two normal forms that there are kernels for.

use op_spec::chain::{ChainProblem, NormalForm, Pointwise, Reduction};

use crate::spec::launch::Refusal;
use crate::spec::{
    ChannelMaxProblem, ClampProblem, ConvProblem, GroupNormProblem, MaxPool2dProblem,
};

/// `clamp(max_pool2d(norm(convolution(x)) * factor))`.
#[derive(Debug, Clone)]
pub(crate) struct PoolingForm {
    pub(crate) conv: ConvProblem<3>,
    pub(crate) norm: GroupNormProblem,
    pub(crate) pool: MaxPool2dProblem,
    pub(crate) clamp: ClampProblem,
    /// Shape of the convolution's output.
    pub(crate) convolved: Vec<usize>,
    /// Shape of the result.
    pub(crate) output: Vec<usize>,
}

impl PoolingForm {
    /// The form, if it is this one.
    pub(crate) fn of(
        problem: &ChainProblem,
        form: Option<&NormalForm>,
    ) -> Result<PoolingForm, Refusal> {
        let expected = "a convolution, a norm, one factor, max_pool2d, clamp";
        let refusal = Refusal::Layers { expected };
        let form = form.ok_or(refusal)?;
        let (convolution, conv) = form.convolution.ok_or(refusal)?;
        let (Some((_, norm)), Some((_, Reduction::MaxPool2d(pool)))) = (form.norm, form.reduction)
        else {
            return Err(refusal);
        };
        let [(last, function)] = form.behind[..] else {
            return Err(refusal);
        };
        let clamp = function.as_clamp().ok_or(refusal)?;
        if !form.factors_before.is_empty()
            || form.factors_behind.len() != 1
            || !form.pointwise.is_empty()
        {
            return Err(refusal);
        }
        Ok(PoolingForm {
            conv,
            norm,
            pool,
            clamp,
            convolved: problem.steps[convolution].output.clone(),
            output: problem.steps[last].output.clone(),
        })
    }
}

/// `channel_max(clamp(norm(convolution(x) * m)) * m)`, the norm of every channel by itself.
#[derive(Debug, Clone)]
pub(crate) struct ReducingForm {
    pub(crate) conv: ConvProblem<3>,
    pub(crate) norm: GroupNormProblem,
    pub(crate) clamp: ClampProblem,
    pub(crate) channel_max: ChannelMaxProblem,
    /// Shape of the convolution's output.
    pub(crate) convolved: Vec<usize>,
    /// Shape of the result.
    pub(crate) output: Vec<usize>,
    /// The layers that multiply.
    pub(crate) multiply: [usize; 2],
}

impl ReducingForm {
    /// The form, if it is this one. Whether both products have the same factor is for the caller to see.
    pub(crate) fn of(
        problem: &ChainProblem,
        form: Option<&NormalForm>,
    ) -> Result<ReducingForm, Refusal> {
        let expected = "a convolution, one factor, a norm of each channel, clamp, the same factor, channel_max";
        let refusal = Refusal::Layers { expected };
        let form = form.ok_or(refusal)?;
        let (convolution, conv) = form.convolution.ok_or(refusal)?;
        let (Some((_, norm)), Some((last, Reduction::ChannelMax(channel_max)))) =
            (form.norm, form.reduction)
        else {
            return Err(refusal);
        };
        let [(before, _)] = form.factors_before[..] else {
            return Err(refusal);
        };
        let [(_, function), (behind, Pointwise::Scale(_))] = form.pointwise[..] else {
            return Err(refusal);
        };
        let clamp = function.as_clamp().ok_or(refusal)?;
        let is_each_channel = norm.channels_per_group() == 1;
        if !form.factors_behind.is_empty() || !form.behind.is_empty() || !is_each_channel {
            return Err(refusal);
        }
        Ok(ReducingForm {
            conv,
            norm,
            clamp,
            channel_max,
            convolved: problem.steps[convolution].output.clone(),
            output: problem.steps[last].output.clone(),
            multiply: [before, behind],
        })
    }
}

//! The normal forms that there are kernels for.

use op_spec::chain::{ChainProblem, NormalForm, Pointwise, Reduction};
use op_spec::{BatchNormProblem, PointwiseProblem, PreluProblem, ScaleProblem};

use crate::spec::launch::Refusal;
use crate::spec::launch::implicit_gemm::Epilogue;
use crate::spec::{
    ChannelMaxProblem, ClampProblem, ConvProblem, GroupNormProblem, MaxPool2dProblem,
};

/// The layer of the only factors, if there are any; refused are several.
fn at_most_one(
    factors: &[(usize, ScaleProblem)],
    refusal: Refusal,
) -> Result<Option<usize>, Refusal> {
    match factors {
        [] => Ok(None),
        [(layer, _)] => Ok(Some(*layer)),
        _ => Err(refusal),
    }
}

/// Functions of single values, which all of these are; others are refused.
fn functions(
    pointwise: &[(usize, Pointwise)],
    refusal: Refusal,
) -> Result<Vec<PointwiseProblem>, Refusal> {
    let function = |(_, pointwise): &(usize, Pointwise)| match pointwise {
        Pointwise::Function(problem) => Ok(*problem),
        _ => Err(refusal),
    };
    pointwise.iter().map(function).collect()
}

/// `function(batch_norm(convolution(x)))`, of which the last two may be absent.
#[derive(Debug, Clone)]
pub(crate) struct EpilogueForm {
    pub(crate) conv: ConvProblem<3>,
    /// The layer of the batch norm.
    pub(crate) batch_norm: Option<(usize, BatchNormProblem)>,
    /// The function, and whether there is a batch norm.
    pub(crate) epilogue: Epilogue,
    /// Shape of the convolution's output, and of the result.
    pub(crate) output: Vec<usize>,
}

impl EpilogueForm {
    /// The form, if it is this one, and the function one of those that an [`Epilogue`] can be.
    pub(crate) fn of(
        problem: &ChainProblem,
        form: Option<&NormalForm>,
    ) -> Result<EpilogueForm, Refusal> {
        let expected = "a convolution, perhaps batch_norm, perhaps a clamp or leaky_relu";
        let refusal = Refusal::Layers { expected };
        let form = form.ok_or(refusal)?;
        let (convolution, conv) = form.convolution.ok_or(refusal)?;
        if form.norm.is_some() || form.reduction.is_some() {
            return Err(refusal);
        }
        let (batch_norm, functions) = match &form.pointwise[..] {
            [(layer, Pointwise::BatchNorm(problem)), functions @ ..] => {
                (Some((*layer, *problem)), functions)
            }
            functions => (None, functions),
        };
        let epilogue = match functions {
            [] => Epilogue::NONE,
            [(_, Pointwise::Function(problem))] => {
                Epilogue::of(problem.function.step()).ok_or(refusal)?
            }
            _ => return Err(refusal),
        };
        Ok(EpilogueForm {
            conv,
            batch_norm,
            epilogue: Epilogue {
                is_mapped: u32::from(batch_norm.is_some()),
                ..epilogue
            },
            output: problem.steps[convolution].output.clone(),
        })
    }
}

/// `functions(norm(convolution(x) * before) * behind)`, or a prelu behind the norm; factors before are those of a norm of each channel.
#[derive(Debug, Clone)]
pub(crate) struct MappedForm {
    pub(crate) conv: ConvProblem<3>,
    pub(crate) norm: MappedNorm,
    /// Shape of the convolution's output, and of the result.
    pub(crate) output: Vec<usize>,
}

impl MappedForm {
    /// The form, if it is this one.
    pub(crate) fn of(
        problem: &ChainProblem,
        form: Option<&NormalForm>,
    ) -> Result<MappedForm, Refusal> {
        let expected = "a convolution, a norm, functions of single values";
        let refusal = Refusal::Layers { expected };
        let form = form.ok_or(refusal)?;
        let (convolution, conv) = form.convolution.ok_or(refusal)?;
        Ok(MappedForm {
            conv,
            norm: MappedNorm::of(form, refusal)?,
            output: problem.steps[convolution].output.clone(),
        })
    }
}

/// What is done to values right behind a norm, with a parameter that is one for each channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    /// The layer, whose only parameter it is.
    pub(crate) layer: usize,
    /// The problem of a prelu, whose slopes they are; else they are factors.
    pub(crate) prelu: Option<PreluProblem>,
}

/// `functions(norm(x * before) * behind)`, or a prelu behind the norm; factors before are those of a norm of each channel.
#[derive(Debug, Clone)]
pub(crate) struct MappedNorm {
    pub(crate) norm: GroupNormProblem,
    /// The layer of the factors before the norm.
    pub(crate) before: Option<usize>,
    /// The factors right behind it, or the prelu.
    pub(crate) behind: Option<Behind>,
    pub(crate) functions: Vec<PointwiseProblem>,
}

impl MappedNorm {
    /// What a form is behind its convolution, if it is this and there is no maximum in it.
    pub(crate) fn of(form: &NormalForm, refusal: Refusal) -> Result<MappedNorm, Refusal> {
        let (_, norm) = form.norm.ok_or(refusal)?;
        let before = at_most_one(&form.factors_before, refusal)?;
        let is_each_channel = norm.channels_per_group() == 1;
        if form.reduction.is_some() || before.is_some() && !is_each_channel {
            return Err(refusal);
        }
        let factors = at_most_one(&form.factors_behind, refusal)?;
        let factors = factors.map(|layer| Behind { layer, prelu: None });
        let (behind, pointwise) = match (factors, &form.pointwise[..]) {
            (None, [(layer, Pointwise::Prelu(problem)), rest @ ..]) => {
                let (layer, prelu) = (*layer, Some(*problem));
                (Some(Behind { layer, prelu }), rest)
            }
            (factors, all) => (factors, all),
        };
        Ok(MappedNorm {
            norm,
            before,
            behind,
            functions: functions(pointwise, refusal)?,
        })
    }
}

/// `functions(max_pool2d(norm(convolution(x)) * factor))`.
#[derive(Debug, Clone)]
pub(crate) struct PoolingForm {
    pub(crate) conv: ConvProblem<3>,
    pub(crate) norm: GroupNormProblem,
    /// The layer of the factors behind the norm.
    pub(crate) factors: Option<usize>,
    pub(crate) pool: MaxPool2dProblem,
    /// What is done to each maximum: also what was done before it, if that keeps order.
    pub(crate) functions: Vec<PointwiseProblem>,
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
        let expected = "a convolution, a norm, max_pool2d, and functions that keep order before it and any behind";
        let refusal = Refusal::Layers { expected };
        let form = form.ok_or(refusal)?;
        let (convolution, conv) = form.convolution.ok_or(refusal)?;
        let (Some((_, norm)), Some((reduction, Reduction::MaxPool2d(pool)))) =
            (form.norm, form.reduction)
        else {
            return Err(refusal);
        };
        let keeps_order = form.pointwise.iter().all(|(_, step)| step.keeps_order());
        if !form.factors_before.is_empty() || !keeps_order {
            return Err(refusal);
        }
        let last = form.behind.last().map_or(reduction, |(layer, _)| *layer);
        let all = [&form.pointwise[..], &form.behind[..]].concat();
        Ok(PoolingForm {
            conv,
            norm,
            factors: at_most_one(&form.factors_behind, refusal)?,
            pool,
            functions: functions(&all, refusal)?,
            convolved: problem.steps[convolution].output.clone(),
            output: problem.steps[last].output.clone(),
        })
    }

    /// The only function, if it is a clamp.
    pub(crate) fn clamp(&self) -> Option<ClampProblem> {
        match &self.functions[..] {
            [function] => function.as_clamp(),
            _ => None,
        }
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

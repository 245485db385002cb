//! What a run of layers computes, in the terms in which kernels are chosen.
//!
//! A run with at most one convolution, one norm and one maximum is, if its layers come in this order,
//!
//! ```text
//! convolution -> factors -> moments of groups -> a * y + b for each sample and channel -> pointwise -> maximum -> pointwise
//! ```
//!
//! and every part may be absent. The steps that bring layers into it:
//!
//! 1. A convolution of images is one of volumes that are one voxel deep.
//! 2. An instance norm is a group norm with a group for each channel.
//! 3. Factors between convolution and norm are kept as such. `norm(m * y) = sign(m) * (y - mean) / sqrt(var + eps / m^2)`
//!    for an instance norm, so the tensor `m * y` need not exist; `m = 0` gives 0, as it does there.
//! 4. The norm's weight and bias, and the factors right behind it, make `a` and `b`:
//!    `(y * weight + bias) * m = y * (weight * m) + bias * m`.
//! 5. What follows is pointwise, until a maximum, and again behind it.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::problem::{ChainProblem, LayerProblem};
use crate::{
    ChannelMaxProblem, ClampProblem, ConvProblem, GroupNormProblem, MaxPool2dProblem, ScaleProblem,
};

/// A maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// Over windows of images.
    MaxPool2d(MaxPool2dProblem),
    /// Over the channels.
    ChannelMax(ChannelMaxProblem),
}

/// A function of single values and, at most, their channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointwise {
    /// Limits a value to an interval.
    Clamp(ClampProblem),
    /// Multiplies a value by its channel's factor.
    Scale(ScaleProblem),
}

impl Pointwise {
    /// Whether a larger value never gives a smaller one, so that a maximum may change places with it.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        match self {
            Self::Clamp(_) => true,
            // A factor may be negative.
            Self::Scale(_) => false,
        }
    }
}

/// What a run of layers computes. Each part has the index of its layer in the chain.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NormalForm {
    /// The convolution; images are one voxel deep.
    pub convolution: Option<(usize, ConvProblem<3>)>,
    /// Factors of the channels before the norm.
    pub factors_before: Vec<(usize, ScaleProblem)>,
    /// The groups that share moments, with eps and whether weight and bias are there.
    pub norm: Option<(usize, GroupNormProblem)>,
    /// Factors of the channels right behind the norm.
    pub factors_behind: Vec<(usize, ScaleProblem)>,
    /// What is done with single values then.
    pub pointwise: Vec<(usize, Pointwise)>,
    /// The maximum that is taken of them.
    pub reduction: Option<(usize, Reduction)>,
    /// What is done with each maximum.
    pub behind: Vec<(usize, Pointwise)>,
}

/// Where in a normal form the layers have got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Start,
    Convolved,
    Normalised,
    Mapped,
    Reduced,
}

impl NormalForm {
    /// The normal form of the layers `layers`.
    ///
    /// # Errors
    /// The first layer that does not fit behind the others.
    ///
    /// # Panics
    /// If the problem has no such layers.
    pub fn of(problem: &ChainProblem, layers: Range<usize>) -> Result<NormalForm, NotNormal> {
        let mut form = NormalForm::default();
        let mut part = Part::Start;
        for index in layers {
            let step = &problem.steps[index].problem;
            part = form.append(index, step, part)?;
        }
        form.settle_factors();
        Ok(form)
    }

    fn append(&mut self, index: usize, step: &LayerProblem, part: Part) -> Result<Part, NotNormal> {
        let refuse = |rule| NotNormal { layer: index, rule };
        let before = |limit: Part, rule| {
            if part < limit {
                Ok(())
            } else {
                Err(refuse(rule))
            }
        };
        let convolve = |form: &mut Self, problem| {
            // Factors in front of a convolution are no part of the form.
            if part != Part::Start || !form.factors_before.is_empty() {
                return Err(refuse("a convolution comes first"));
            }
            form.convolution = Some((index, problem));
            Ok(Part::Convolved)
        };
        let normalise = |form: &mut Self, problem| {
            before(
                Part::Normalised,
                "one norm, before anything but a convolution and factors",
            )?;
            form.norm = Some((index, problem));
            Ok(Part::Normalised)
        };
        let reduce = |form: &mut Self, reduction| {
            before(Part::Reduced, "one maximum")?;
            form.settle_factors();
            form.reduction = Some((index, reduction));
            Ok(Part::Reduced)
        };
        match *step {
            LayerProblem::Conv2d(problem) => convolve(self, problem.as_conv3d()),
            LayerProblem::Conv3d(problem) => convolve(self, problem),
            LayerProblem::GroupNorm(problem) => normalise(self, problem),
            LayerProblem::InstanceNorm(problem) => normalise(self, problem.as_group_norm()),
            LayerProblem::MaxPool2d(problem) => reduce(self, Reduction::MaxPool2d(problem)),
            LayerProblem::ChannelMax(problem) => reduce(self, Reduction::ChannelMax(problem)),
            LayerProblem::Scale(problem) => Ok(match part {
                Part::Start | Part::Convolved => {
                    self.factors_before.push((index, problem));
                    part
                }
                Part::Normalised => {
                    self.factors_behind.push((index, problem));
                    part
                }
                Part::Mapped => {
                    self.pointwise.push((index, Pointwise::Scale(problem)));
                    part
                }
                Part::Reduced => {
                    self.behind.push((index, Pointwise::Scale(problem)));
                    part
                }
            }),
            LayerProblem::Clamp(problem) => {
                let clamp = (index, Pointwise::Clamp(problem));
                if part == Part::Reduced {
                    self.behind.push(clamp);
                    return Ok(part);
                }
                self.settle_factors();
                self.pointwise.push(clamp);
                Ok(Part::Mapped)
            }
        }
    }

    /// Factors that no norm followed are pointwise.
    fn settle_factors(&mut self) {
        if self.norm.is_none() {
            let factors = core::mem::take(&mut self.factors_before);
            let pointwise = factors
                .into_iter()
                .map(|(index, problem)| (index, Pointwise::Scale(problem)));
            self.pointwise.splice(0..0, pointwise);
        }
    }

    /// The operators of the parts that are there, in a few words.
    #[must_use]
    pub fn summary(&self) -> Summary<'_> {
        Summary(self)
    }
}

/// A normal form as text, such as `convolution, moments of 16 groups, affine, max_pool2d, clamp`.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(&'a NormalForm);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = self.0;
        let mut first = true;
        let mut part = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            if !core::mem::replace(&mut first, false) {
                f.write_str(", ")?;
            }
            f.write_fmt(text)
        };
        if form.convolution.is_some() {
            part(f, format_args!("convolution"))?;
        }
        if !form.factors_before.is_empty() {
            part(f, format_args!("factors"))?;
        }
        if let Some((_, norm)) = form.norm {
            part(f, format_args!("moments of {} groups", norm.num_groups))?;
            if norm.weight || norm.bias || !form.factors_behind.is_empty() {
                part(f, format_args!("affine"))?;
            } else {
                part(f, format_args!("normalise"))?;
            }
        }
        let name = |pointwise: &Pointwise| match pointwise {
            Pointwise::Clamp(_) => "clamp",
            Pointwise::Scale(_) => "scale",
        };
        for (_, pointwise) in &form.pointwise {
            part(f, format_args!("{}", name(pointwise)))?;
        }
        match form.reduction {
            Some((_, Reduction::MaxPool2d(_))) => part(f, format_args!("max_pool2d"))?,
            Some((_, Reduction::ChannelMax(_))) => part(f, format_args!("channel_max"))?,
            None => {}
        }
        for (_, pointwise) in &form.behind {
            part(f, format_args!("{}", name(pointwise)))?;
        }
        Ok(())
    }
}

/// A run of layers that has no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNormal {
    /// The layer that does not fit.
    pub layer: usize,
    /// What it would have to keep.
    pub rule: &'static str,
}

impl fmt::Display for NotNormal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "layer {} does not fit the normal form, limit: {}",
            self.layer, self.rule
        )
    }
}

impl core::error::Error for NotNormal {}

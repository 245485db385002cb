//! What a run of layers computes, in the terms in which kernels are chosen.
//!
//! A run with at most one convolution, one norm and one maximum is, if its layers come in this order,
//!
//! ```text
//! convolution -> factors -> moments of groups -> a * y + b for each sample and channel -> pointwise -> maximum -> pointwise
//! ```
//!
//! and every part may be absent. (A pool that is no `max_pool2d` is a form of its own.) The steps that bring layers into it:
//!
//! 1. A convolution of images is one of volumes that are one voxel deep.
//! 2. An instance norm is a group norm with a group for each channel.
//!    So is a layer norm, of one group; its weight and bias, which are those of each element, are pointwise.
//! 3. Factors between convolution and norm are kept as such. `norm(m * y) = sign(m) * (y - mean) / sqrt(var + eps / m^2)`
//!    for an instance norm, so the tensor `m * y` need not exist; `m = 0` gives 0, as it does there.
//! 4. The norm's weight and bias, and the factors right behind it, make `a` and `b`:
//!    `(y * weight + bias) * m = y * (weight * m) + bias * m`.
//! 5. A batch norm at inference is `a * y + b` with constants of the channels, pointwise like any other: right behind a
//!    convolution it goes into the writing of its sums.
//! 6. What follows is pointwise, until a maximum, and again behind it. The addition of a residual is pointwise as well: it
//!    has its place in the list, for `norm -> relu -> add -> relu` the second.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::layer::{LayerProblem, Place, Reduction};
use super::problem::ChainProblem;
use crate::{
    AddProblem, BatchNormProblem, ClampProblem, ConvProblem, GroupNormProblem, LayerNormProblem,
    PointwiseProblem, PoolProblem, PreluProblem, ScaleProblem,
};

/// A function of single values and, at most, their channel, or what a residual has at their place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointwise {
    /// Of a value alone.
    Function(PointwiseProblem),
    /// Multiplies a value by its channel's factor.
    Scale(ScaleProblem),
    /// Multiplies a value that is not above 0 by the slope of its channel, or of all.
    Prelu(PreluProblem),
    /// Adds a value of the same place of the layer's further input.
    Residual(AddProblem),
    /// Multiplies a value by a constant of its channel, and adds another.
    BatchNorm(BatchNormProblem),
    /// Multiplies a value by a constant of its place in the sample, and adds another: what a layer norm does behind the statistics.
    LayerAffine(LayerNormProblem),
}

impl Pointwise {
    /// Whether a larger value never gives a smaller one, so that a maximum may change places with it.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        match self {
            Self::Function(problem) => problem.function.keeps_order(),
            // A factor may be negative.
            Self::Scale(_) | Self::BatchNorm(_) | Self::LayerAffine(_) => false,
            // So may a slope.
            Self::Prelu(_) => false,
            // What is added differs from place to place.
            Self::Residual(_) => false,
        }
    }

    /// The clamp that computes the same, if there is one.
    #[must_use]
    pub fn as_clamp(&self) -> Option<ClampProblem> {
        match self {
            Self::Function(problem) => problem.as_clamp(),
            Self::Scale(_)
            | Self::Prelu(_)
            | Self::BatchNorm(_)
            | Self::LayerAffine(_)
            | Self::Residual(_) => None,
        }
    }

    const fn operator(&self) -> &'static str {
        match self {
            Self::Function(problem) => problem.function.operator(),
            Self::Scale(_) => "scale",
            Self::Prelu(_) => "prelu",
            Self::Residual(_) => "add",
            Self::BatchNorm(_) => "batch_norm",
            Self::LayerAffine(_) => "affine of each element",
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
    /// A pool of another kind, beside which there is nothing else.
    pub pool: Option<(usize, PoolProblem)>,
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
            let step = problem.steps[index].problem;
            part = form.append(index, step, part)?;
        }
        form.settle_factors();
        Ok(form)
    }

    /// The normal form of a layer by itself, as layer 0.
    ///
    /// # Panics
    /// Never: every layer may come first.
    #[must_use]
    pub fn of_layer(layer: LayerProblem) -> NormalForm {
        let mut form = NormalForm::default();
        let part = form.append(0, layer, Part::Start);
        part.expect("every layer may come first");
        form.settle_factors();
        form
    }

    fn append(&mut self, index: usize, step: LayerProblem, part: Part) -> Result<Part, NotNormal> {
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
        if self.pool.is_some() {
            return Err(refuse("nothing behind a pool that is no max_pool2d"));
        }
        match step.place() {
            Place::Convolution(problem) => convolve(self, problem),
            Place::Norm(problem) => normalise(self, problem),
            Place::LayerNorm(problem) => {
                let part = normalise(self, problem.as_group_norm())?;
                match problem.is_affine() {
                    true => Ok(self.map(index, Pointwise::LayerAffine(problem), part)),
                    false => Ok(part),
                }
            }
            Place::Reduction(reduction) => reduce(self, reduction),
            Place::Factors(problem) => {
                let scale = (index, Pointwise::Scale(problem));
                match part {
                    Part::Start | Part::Convolved => self.factors_before.push((index, problem)),
                    Part::Normalised => self.factors_behind.push((index, problem)),
                    Part::Mapped => self.pointwise.push(scale),
                    Part::Reduced => self.behind.push(scale),
                }
                Ok(part)
            }
            Place::Pointwise(problem) => Ok(self.map(index, Pointwise::Function(problem), part)),
            Place::Affine(problem) => Ok(self.map(index, Pointwise::BatchNorm(problem), part)),
            Place::Slopes(problem) => Ok(self.map(index, Pointwise::Prelu(problem), part)),
            Place::Residual(problem) => Ok(self.map(index, Pointwise::Residual(problem), part)),
            Place::Pool(problem) => {
                if part != Part::Start || !self.factors_before.is_empty() {
                    return Err(refuse("a pool that is no max_pool2d comes alone"));
                }
                self.pool = Some((index, problem));
                Ok(part)
            }
        }
    }

    /// Adds what is done with single values.
    fn map(&mut self, index: usize, function: Pointwise, part: Part) -> Part {
        if part == Part::Reduced {
            self.behind.push((index, function));
            return part;
        }
        self.settle_factors();
        self.pointwise.push((index, function));
        Part::Mapped
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
        for (_, pointwise) in &form.pointwise {
            part(f, format_args!("{}", pointwise.operator()))?;
        }
        if let Some((_, reduction)) = &form.reduction {
            part(f, format_args!("{}", reduction.operator()))?;
        }
        for (_, pointwise) in &form.behind {
            part(f, format_args!("{}", pointwise.operator()))?;
        }
        if let Some((_, pool)) = &form.pool {
            part(f, format_args!("{}", pool.operator))?;
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

//! The normal form of a region (some layers along a path): its computation in the terms in which kernels are
//! chosen.
//!
//! A region with at most one convolution, one norm and one reduction is a convolution and an [`Epilogue`] if
//! its layers come in this order:
//!
//! ```text
//! convolution -> before -> norm -> affine -> list -> reduce -> after
//! ```
//!
//! Every part may be absent. These steps bring layers into the form:
//!
//! 1. A convolution of images is a convolution of volumes that are one voxel deep.
//! 2. An instance norm is a group norm with one group for each channel. A layer norm is a group norm of one
//!    group. Its weight and bias have a value for each element and are part of the list. A batch norm by the
//!    batch's statistics is an instance norm whose groups share their statistics over the batch.
//! 3. Factors between convolution and norm stay factors:
//!    `norm(m * y) = sign(m) * (y - mean) / sqrt(var + eps / m^2)` for an instance norm, so the tensor
//!    `m * y` need not exist. `m = 0` gives 0, as it does there.
//! 4. Factors right after the norm join its weight and bias:
//!    `(y * weight + bias) * m = y * (weight * m) + bias * m`.
//! 5. A batch norm at inference multiplies by and adds constants of the channels, as arithmetic with
//!    parameters does. Both are part of the list; products with a value for each channel are factors.
//! 6. Before a reduction, pointwise functions and arithmetic with residuals are in the list; behind it, they
//!    are in the part `after`. A softmax takes the place of a reduction, and so does a layer norm with
//!    several rows per sample.
//! 7. If arithmetic takes a value of the region again behind the next layer, the value is kept until then.
//!    One value is kept at a time.
//! 8. A linear map is a convolution of images of one pixel. A `flatten`, a `reshape`, a `cat`, a `narrow`, a
//!    `pad`, a `gate` and a shuffle are forms by themselves, without other parts.

use alloc::vec::Vec;
use core::fmt;

use super::Operand;
use super::channel_affine::ChannelAffine;
use super::layer::{ByItself, LayerProblem, Reduction, Role};
use super::problem::GraphProblem;
use crate::{
    ArithmeticProblem, ClampProblem, ConvProblem, ConvTransposeProblem, GroupNormProblem,
    LayerNormProblem, PointwiseProblem, PreluProblem, ScaleProblem,
};

/// A function of a single value and, at most, its channel or the residual at its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointwise {
    /// A function of the value alone.
    Function(PointwiseProblem),
    /// Multiplies a value by its channel's factor.
    Scale(ScaleProblem),
    /// Multiplies a value that is not above 0 by a slope: its channel's, or the one for all channels.
    Prelu(PreluProblem),
    /// An operation with the value at the same position of the layer's further operand.
    Residual(ArithmeticProblem),
    /// Stores the output of this entry's layer for later layers of the region, in place of the value that was
    /// stored before. The value itself stays unchanged.
    Keep,
    /// An operation with the stored value.
    Kept(ArithmeticProblem),
    /// Multiplies a value by a constant of its channel, and adds another.
    Affine(ChannelAffine),
    /// Multiplies a value by the weight of its index in the sample and adds the bias: the affine part of a
    /// layer norm.
    LayerAffine(LayerNormProblem),
}

impl Pointwise {
    /// Whether a larger value never gives a smaller one, so that a maximum may change places with it.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        match self {
            Self::Function(problem) => problem.function.keeps_order(),
            // A factor may be negative.
            Self::Scale(_) | Self::Affine(_) | Self::LayerAffine(_) => false,
            // A slope may be negative.
            Self::Prelu(_) => false,
            // The operand differs from place to place.
            Self::Residual(_) | Self::Keep | Self::Kept(_) => false,
        }
    }

    /// Returns the clamp that computes the same function, if there is one.
    #[must_use]
    pub fn as_clamp(&self) -> Option<ClampProblem> {
        match self {
            Self::Function(problem) => problem.as_clamp(),
            Self::Scale(_)
            | Self::Prelu(_)
            | Self::Affine(_)
            | Self::LayerAffine(_)
            | Self::Residual(_)
            | Self::Keep
            | Self::Kept(_) => None,
        }
    }

    const fn operator(&self) -> &'static str {
        match self {
            Self::Function(problem) => problem.function.operator(),
            Self::Scale(_) => "scale",
            Self::Prelu(_) => "prelu",
            Self::Residual(problem) | Self::Kept(problem) => problem.operation.name(),
            Self::Keep => "keep",
            Self::Affine(affine) => affine.operator(),
            Self::LayerAffine(_) => "affine of each element",
        }
    }
}

/// The computation of a region: an optional convolution and an epilogue. Each part has the number of its
/// layer in the graph.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NormalForm {
    /// The convolution; images are one voxel deep.
    pub convolution: Option<(usize, ConvProblem<3>)>,
    /// The transposed convolution in place of the convolution.
    pub transposed: Option<(usize, ConvTransposeProblem<3>)>,
    /// A layer that no other layer is fused with; all other parts are empty then.
    pub by_itself: Option<(usize, ByItself)>,
    /// The epilogue of the convolution, or, without a convolution, of the region's input.
    pub epilogue: Epilogue,
}

/// The operations on the values of a convolution or an input, up to the region's output.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Epilogue {
    /// Factors per channel before the norm.
    pub before: Vec<(usize, ScaleProblem)>,
    /// The norm: its groups, eps, and whether it has a weight and a bias.
    pub norm: Option<(usize, GroupNormProblem)>,
    /// Factors per channel right after the norm.
    pub affine: Vec<(usize, ScaleProblem)>,
    /// Functions of single values.
    pub list: Vec<(usize, Pointwise)>,
    /// The reduction over windows or axes, or another [`Reduction`].
    pub reduce: Option<(usize, Reduction)>,
    /// Functions of the reduction's results.
    pub after: Vec<(usize, Pointwise)>,
}

/// The rule against other layers in the region of a layer that forms one by itself.
const BY_THEMSELVES: &str =
    "flatten, reshape, cat, narrow, pad, gate and shuffles are by themselves";

/// The part of the normal form that the last layer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Start,
    Convolved,
    Normalised,
    Mapped,
    Reduced,
    ByItself,
}

impl NormalForm {
    /// Returns the channels and the extents of a convolution's results, if the form has one of any kind.
    #[must_use]
    pub fn convolved(&self) -> Option<(usize, [usize; 3])> {
        let ordinary = self.convolution.map(|(_, conv)| (conv.k, conv.output));
        ordinary.or(self.transposed.map(|(_, conv)| (conv.k, conv.output)))
    }

    /// Computes the normal form of these layers, each of which takes the output of the one before it.
    ///
    /// # Errors
    /// The first layer that does not fit behind the layers before it, and the rule against it.
    ///
    /// # Panics
    /// If the problem has no such layers.
    pub fn of(
        problem: &GraphProblem,
        layers: impl IntoIterator<Item = usize>,
    ) -> Result<NormalForm, NotNormal> {
        let mut form = NormalForm::default();
        let mut part = Part::Start;
        let layers: Vec<usize> = layers.into_iter().collect();
        let mut kept = None;
        for (at, &index) in layers.iter().enumerate() {
            let step = &problem.steps[index];
            let again = step.others.iter().find_map(|other| match other {
                Operand::Layer(layer) if layers[..at].contains(layer) => Some(*layer),
                _ => None,
            });
            part = match (again, step.problem) {
                (None, layer) => {
                    if !matches!(
                        layer.role(),
                        Role::Pointwise(_)
                            | Role::Residual(_)
                            | Role::Affine(_)
                            | Role::Factors(_)
                            | Role::Slopes(_)
                    ) {
                        kept = None;
                    }
                    form.append(index, layer, part)?
                }
                (again, LayerProblem::Arithmetic(of)) if again == kept => {
                    form.map(index, Pointwise::Kept(of), part)
                }
                (Some(_), _) => {
                    return Err(NotNormal {
                        layer: index,
                        rule: "one value is taken again at a time, by arithmetic, behind nothing but functions",
                    });
                }
            };
            let is_taken_again = |&later: &usize| {
                let others = &problem.steps[later].others;
                others.contains(&Operand::Layer(index))
            };
            // Behind a layer by itself, the next layer is refused.
            if part != Part::ByItself && layers[at + 1..].iter().any(is_taken_again) {
                kept = Some(index);
                part = form.map(index, Pointwise::Keep, part);
            }
        }
        form.settle_factors();
        Ok(form)
    }

    /// Computes the normal form of a single layer, as layer 0.
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
        if part == Part::ByItself {
            return Err(refuse(BY_THEMSELVES));
        }
        let comes_first = |form: &Self| {
            // The normal form has no place for factors before a convolution.
            match part == Part::Start && form.epilogue.before.is_empty() {
                true => Ok(Part::Convolved),
                false => Err(refuse("a convolution comes first")),
            }
        };
        let normalise = |form: &mut Self, problem| {
            before(
                Part::Normalised,
                "one norm, before anything but a convolution and factors",
            )?;
            form.epilogue.norm = Some((index, problem));
            Ok(Part::Normalised)
        };
        let reduce = |form: &mut Self, reduction| {
            before(Part::Reduced, "one reduction")?;
            form.settle_factors();
            form.epilogue.reduce = Some((index, reduction));
            Ok(Part::Reduced)
        };
        match step.role() {
            Role::Convolution(problem) => {
                let part = comes_first(self)?;
                self.convolution = Some((index, problem));
                Ok(part)
            }
            Role::Transposed(problem) => {
                let part = comes_first(self)?;
                self.transposed = Some((index, problem));
                Ok(part)
            }
            Role::Norm(problem) => normalise(self, problem),
            Role::LayerNorm(problem) => {
                let part = normalise(self, problem.as_group_norm())?;
                match problem.is_affine() {
                    true => Ok(self.map(index, Pointwise::LayerAffine(problem), part)),
                    false => Ok(part),
                }
            }
            Role::Reduction(reduction) => reduce(self, reduction),
            Role::ByItself(of) => match part == Part::Start && self.epilogue.before.is_empty() {
                true => {
                    self.by_itself = Some((index, of));
                    Ok(Part::ByItself)
                }
                false => Err(refuse(BY_THEMSELVES)),
            },
            Role::Factors(problem) => {
                let (scale, epilogue) = ((index, Pointwise::Scale(problem)), &mut self.epilogue);
                match part {
                    Part::Start | Part::Convolved => epilogue.before.push((index, problem)),
                    Part::Normalised => epilogue.affine.push((index, problem)),
                    Part::Mapped => epilogue.list.push(scale),
                    Part::Reduced => epilogue.after.push(scale),
                    Part::ByItself => return Err(refuse(BY_THEMSELVES)),
                }
                Ok(part)
            }
            Role::Pointwise(problem) => Ok(self.map(index, Pointwise::Function(problem), part)),
            Role::Affine(affine) => Ok(self.map(index, Pointwise::Affine(affine), part)),
            Role::Slopes(problem) => Ok(self.map(index, Pointwise::Prelu(problem), part)),
            Role::Residual(problem) => Ok(self.map(index, Pointwise::Residual(problem), part)),
        }
    }

    /// Adds a function of single values.
    fn map(&mut self, index: usize, function: Pointwise, part: Part) -> Part {
        if part == Part::Reduced {
            self.epilogue.after.push((index, function));
            return part;
        }
        self.settle_factors();
        self.epilogue.list.push((index, function));
        Part::Mapped
    }

    /// Moves factors without a norm behind them to the list.
    fn settle_factors(&mut self) {
        let epilogue = &mut self.epilogue;
        if epilogue.norm.is_none() {
            let factors = core::mem::take(&mut epilogue.before);
            let pointwise = factors
                .into_iter()
                .map(|(index, problem)| (index, Pointwise::Scale(problem)));
            epilogue.list.splice(0..0, pointwise);
        }
    }

    /// Returns a short list of the parts' operators.
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
        let (form, epilogue) = (self.0, &self.0.epilogue);
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
        if form.transposed.is_some() {
            part(f, format_args!("transposed convolution"))?;
        }
        if let Some((_, of)) = &form.by_itself {
            part(f, format_args!("{}", of.operator()))?;
        }
        if !epilogue.before.is_empty() {
            part(f, format_args!("factors"))?;
        }
        if let Some((_, norm)) = epilogue.norm {
            part(f, format_args!("moments of {} groups", norm.num_groups))?;
            if norm.weight || norm.bias || !epilogue.affine.is_empty() {
                part(f, format_args!("affine"))?;
            } else {
                part(f, format_args!("normalise"))?;
            }
        }
        for (_, pointwise) in &epilogue.list {
            part(f, format_args!("{}", pointwise.operator()))?;
        }
        if let Some((_, reduction)) = &epilogue.reduce {
            part(f, format_args!("{}", reduction.operator()))?;
        }
        for (_, pointwise) in &epilogue.after {
            part(f, format_args!("{}", pointwise.operator()))?;
        }
        Ok(())
    }
}

/// A region without a normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNormal {
    /// The layer that breaks it.
    pub layer: usize,
    /// The rule that it breaks.
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

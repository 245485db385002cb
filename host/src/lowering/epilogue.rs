//! The kernels of epilogues, and their arguments.
//!
//! Each type is one kind of epilogue that kernels implement. Its `of` accepts or refuses a region's form.

use launch_config::pointwise::OperandList;
use op_spec::graph::{ChannelAffine, Epilogue, NormalForm, Pointwise, Reduction};
use op_spec::{Layout, PointwiseProblem, PreluProblem, ScaleProblem};

mod behind;
mod channels_last_norm;
mod gate;
mod norm_scale;
mod padding;
mod pool;
mod reduced_channels;
mod rows;
mod series;
mod summary;

pub(super) use behind::{Behind, leading_affine};
pub(super) use channels_last_norm::{ChannelsLastNorm, launches as channels_last_launches};
pub(super) use gate::Gate;
pub(super) use norm_scale::{NormScale, NormScaleKernels};
pub(super) use padding::Padding;
pub(super) use pool::{Pool, Windows, WindowsKernel};
pub(super) use reduced_channels::ReducedChannels;
pub(super) use rows::{Rows, Shuffle};
pub(super) use series::{Series, SeriesKernel};

use super::region::Region;
use crate::graph::LayerProblem;
use crate::operators::own_kernels;
use crate::operators::pointwise::{ListStep, keeps_in_launches};
use crate::operators::reduction::Steps;
use crate::spec::{BatchNormProblem, GroupNormProblem};
use launch_config::implicit_gemm::Epilogue as StoreEpilogue;
use launch_config::{Presence, Refusal};

/// The kernels of an epilogue, and their arguments.
#[derive(Debug, Clone)]
pub(super) enum EpilogueKernels {
    /// No kernels: the producer writes the region's output.
    None,
    /// The region's only layer, with the kernels of its operator.
    Operator(usize, LayerProblem),
    /// The region's only layer, whose parameters are folded into a gain and a shift of each channel.
    Affine(usize, ChannelAffine),
    /// The producer applies the epilogue to its accumulators before it stores them.
    Store(Store),
    /// Norm and pointwise functions.
    Map(Map),
    /// Norm and pointwise functions of a channels-last tensor.
    ChannelsLastNorm(ChannelsLastNorm),
    /// Norm, scale, max_pool2d and functions; the norm, the scale and the functions may be absent.
    Pool(Pool),
    /// Windows of a channels-last tensor, and functions.
    Windows(Windows),
    /// A reduction of all pixels of each channel of a channels-last tensor.
    Pixels(Steps),
    /// Scale, norm, clamp, the same scale and a reduction over the channels; the first scale and the norm may
    /// be absent.
    ReducedChannels(ReducedChannels),
    /// A norm and a scale.
    NormScale(NormScale),
    /// A softmax, or a layer norm of rows, followed by a list.
    Series(Series),
    /// Pointwise functions and residuals.
    List(List),
    /// Parts of rows, for a `cat` or a `narrow`.
    Rows(Rows),
    /// A shuffle of channels or pixels.
    Shuffle(Shuffle),
    /// Padding.
    Pad(Padding),
    /// A gate.
    Gate(Gate),
}

impl EpilogueKernels {
    /// The layouts that the kernels of a region without a convolution read and write.
    pub(super) fn layouts(&self) -> [Layout; 2] {
        match self {
            EpilogueKernels::None
            | EpilogueKernels::Operator(..)
            | EpilogueKernels::Affine(..)
            | EpilogueKernels::Store(_)
            | EpilogueKernels::Map(_)
            | EpilogueKernels::Pool(_)
            | EpilogueKernels::ReducedChannels(_)
            | EpilogueKernels::NormScale(_) => [Layout::Nchw; 2],
            EpilogueKernels::ChannelsLastNorm(_) | EpilogueKernels::Windows(_) => [Layout::Nhwc; 2],
            // The output has one pixel, and therefore both layouts.
            EpilogueKernels::Pixels(_) => [Layout::Nhwc, Layout::Nchw],
            EpilogueKernels::Series(series) => [series.layout; 2],
            EpilogueKernels::List(list) => [list.layout; 2],
            EpilogueKernels::Rows(rows) => [rows.layout; 2],
            EpilogueKernels::Shuffle(shuffle) => [shuffle.layout; 2],
            EpilogueKernels::Pad(padding) => [padding.layout; 2],
            EpilogueKernels::Gate(gate) => [gate.layout(); 2],
        }
    }

    /// The epilogue and the list that the producer applies before it stores its results.
    pub(super) fn store_epilogue(&self) -> (StoreEpilogue, OperandList) {
        match self {
            EpilogueKernels::Store(store) => (store.epilogue, store.list),
            _ => (StoreEpilogue::NONE, OperandList::EMPTY),
        }
    }

    /// The norm whose statistics the epilogue needs.
    pub(super) fn norm(&self) -> Option<(usize, GroupNormProblem)> {
        match self {
            EpilogueKernels::Map(map) => Some(map.norm),
            EpilogueKernels::NormScale(of) => Some(of.norm),
            EpilogueKernels::Pool(pool) => pool.norm,
            EpilogueKernels::ReducedChannels(reduced) => reduced.norm,
            _ => None,
        }
    }
}

/// Pointwise functions and residuals, in any layout.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) steps: Vec<ListStep<usize>>,
    /// The layout of input and output.
    pub(super) layout: Layout,
}

/// A batch norm, arithmetic with parameters, pointwise functions and a residual, all applied before results
/// are stored. Each may be absent.
#[derive(Debug, Clone)]
pub(super) struct Store {
    /// The layers whose parameters form the epilogue's gain and shift.
    pub(super) affine: Vec<(usize, ChannelAffine)>,
    /// The layers whose parameters form the list's gain and shift.
    pub(super) affine_behind: Vec<(usize, ChannelAffine)>,
    /// The layer that adds a residual.
    pub(super) residual: Option<usize>,
    /// Gain and shift, slope and bounds of the accumulators; the list follows them.
    pub(super) epilogue: StoreEpilogue,
    pub(super) list: OperandList,
    /// Further launches that reduce the producer's results.
    pub(super) further: Option<Further>,
}

/// Launches that further reduce results that a producer has reduced within its tiles.
#[derive(Debug, Clone)]
pub(super) struct Further {
    /// The shape of the producer's output.
    pub(super) shape: Vec<usize>,
    pub(super) steps: Steps,
}

impl Store {
    /// The kernels for a form, if it is of this kind.
    pub(super) fn of(form: &Epilogue) -> Result<Store, Refusal> {
        let expected = "a convolution, perhaps batch_norm and arithmetic with parameters, perhaps up to eight functions and a residual";
        let refusal = Refusal::Layers { expected };
        if form.norm.is_some() || form.reduce.is_some() {
            return Err(refusal);
        }
        let (affine, rest) = leading_affine(&form.list);
        let (first, behind) = Behind::of_steps(rest, true).ok_or(refusal)?;
        Ok(Store {
            residual: behind.residual,
            epilogue: StoreEpilogue {
                gain_and_shift: Presence::of(!affine.is_empty()),
                ..first.unwrap_or(StoreEpilogue::NONE)
            },
            affine,
            affine_behind: behind.affine,
            list: behind.list,
            further: None,
        })
    }

    /// The shape of the producer's output, if the region's output has the shape `output`.
    pub(super) fn produced<'a>(&'a self, output: &'a [usize]) -> &'a [usize] {
        self.further
            .as_ref()
            .map_or(output, |further| &further.shape)
    }

    /// Adds launches that reduce the results further.
    pub(super) fn reduced_by(self, further: Option<Further>) -> Self {
        Self { further, ..self }
    }

    /// The batch norm that alone forms the epilogue's gain and shift, if there is one.
    pub(super) fn batch_norm(&self) -> Option<(usize, BatchNormProblem)> {
        match self.affine[..] {
            [(layer, ChannelAffine::BatchNorm(problem))] => Some((layer, problem)),
            _ => None,
        }
    }
}

/// A layer right after a norm, with one parameter for each channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerChannel {
    /// The layer, which has no other parameter.
    pub(super) layer: usize,
    /// The problem of a prelu, if the parameters are its slopes; otherwise they are factors.
    pub(super) prelu: Option<PreluProblem>,
}

/// `list(norm(x * before) * behind)`, or with a prelu after the norm. Factors before the norm require a norm
/// of single channels.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub(super) norm: (usize, GroupNormProblem),
    /// The layer of the factors before the norm.
    pub(super) before: Option<usize>,
    /// The factors right after the norm, or the prelu.
    pub(super) behind: Option<PerChannel>,
    pub(super) list: Vec<ListStep<usize>>,
}

impl Map {
    pub(super) fn of(form: &Epilogue) -> Result<Map, Refusal> {
        let expected = "a norm, functions of single values and residuals; perhaps scale or prelu behind the norm, and scale before a norm of each channel";
        let refusal = Refusal::Layers { expected };
        let norm = form.norm.ok_or(refusal)?;
        let before = at_most_one(&form.before, refusal)?;
        let is_each_channel = norm.1.channels_per_group() == 1;
        let keeps = form.list.iter().any(|(_, of)| *of == Pointwise::Keep);
        if form.reduce.is_some() || before.is_some() && !is_each_channel || keeps {
            return Err(refusal);
        }
        let factors = at_most_one(&form.affine, refusal)?;
        let factors = factors.map(|layer| PerChannel { layer, prelu: None });
        let (behind, steps) = match (factors, &form.list[..]) {
            (None, [(layer, Pointwise::Prelu(problem)), rest @ ..]) => {
                let (layer, prelu) = (*layer, Some(*problem));
                (Some(PerChannel { layer, prelu }), rest)
            }
            (factors, all) => (factors, all),
        };
        Ok(Map {
            norm,
            before,
            behind,
            list: list(steps, refusal)?,
        })
    }
}

/// Returns the kernels after a producer with moments: the first kind with a norm that accepts the form.
///
/// # Errors
/// The most informative refusal: a broken rule is preferred to unsupported layers.
pub(super) fn with_norm(region: &Region<'_>, form: &Epilogue) -> Result<EpilogueKernels, Refusal> {
    let expected = "a convolution, a norm, functions; perhaps max_pool2d, or a reduction over the channels as in problem 79";
    let other_layers = Refusal::Layers { expected };
    form.norm.ok_or(other_layers)?;
    let kinds = [
        Pool::of(region, form).map(EpilogueKernels::Pool),
        Map::of(form).map(EpilogueKernels::Map),
        ReducedChannels::of(region, form).map(EpilogueKernels::ReducedChannels),
    ];
    let mut refusal = other_layers;
    for kind in kinds {
        match kind {
            Ok(plan) => return Ok(plan),
            Err(Refusal::Layers { .. }) => {}
            Err(rule) => refusal = rule,
        }
    }
    Err(refusal)
}

/// Returns the kernels for a region that reads a tensor: any kind that accepts the form.
///
/// # Errors
/// As [`with_norm`].
pub(super) fn of_tensor(
    region: &Region<'_>,
    form: &NormalForm,
) -> Result<EpilogueKernels, Refusal> {
    let expected = "layers without a convolution that there are kernels for together";
    let refusal = Refusal::Layers { expected };
    if form.convolved().is_some() {
        return Err(refusal);
    }
    if let Some(rows) = Rows::of(region, form) {
        return Ok(EpilogueKernels::Rows(rows));
    }
    if let Some(shuffle) = Shuffle::of(region, form) {
        return Ok(EpilogueKernels::Shuffle(shuffle));
    }
    if let Some(padding) = Padding::of(region, form) {
        return padding.map(EpilogueKernels::Pad);
    }
    if let Some(gate) = Gate::of(region, form) {
        return Ok(EpilogueKernels::Gate(gate));
    }
    let form = &form.epilogue;
    if let Some(norm) = ChannelsLastNorm::of(region, form) {
        return Ok(EpilogueKernels::ChannelsLastNorm(norm));
    }
    if let Some((_, Reduction::Softmax(_) | Reduction::LayerNorm(_))) = &form.reduce {
        return Series::of(region, form).map(EpilogueKernels::Series);
    }
    if let Some(steps) = pixels(region, form) {
        return Ok(EpilogueKernels::Pixels(steps));
    }
    let layout = match region.is_dense_nhwc() {
        true => Layout::Nhwc,
        false => Layout::Nchw,
    };
    if let &[layer] = region.layers {
        // A list is elementwise, so it accepts any order in memory.
        let is_list = form.norm.is_none() && form.reduce.is_none() && !form.list.is_empty();
        let problem = &region.of.problem.steps[layer].problem;
        let operator = own_kernels(problem).map(|_| *problem);
        return Ok(match (list(&form.list, refusal), &form.list[..]) {
            (Ok(steps), _) if is_list && region.is_dense_nhwc() => {
                EpilogueKernels::List(List { steps, layout })
            }
            (_, &[(_, Pointwise::Affine(affine))]) => EpilogueKernels::Affine(layer, affine),
            _ => EpilogueKernels::Operator(layer, operator.ok_or(refusal)?),
        });
    }
    if form.norm.is_some() {
        return Ok(match with_norm(region, form)? {
            EpilogueKernels::Map(map) => NormScale::of(region, &map)
                .map_or(EpilogueKernels::Map(map), EpilogueKernels::NormScale),
            plan => plan,
        });
    }
    match form.reduce {
        Some((_, Reduction::Pool(pool))) if pool.is_max_of_images() => {
            Pool::of(region, form).map(EpilogueKernels::Pool)
        }
        Some((_, Reduction::Axes(_))) => {
            ReducedChannels::of(region, form).map(EpilogueKernels::ReducedChannels)
        }
        Some(_) => Err(refusal),
        None => {
            let steps = list(&form.list, refusal)?;
            Ok(EpilogueKernels::List(List { steps, layout }))
        }
    }
}

/// Returns the reduction of all pixels of each channel, if the region is that reduction of a channels-last
/// tensor.
fn pixels(region: &Region<'_>, form: &Epilogue) -> Option<Steps> {
    let (&[layer], Some((_, reduction))) = (region.layers, &form.reduce) else {
        return None;
    };
    let input = &region.of.problem.steps[layer].input;
    let steps = || Steps::of_channels_last(reduction, input, region.of.dtype);
    region.is_dense_nhwc().then(steps)?
}

/// Returns the layer of the factors, if any; refuses several layers of factors.
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

/// Returns the pointwise functions and residuals, with the residuals' layers. Refuses any other operation.
fn list(list: &[(usize, Pointwise)], refusal: Refusal) -> Result<Vec<ListStep<usize>>, Refusal> {
    let step = |(layer, pointwise): &(usize, Pointwise)| match pointwise {
        Pointwise::Function(problem) => Ok(ListStep::Function(*problem)),
        Pointwise::Keep => Ok(ListStep::Keep),
        Pointwise::Kept(problem) => Ok(ListStep::Kept(problem.operation)),
        Pointwise::Residual(problem) => Ok(ListStep::Residual(problem.operation, *layer)),
        _ => Err(refusal),
    };
    let steps: Result<Vec<_>, _> = list.iter().map(step).collect();
    steps.and_then(|steps| match keeps_in_launches(&steps) {
        true => Ok(steps),
        false => Err(refusal),
    })
}

/// Returns the pointwise functions. Refuses any other operation.
fn functions(
    list: &[(usize, Pointwise)],
    refusal: Refusal,
) -> Result<Vec<PointwiseProblem>, Refusal> {
    let function = |(_, pointwise): &(usize, Pointwise)| match pointwise {
        Pointwise::Function(problem) => Ok(*problem),
        _ => Err(refusal),
    };
    list.iter().map(function).collect()
}

//! A convolution by an implicit matrix product on tensor cores, with the moments that a norm wants.

use std::sync::{Arc, Mutex, PoisonError};

use kernels_gpu::fused::implicit_gemm::{
    IMPLICIT_GEMM, IMPLICIT_GEMM_FILTERS, IMPLICIT_GEMM_IMAGE, IMPLICIT_GEMM_REMAKE,
};

use super::convolved::{Convolved, Parameters};
use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::ops::launching::{Affine, Argument, bytes, grid, launch};
use crate::ops::{Arena, FusedOptions, Precision};
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::implicit_gemm::{GemmDevice, GemmMode, GemmPlan, GemmTile};

const OPERATOR: &str = "implicit_gemm";

/// The way to multiply.
fn mode(dtype: DType, precision: Precision) -> GemmMode {
    match (dtype, precision) {
        (DType::F32, Precision::Accurate) => GemmMode::ACCURATE,
        (DType::F32, Precision::Fast) => GemmMode::FAST,
        (DType::F16 | DType::BF16, _) => GemmMode::HALF,
    }
}

/// What plans must know of the stream's device.
fn gemm_device(stream: &Stream) -> GemmDevice {
    let device = stream.device();
    GemmDevice {
        multiprocessors: device.multiprocessors(),
        shared_bytes: device.shared_bytes_per_block(),
        warpgroups: device.has_warpgroup_products(),
    }
}

/// How this convolution of `x` is done, with its outputs pooled in windows of `pool` that lie side by side; nothing
/// where it has to be done otherwise.
pub(crate) fn gemm_plan(
    geometry: &ConvGeometry,
    pool: Option<[u32; 2]>,
    x: &Tensor,
    cache: &FilterCache,
    options: FusedOptions,
) -> Option<GemmPlan> {
    cache.plan(Question {
        geometry: *geometry,
        pool,
        mode: mode(x.dtype(), options.precision),
        device: gemm_device(x.stream()),
        batch: (!options.batch_invariant).then_some(geometry.n),
    })
}

/// All that a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    geometry: ConvGeometry,
    pool: Option<[u32; 2]>,
    mode: GemmMode,
    device: GemmDevice,
    batch: Option<u64>,
}

impl Question {
    /// The plan, whose search looks at thousands of tiles. One whose launches a grid cannot hold is none.
    fn answer(&self) -> Option<GemmPlan> {
        let plan = GemmPlan::new(
            &self.geometry,
            self.pool,
            self.mode,
            &self.device,
            self.batch,
        );
        plan.filter(|plan| {
            i32::try_from(plan.geometry.items()).is_ok()
                && plan.shape(&self.device).is_some()
                && plan.filters_shape().is_some()
                && plan.geometry.image_shape().is_some()
                && plan.geometry.remake_shape().is_some()
        })
    }
}

/// What the layout of filters depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    precision: Precision,
    tile: GemmTile,
    vector_channels: u32,
    stage_chunks: u32,
}

/// Filters as operands of the tensor cores.
#[derive(Debug)]
struct Filters {
    operands: Tensor,
    /// Reciprocals of the filters' scales.
    unscales: Tensor,
}

impl Filters {
    fn new(weight: &Tensor, plan: &GemmPlan, precision: Precision) -> Result<Filters> {
        let (stream, dtype) = (weight.stream(), weight.dtype());
        let shape = grid(OPERATOR, plan.filters_shape())?;
        let words = plan.filter_words() as usize;
        let channels = plan.geometry.conv.output_channels() as usize;
        let filters = Filters {
            operands: Tensor::uninit(stream, &[words], DType::F32)?,
            unscales: Tensor::uninit(stream, &[channels], DType::F32)?,
        };
        let weight = Argument::open(OPERATOR, "weight", weight, weight)?;
        // SAFETY: the plan is that of these filters, and the two buffers have the sizes that it says.
        unsafe {
            launch(
                stream,
                &IMPLICIT_GEMM_FILTERS,
                &[precision.label(dtype)],
                shape,
                (
                    weight.pointer(),
                    filters.operands.output(),
                    filters.unscales.output(),
                    plan.geometry,
                    plan.tile,
                ),
            )?;
        }
        Ok(filters)
    }
}

/// Plans that a model remembers, the latest ones.
const REMEMBERED_PLANS: usize = 16;

/// What a model need not work out again for inputs of a shape that it has seen: plans, and its filters in all layouts
/// that they asked for so far.
#[derive(Debug, Default)]
pub(crate) struct FilterCache {
    plans: Mutex<Vec<(Question, Option<GemmPlan>)>>,
    filters: Mutex<Vec<(Layout, Arc<Filters>)>>,
}

impl FilterCache {
    fn plan(&self, question: Question) -> Option<GemmPlan> {
        let mut known = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = known.iter().find(|(other, _)| *other == question) {
            return *plan;
        }
        let plan = question.answer();
        if known.len() == REMEMBERED_PLANS {
            known.remove(0);
        }
        known.push((question, plan));
        plan
    }

    fn get(&self, weight: &Tensor, plan: &GemmPlan, precision: Precision) -> Result<Arc<Filters>> {
        let layout = Layout {
            precision,
            tile: plan.tile,
            vector_channels: plan.geometry.vector_channels,
            stage_chunks: plan.geometry.stage_chunks,
        };
        let mut known = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, filters)) = known.iter().find(|(other, _)| *other == layout) {
            return Ok(Arc::clone(filters));
        }
        let filters = Arc::new(Filters::new(weight, plan, precision)?);
        known.push((layout, Arc::clone(&filters)));
        Ok(filters)
    }
}

/// The convolution of `x`; its output has the shape `output`.
///
/// `plan` is what [`gemm_plan`] gave for the shapes of `x` and of the parameters and for `precision`.
pub(crate) fn convolve(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &Parameters<'_>,
    plan: &GemmPlan,
    precision: Precision,
    output: &[usize],
) -> Result<Convolved> {
    let (stream, dtype) = (x.stream(), x.dtype());
    let format = precision.label(dtype);
    let g = &plan.geometry;
    let filters = parameters.filters.get(parameters.weight, plan, precision)?;
    let image_shape = grid(OPERATOR, g.image_shape())?;
    let shape = grid(OPERATOR, plan.shape(&gemm_device(stream)))?;

    let y = arena.tensor(stream, output, dtype)?;
    let moments = arena.tensor(stream, &[g.moment_elements() as usize], DType::F32)?;
    let image = arena.tensor(stream, &[plan.image_words() as usize], DType::F32)?;
    let samples = g.conv.n as usize;
    let unscales = arena.tensor(stream, &[samples], DType::F32)?;
    let input = Argument::input(OPERATOR, x)?;

    // Where values are scaled but samples not scanned, what the first pass saw.
    let twice = plan.mode.scaled && g.scans == 0;
    let slots = if twice {
        samples * g.sample_blocks() as usize
    } else {
        0
    };
    let largest = arena.tensor(stream, &[slots], DType::F32)?;
    // SAFETY: `x` has the shape that the geometry was made from, `image` the plan's size, `unscales` an element for
    // each sample, and `largest` one for each block if the kernel writes it.
    unsafe {
        launch(
            stream,
            &IMPLICIT_GEMM_IMAGE,
            &[format],
            image_shape,
            (
                input.pointer(),
                image.output(),
                unscales.output(),
                largest.output(),
                *g,
            ),
        )?;
    }
    stream.moved(bytes(&[x, &image, &largest]));
    if twice {
        let shape = grid(OPERATOR, g.remake_shape())?;
        let seen = largest.read_on(OPERATOR, "largest", stream)?;
        // SAFETY: as above; `largest` was written by the kernel before.
        unsafe {
            launch(
                stream,
                &IMPLICIT_GEMM_REMAKE,
                &[format],
                shape,
                (
                    input.pointer(),
                    image.output(),
                    unscales.output(),
                    seen.pointer(),
                    *g,
                ),
            )?;
        }
        stream.moved(bytes(&[&largest]));
    }

    let convolution = Affine::open(OPERATOR, x, None, parameters.bias)?;
    let order = Affine::open(
        OPERATOR,
        x,
        parameters.norm_weight,
        Some(parameters.factors),
    )?;
    let read =
        |tensor: &'static str, of| -> Result<_> { Tensor::read_on(of, OPERATOR, tensor, stream) };
    let (image_view, image_unscales) = (read("image", &image)?, read("unscales", &unscales)?);
    let operands = read("operands", &filters.operands)?;
    let filter_unscales = read("unscales", &filters.unscales)?;
    let tile = plan.tile.name().unwrap_or_default();
    // SAFETY: image and filters are those of this plan; bias, norm weight and scale have an element for each
    // channel where they exist; `y` has an element for each output or window, `moments` the geometry's size,
    // and both are fresh.
    unsafe {
        launch(
            stream,
            &IMPLICIT_GEMM,
            &[tile.into(), format],
            shape,
            (
                image_view.pointer(),
                image_unscales.pointer(),
                operands.pointer(),
                filter_unscales.pointer(),
                convolution.bias(),
                order.weight(),
                order.bias(),
                y.output(),
                moments.output(),
                *g,
            ),
        )?;
    }
    stream.moved(bytes(&[&image, &filters.operands, &y, &moments]));
    Ok(Convolved {
        y,
        moments,
        parts: g.pixel_tiles(),
    })
}

//! The planned launches of lowered regions, before there is a program.
//!
//! They are a function of the regions, the problem, the inputs' layouts and the device's properties only.
//! [`append`](super::append) consumes them in order.

use launch_config::KernelGeometry;
use launch_config::elementwise::ChannelGeometry;
use launch_config::norm::NormGeometry;
use op_spec::graph::{ChannelAffine, LayerProblem, Operand};
use op_spec::{GroupNormProblem, Layout};

use super::chosen::Chosen;
use super::epilogue::{
    EpilogueKernels, NormScaleKernels, Pool, SeriesKernel, Store, WindowsKernel,
};
use super::lowered::Lowered;
use super::producer::Producer;
use super::region::Query;
use crate::device::Order;
use crate::error::Result;
use crate::operators::conv::plan_pad;
use crate::operators::fused::group_norm_scale_pointwise::plan_normalising;
use crate::operators::fused::{
    clamp_multiply_channel_reduction, depthwise, gemm, group_norm_scale,
    group_norm_scale_max_pool2d_clamp, max_pool2d_clamp,
    multiply_instance_norm_clamp_multiply_channel_reduction, plan_fold_scale,
    scale_max_pool2d_clamp,
};
use crate::operators::implicit_gemm::ImplicitGemm;
use crate::operators::pointwise::{ListStep, steps};
use crate::operators::{
    arithmetic, batch_norm, conv, gate, group_norm, layer_norm, norm_statistics, pad, pointwise,
    pool, rows, shuffle, softmax, upsample,
};
use crate::program::{LaunchPlan, plan_reformat};

/// Plans the launches of all regions, which run in this order.
///
/// # Errors
/// Extents that no kernel can index; more blocks than a launch takes.
pub(super) fn plan_launches(query: Query<'_>, chosen: &mut [Chosen]) -> Result<()> {
    let mut values = Values {
        written: vec![Layout::Nchw; query.graph.layers().len()],
        reformatted: Vec::new(),
        for_products: Vec::new(),
    };
    let regions = chosen.len();
    for (index, region) in chosen.iter_mut().enumerate() {
        let mut planning = Planning {
            of: query,
            values: &mut values,
            plan: LaunchPlan::default(),
        };
        planning.region(region.computed(query.problem), &region.lowered)?;
        let last = region.layers[region.layers.len() - 1];
        planning.values.written[last] = region.lowered.writes;
        if index + 1 == regions {
            // The reformats of the graph's outputs.
            for (output, &layer) in query.graph.outputs().iter().enumerate() {
                planning.in_layout(Operand::Layer(layer), query.output_layout(output))?;
            }
        }
        let plan = planning.plan;
        let launched = plan
            .launches
            .iter()
            .filter(|launch| !launch.shape.is_empty());
        region.facts.launches = launched.map(|launch| launch.kernel).collect();
        let prepared = plan.preparations.iter();
        region.facts.preparations = prepared.map(|launch| launch.kernel).collect();
        region.plan = plan;
    }
    Ok(())
}

/// Returns the geometry for the kernel that applies a gain and a shift to a tensor.
pub(super) fn geometry(affine: &ChannelAffine) -> Result<ChannelGeometry> {
    Ok(match affine {
        ChannelAffine::BatchNorm(problem) => problem.geometry()?,
        ChannelAffine::Arithmetic(problem) => problem.geometry()?,
    })
}

/// Plans the folding of a layer's parameters into a gain and a shift.
fn plan_folding(
    plan: &mut LaunchPlan,
    query: Query<'_>,
    (layer, affine): &(usize, ChannelAffine),
) -> Result<()> {
    let dtype = query.first_dtype(*layer);
    match affine {
        ChannelAffine::BatchNorm(problem) => batch_norm::plan_folding(plan, dtype, problem),
        ChannelAffine::Arithmetic(problem) => arithmetic::plan_folding(plan, dtype, problem),
    }
}

/// The layouts of a graph's values.
struct Values {
    /// The layout of each layer's output.
    written: Vec<Layout>,
    /// Values with a copy in another layout.
    reformatted: Vec<(Operand, Layout)>,
    /// Values that were reformatted for implicit GEMMs.
    for_products: Vec<(Operand, ImplicitGemm)>,
}

impl Values {
    /// Whether an earlier launch has reformatted `x` as this implicit GEMM needs it. Otherwise the GEMM's own
    /// launch does, and later ones read its result.
    fn is_reformatted(&mut self, x: Operand, gemm: &ImplicitGemm) -> bool {
        let mut known = self.for_products.iter();
        let is_known = known.any(|(of, earlier)| *of == x && gemm.reformats_as(earlier));
        if !is_known {
            self.for_products.push((x, *gemm));
        }
        is_known
    }
}

/// The state for planning the launches of a region.
struct Planning<'a> {
    of: Query<'a>,
    values: &'a mut Values,
    plan: LaunchPlan,
}

impl Planning<'_> {
    /// Plans the launches of a region, in the order in which `Appending::region` appends them.
    fn region(&mut self, layers: &[usize], lowered: &Lowered) -> Result<()> {
        let (query, plan) = (self.of, &lowered.epilogue);
        let [start, last] = [layers[0], layers[layers.len() - 1]];
        if query.problem.steps[last].output.contains(&0) {
            return Ok(());
        }
        let x = query.graph.operands(start)[0];
        if lowered.reads == Layout::Nchw || lowered.is_reformatted {
            self.in_layout(x, lowered.reads)?;
        }
        match &lowered.producer {
            Producer::Direct(operator) => return operator.plan(&mut self.plan, query.dtype),
            Producer::Tensor => self.in_layout(x, lowered.reads)?,
            Producer::OneLaunch2d(launch) => {
                self.convolution(start, lowered)?;
                launch.plan(&mut self.plan, query.dtype)?;
                return Ok(());
            }
            Producer::OneLaunch3d(launch) => {
                self.convolution(start, lowered)?;
                launch.plan(&mut self.plan, query.dtype)?;
                return Ok(());
            }
            Producer::Gemm(gemm) => {
                self.convolution(start, lowered)?;
                gemm::plan(&mut self.plan, query.dtype, gemm)?;
            }
            Producer::ConvMean(of) => {
                self.convolution(start, lowered)?;
                return of.plan(&mut self.plan);
            }
            Producer::DirectNhwc(geometry) => {
                conv::plan_nhwc(&mut self.plan, query.dtype, geometry)?;
            }
            Producer::ImplicitGemm(gemm) => {
                self.convolution(start, lowered)?;
                // Each region pads its input by itself.
                let is_reformatted =
                    !query.has_explicit_padding(start) && self.values.is_reformatted(x, gemm);
                gemm.plan(&mut self.plan, query.dtype, is_reformatted)?;
            }
            Producer::Depthwise(geometry) => {
                self.convolution(start, lowered)?;
                depthwise::plan(&mut self.plan, query.dtype, geometry, plan.has_store())?;
            }
            Producer::DepthwiseNhwc(kernel) => {
                self.convolution(start, lowered)?;
                depthwise::plan_nhwc(&mut self.plan, query.dtype, kernel)?;
            }
            Producer::Transposed(transposed) => {
                self.convolution(start, lowered)?;
                let is_reformatted = |gemm: &ImplicitGemm| self.values.is_reformatted(x, gemm);
                transposed.plan(&mut self.plan, query.dtype, is_reformatted)?;
            }
        }
        let output = &query.problem.steps[last].output;
        self.epilogue(lowered, output)
    }

    /// Plans the reformat of a value to a layout, unless it has that layout or was reformatted before.
    fn in_layout(&mut self, value: Operand, layout: Layout) -> Result<()> {
        let query = self.of;
        let (shape, mut order) = match value {
            Operand::Input(input) => (query.input_shape(input), query.order(input)),
            Operand::Layer(layer) => {
                let shape = query.problem.steps[layer].output.clone();
                let order = Order::of_layout(&shape, self.values.written[layer])?;
                (shape, order)
            }
        };
        let reformatted = &mut self.values.reformatted;
        if order == Order::of_layout(&shape, layout)? || reformatted.contains(&(value, layout)) {
            return Ok(());
        }
        // NHWC copies are made from NCHW.
        if reformatted.contains(&(value, Layout::Nchw)) {
            order = Order::Dense;
        }
        reformatted.extend([(value, Layout::Nchw), (value, layout)]);
        plan_reformat(&mut self.plan, (&shape, &order), layout, query.dtype)
    }

    /// Plans the convolution's preliminary launches: padding, the folding of the epilogue's gain and shift,
    /// and the reformat of its residual.
    fn convolution(&mut self, layer: usize, lowered: &Lowered) -> Result<()> {
        let plan = &lowered.epilogue;
        let (query, to, dtype) = (self.of, &mut self.plan, self.of.dtype);
        match &query.problem.steps[layer].problem {
            LayerProblem::Conv1d(conv) => plan_pad(to, dtype, conv)?,
            LayerProblem::Conv2d(conv) => plan_pad(to, dtype, conv)?,
            LayerProblem::Conv3d(conv) => plan_pad(to, dtype, conv)?,
            _ => {}
        }
        if let EpilogueKernels::Store(store) = plan {
            let folded = match lowered.folded_by_producer() {
                Some(_) => &[][..],
                None => &store.affine,
            };
            let mut affine = folded.iter().chain(&store.affine_behind);
            affine.try_for_each(|of| plan_folding(to, query, of))?;
        }
        if let EpilogueKernels::Store(Store {
            residual: Some(layer),
            ..
        }) = plan
        {
            self.residual(*layer, lowered.writes)?;
        }
        Ok(())
    }

    /// Plans the reformat of the second operand of a layer to a layout.
    fn residual(&mut self, layer: usize, layout: Layout) -> Result<()> {
        self.in_layout(self.of.graph.operands(layer)[1], layout)
    }

    /// Plans the reformats of the residuals of a list to a layout.
    fn residuals(&mut self, list: &[ListStep<usize>], layout: Layout) -> Result<()> {
        for step in list {
            if let ListStep::Residual(_, layer) = step {
                self.residual(*layer, layout)?;
            }
        }
        Ok(())
    }

    /// Plans the epilogue of a producer. The epilogue's output has the shape `output`.
    fn epilogue(&mut self, lowered: &Lowered, output: &[usize]) -> Result<()> {
        let (query, dtype) = (self.of, self.of.dtype);
        match &lowered.epilogue {
            EpilogueKernels::Store(Store {
                further: Some(further),
                ..
            }) => further.steps.plan(&mut self.plan),
            EpilogueKernels::None | EpilogueKernels::Store(_) => Ok(()),
            EpilogueKernels::Operator(layer, operator) => {
                if query.graph.operands(*layer).len() == 2 {
                    self.residual(*layer, Layout::Nchw)?;
                }
                operator.plan(&mut self.plan, dtype)
            }
            EpilogueKernels::Affine(layer, affine) => {
                plan_folding(&mut self.plan, query, &(*layer, *affine))?;
                batch_norm::plan_map(&mut self.plan, dtype, &geometry(affine)?)
            }
            EpilogueKernels::Map(map) => {
                let norm = self.statistics(lowered, &map.norm.1)?;
                self.residuals(&map.list, lowered.writes)?;
                plan_normalising(&mut self.plan, dtype, &norm, norm.spatial, &map.list)
            }
            EpilogueKernels::ChannelsLastNorm(of) => {
                self.residuals(&of.list, lowered.writes)?;
                of.launches.plan(&mut self.plan, dtype, &of.list)
            }
            EpilogueKernels::Pool(pool) => self.pool(lowered, pool),
            EpilogueKernels::Windows(windows) => {
                match &windows.kernel {
                    WindowsKernel::Pool(windows) => {
                        pool::plan_nhwc(&mut self.plan, dtype, windows)?;
                    }
                    WindowsKernel::Upsample(geometry) => {
                        upsample::plan_nhwc(&mut self.plan, dtype, geometry)?;
                    }
                }
                let len = output.iter().map(|&extent| extent as u64).product();
                pointwise::plan(&mut self.plan, dtype, len, &steps::<()>(&windows.functions))
            }
            EpilogueKernels::Pixels(steps) => steps.plan(&mut self.plan),
            EpilogueKernels::ReducedChannels(max) => {
                let of = &max.reduction;
                let Some((_, norm)) = &max.norm else {
                    return clamp_multiply_channel_reduction::plan(&mut self.plan, dtype, of);
                };
                self.statistics(lowered, norm)?;
                multiply_instance_norm_clamp_multiply_channel_reduction::plan(
                    &mut self.plan,
                    dtype,
                    of,
                )
            }
            EpilogueKernels::NormScale(of) => {
                let (plan, norm) = (&mut self.plan, &of.norm.1);
                match of.by {
                    NormScaleKernels::Resident(shape) => {
                        return group_norm_scale::plan_resident(plan, dtype, shape);
                    }
                    NormScaleKernels::Separate => {}
                    NormScaleKernels::Folded => {
                        plan_fold_scale(plan, query.first_dtype(of.scale), norm.shape.c)?;
                    }
                }
                group_norm::plan(plan, dtype, &norm.geometry()?)
            }
            EpilogueKernels::Series(of) => {
                let mut affine = of.behind.affine.iter();
                affine.try_for_each(|of| plan_folding(&mut self.plan, query, of))?;
                if let Some(layer) = of.behind.residual {
                    self.residual(layer, lowered.writes)?;
                }
                match &of.kernel {
                    SeriesKernel::Softmax(geometry) => {
                        softmax::plan(&mut self.plan, dtype, geometry)
                    }
                    SeriesKernel::LayerNorm(_, problem) => {
                        layer_norm::plan_rows(&mut self.plan, dtype, problem)
                    }
                }
            }
            EpilogueKernels::Gate(plan) => {
                self.residual(plan.layer, Layout::Nchw)?;
                gate::plan(&mut self.plan, dtype, &plan.problem, plan.nhwc.as_ref())
            }
            EpilogueKernels::Rows(plan) => {
                let operands = query.graph.operands(plan.layer).iter().zip(&plan.copies);
                for (&other, copy) in operands.skip(1) {
                    if copy.is_some() {
                        self.in_layout(other, plan.layout)?;
                    }
                }
                rows::plan(&mut self.plan, dtype, &plan.copies)
            }
            EpilogueKernels::Pad(of) => pad::plan(&mut self.plan, dtype, &of.geometry),
            EpilogueKernels::Shuffle(of) => {
                shuffle::plan(&mut self.plan, dtype, &of.problem, of.layout)
            }
            EpilogueKernels::List(list) => {
                self.residuals(&list.steps, lowered.writes)?;
                let len = output.iter().map(|&extent| extent as u64).product();
                pointwise::plan(&mut self.plan, dtype, len, &list.steps)
            }
        }
    }

    /// Plans the statistics that a norm needs of the producer's output. Returns the norm of these statistics.
    fn statistics(&mut self, lowered: &Lowered, of: &GroupNormProblem) -> Result<NormGeometry> {
        let norm = of.geometry()?;
        let norm = match lowered.moments {
            Some(moments) => {
                moments.plan(&mut self.plan, &norm)?;
                moments.combined(norm)
            }
            None => {
                norm_statistics::plan(&mut self.plan, self.of.dtype, &norm)?;
                norm
            }
        };
        match of.over_batch {
            true => batch_norm::plan_of_batch(&mut self.plan, norm),
            false => Ok(norm),
        }
    }

    fn pool(&mut self, lowered: &Lowered, pool: &Pool) -> Result<()> {
        let dtype = self.of.dtype;
        let norm = match &pool.norm {
            Some((_, norm)) => Some(self.statistics(lowered, norm)?),
            None => None,
        };
        let plan = &mut self.plan;
        if let (Some(norm), true) = (&norm, pool.in_producer) {
            let [_, h, w] = pool.pool.output;
            let list = steps::<()>(&pool.functions);
            return plan_normalising(plan, dtype, norm, (h * w) as u64, &list);
        }
        match (&norm, pool.factors) {
            (Some(norm), _) => {
                group_norm_scale_max_pool2d_clamp::plan(plan, dtype, norm, &pool.pool)?;
            }
            (None, Some(_)) => scale_max_pool2d_clamp::plan(plan, dtype, &pool.pool)?,
            (None, None) => max_pool2d_clamp::plan(plan, dtype, &pool.pool)?,
        }
        let (_, rest) = pool.bounds_and_rest();
        let len = pool.output.iter().map(|&extent| extent as u64).product();
        pointwise::plan(plan, dtype, len, &steps::<()>(rest))
    }
}

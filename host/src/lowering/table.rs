//! The table of producers, in order of preference.
//!
//! `can_implement` returns how a row implements a region, or the rule that the region breaks. `pays` tells
//! whether an implementing row is preferred to the rows below it, or why not. Both depend on problem, layout,
//! device properties and options only.

use launch_config::Refusal;
use launch_config::conv::ConvGeometry;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::implicit_gemm::{RoundedEpilogue, combining};
use launch_config::norm::NormGeometry;
use op_spec::graph::NormalForm;
use op_spec::{Layout, ReductionOp};

use super::epilogue::{self, EpilogueKernels, Pool, ReducedChannels, Store, Windows};
use super::lowered::Lowered;
use super::pays;
use super::producer::{Producer, conv_geometry, norm_geometry};
use super::reduced::{self, LIST};
use super::region::Region;
use super::transposed::transposed;
use super::without_norm::{few_filters, gemm_without_norm, matrix_product};
use crate::operators::fused::{RowMoments, gemm};
use crate::operators::implicit_gemm::ImplicitGemm;
use crate::operators::one_launch::conv2d_group_norm_scale_max_pool_clamp::OneLaunch2d;
use crate::operators::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::OneLaunch3d;
use crate::operators::own_kernels;

/// A row of the table.
pub(super) struct Row {
    /// The row's name in partitions.
    pub(super) name: &'static str,
    /// A description of the regions that it implements; `can_implement` has the exact rules.
    pub(super) implements: &'static str,
    /// A description of the producer's kernels.
    pub(super) summary: &'static str,
    /// Lowers a region, or returns the rule that the region breaks.
    pub(super) can_implement: fn(&Row, &Region<'_>, &NormalForm) -> Result<Lowered, Refusal>,
    /// Whether the row is preferred to the rows below it; otherwise the reason.
    pub(super) pays: fn(&Region<'_>, &Lowered) -> Result<(), &'static str>,
}

impl Row {
    /// The refusal of layers that the row does not implement.
    fn other_layers(&self) -> Refusal {
        Refusal::Layers {
            expected: self.implements,
        }
    }

    /// A description of the kernels of producer and epilogue.
    pub(super) fn summary(&self, lowered: &Lowered) -> String {
        let moments = match lowered.moments {
            Some(_) => ", with moments for the norm",
            None => "",
        };
        let statistics = lowered.has_statistics();
        let statistics = statistics.then(|| "statistics of the norm".to_owned());
        let kernels = statistics.into_iter().chain(lowered.epilogue_summary());
        let kernels: Vec<String> = kernels.collect();
        let separator = match lowered.producer {
            _ if kernels.is_empty() => "",
            Producer::Tensor => ": ",
            _ => ", then ",
        };
        let kernels = kernels.join(", then ");
        format!("{}{moments}{separator}{kernels}", self.summary)
    }
}

/// Every row, in order of preference.
pub(super) static TABLE: [Row; 11] = [
    Row {
        name: "one-launch-2d",
        implements: "convolution, norm, scale, max_pool2d, clamp; `sm_90a`, 8 to 64 channels, 3x3 filters, width 128, height 10 to 133, pooling by 4",
        summary: "one launch on warpgroup MMA, a cluster for each sample",
        pays: pays::always,
        can_implement: |row, region, form| {
            let (_, conv) = form.convolution.ok_or(row.other_layers())?;
            let pool = Pool::of(region, &form.epilogue)?;
            let (Some((_, norm)), Some(clamp), Some(_)) = (pool.norm, pool.clamp(), pool.factors)
            else {
                return Err(row.other_layers());
            };
            if norm.over_batch {
                return Err(row.other_layers());
            }
            let of = region.of;
            let launch = OneLaunch2d::choose(
                (&conv, &norm, &pool.pool, &clamp),
                of.dtype,
                of.properties,
                of.options.precision,
            )?;
            Ok(Lowered::without_moments(
                Producer::OneLaunch2d(launch),
                EpilogueKernels::Pool(pool),
            ))
        },
    },
    Row {
        name: "one-launch-3d",
        implements: "convolution, scale, norm of each channel, clamp, the same scale, max over the channels; 163 to 232 KB of shared memory a block, 3 to 16 channels, 3x3x3 filters, width 32, a sample of up to 17,160 words a plane, no weight and bias of the norm",
        summary: "one launch on tensor cores, a block or a cluster for each sample",
        pays: pays::one_launch_3d,
        can_implement: |row, region, form| {
            let (_, conv) = form.convolution.ok_or(row.other_layers())?;
            let reduced = ReducedChannels::of(region, &form.epilogue)?;
            let norm = reduced.norm.filter(|(_, norm)| !norm.over_batch);
            let (_, norm) = norm.ok_or(row.other_layers())?;
            if reduced.reduction.operation() != ReductionOp::Max {
                return Err(Refusal::Needs("max as the reduction over the channels"));
            }
            let of = region.of;
            let launch = OneLaunch3d::choose(
                (&conv, &norm, &reduced.clamp),
                of.dtype,
                of.properties,
                of.options.fused(),
            )?;
            Ok(Lowered::without_moments(
                Producer::OneLaunch3d(launch),
                EpilogueKernels::ReducedChannels(reduced),
            ))
        },
    },
    Row {
        name: "conv-mean",
        implements: "in f32 from NCHW: a convolution, transposed or not, perhaps operations with constants, and the mean or the sum over all of space; filters of up to 32 taps, up to 8 along an axis",
        summary: "sums of the inputs that meet each tap, times the filters",
        pays: pays::conv_mean,
        can_implement: |row, region, form| {
            let of = match (&form.convolution, &form.transposed) {
                (Some((_, conv)), _) => conv.into(),
                (_, Some((_, problem))) => problem.into(),
                _ => return Err(row.other_layers()),
            };
            let producer = Producer::ConvMean(reduced::conv_mean(region, &of, &form.epilogue)?);
            Ok(Lowered::without_moments(producer, EpilogueKernels::None))
        },
    },
    Row {
        name: "depthwise",
        implements: "a depthwise convolution with a norm and what `tensor` does after a norm; or without a norm, perhaps with batch_norm and arithmetic with parameters, perhaps with up to eight functions and a residual; filters of up to 1,024 taps",
        summary: "depthwise convolution on FMA units",
        pays: pays::depthwise,
        can_implement: |row, region, form| {
            let producer = |conv: &ConvGeometry, windows| {
                DepthwiseGeometry::new(conv, windows).map(Producer::Depthwise)
            };
            let (_, conv) = form.convolution.ok_or(row.other_layers())?;
            if let Ok(store) = Store::of(&form.epilogue)
                && !store.list.is_affine()
            {
                let conv = conv_geometry(&conv)?;
                let is_padded = region.of.has_explicit_padding(region.layers[0]);
                let multiprocessors = region.of.properties.multiprocessors;
                let producer = match NhwcKernel::new(&conv, &store.list, multiprocessors) {
                    Ok(kernel) if region.is_dense_nhwc() && !is_padded => {
                        if !kernel.takes(&store.list) {
                            return Err(Refusal::Needs("a list that keeps no value in NHWC"));
                        }
                        Producer::DepthwiseNhwc(kernel)
                    }
                    _ => producer(&conv, None)?,
                };
                return Ok(Lowered::without_moments(
                    producer,
                    EpilogueKernels::Store(store),
                ));
            }
            behind_moments(region, form, |conv, windows, _| producer(conv, windows))
        },
    },
    Row {
        name: "gemm",
        implements: "in 16 bits or fast f32 (as tf32) from NHWC to NHWC, on `sm_90a`: a convolution of one group, output channels in whole vectors of 16 bytes, strides of up to 8, a padding of up to 16 and filters that reach over up to 32 elements, without a norm, perhaps with batch_norm and arithmetic with parameters, a clamp or leaky_relu; up to eight functions behind it, or silu or hardswish, a residual, and a clamp or leaky_relu",
        summary: "a matrix product of windows and filters on tensor cores",
        pays: pays::gemm,
        can_implement: |row, region, form| {
            let (layer, conv) = form.convolution.ok_or(row.other_layers())?;
            let store = Store::of(&form.epilogue)?;
            if !gemm::applies(&store.list) {
                return Err(row.other_layers());
            }
            let has_list = RoundedEpilogue::of(&store.list).is_none();
            let reads = (store.residual.is_some(), has_list);
            let gemm = matrix_product(region, &conv_geometry(&conv)?, reads)?;
            let gemm = match region.is_given_in_nhwc(layer) {
                true => gemm.with_channels_last_filters(),
                false => gemm,
            };
            // A copy of few channels takes the place of a reformat.
            let in_place = gemm.of_channels_first().filter(|_| region.is_reformatted);
            let producer = Producer::Gemm(in_place.unwrap_or(gemm));
            let lowered = Lowered::without_moments(producer, EpilogueKernels::Store(store));
            let lowered = lowered.in_layout(region.input);
            Ok(match in_place {
                Some(_) => lowered.reading(Layout::Nchw),
                None => lowered,
            })
        },
    },
    Row {
        name: "direct-nhwc",
        implements: "in 16 bits from NHWC to NHWC: a convolution alone, of one group, input channels in whole vectors of eight, at most 8 filters, at most 6,144 filter values in all",
        summary: "direct convolution of channels-last tensors on FMA units",
        pays: pays::direct_nhwc,
        can_implement: |row, region, form| {
            let (layer, conv) = form.convolution.ok_or(row.other_layers())?;
            if region.layers.len() > 1 {
                return Err(row.other_layers());
            }
            let geometry = few_filters(region, &conv_geometry(&conv)?, layer)?;
            let producer = Producer::DirectNhwc(geometry);
            Ok(Lowered::without_moments(producer, EpilogueKernels::None))
        },
    },
    Row {
        name: "implicit-gemm",
        implements: "a convolution of any shape and attribute whose halo tile fits shared memory: (a) with a norm and what `tensor` does after a norm; (b) without a norm, perhaps with batch_norm and arithmetic with parameters, perhaps with up to eight functions and arithmetic with parameters among them, and in f32 on `sm_90a` to NCHW rows of whole vectors a residual; (c) in 16 bits to NHWC, as (b), or with silu or hardswish, a residual, and a clamp or leaky_relu behind it; (d) from NCHW to NCHW on `sm_90a`, as (b), and at the end a pool of adjacent windows of 1, 2, 4 or 8 rows and columns, or a reduction over channels, space or both",
        summary: "implicit GEMM on tensor cores",
        pays: pays::implicit_gemm,
        can_implement: |row, region, form| {
            let of = region.of;
            let (layer, conv) = form.convolution.ok_or(row.other_layers())?;
            let strides = region.strides();
            let with_filters = |gemm: ImplicitGemm| match region.is_given_in_nhwc(layer) {
                true => gemm.with_filters_in_place(),
                false => gemm,
            };
            if form.epilogue.reduce.is_some() && form.epilogue.norm.is_none() {
                let (gemm, store) = reduced::convolution(region, &conv, &form.epilogue)?;
                let producer = Producer::ImplicitGemm(with_filters(gemm));
                return Ok(Lowered::without_moments(
                    producer,
                    EpilogueKernels::Store(store),
                ));
            }
            if let Ok(store) = Store::of(&form.epilogue) {
                let gemm =
                    gemm_without_norm(region, &conv_geometry(&conv)?, strides, region.output)?;
                if !gemm.can_store(&store.list, of.dtype) {
                    return Err(LIST);
                }
                let producer = Producer::ImplicitGemm(with_filters(gemm));
                return Ok(Lowered::without_moments(
                    producer,
                    EpilogueKernels::Store(store),
                ));
            }
            behind_moments(region, form, |conv, windows, row_channels| {
                let rows = (windows, row_channels);
                let options = of.options.fused();
                ImplicitGemm::with_moments(conv, rows, of.dtype, of.properties, options, strides)
                    .map(|gemm| Producer::ImplicitGemm(with_filters(gemm)))
            })
        },
    },
    Row {
        name: "direct",
        implements: "a convolution alone",
        summary: "direct convolution on FMA units",
        pays: pays::always,
        can_implement: |row, region, form| {
            form.convolution.ok_or(row.other_layers())?;
            let &[layer] = region.layers else {
                return Err(row.other_layers());
            };
            let problem = &region.of.problem.steps[layer].problem;
            own_kernels(problem).ok_or(row.other_layers())?;
            let producer = Producer::Direct(*problem);
            Ok(Lowered::without_moments(producer, EpilogueKernels::None))
        },
    },
    Row {
        name: "transposed",
        implements: "a transposed convolution, perhaps with batch_norm and arithmetic with parameters, perhaps with up to eight functions (with exponentials, where that is faster than a launch of their own) and a residual; or, from NCHW to NCHW on `sm_90a`, with a pool of windows of whole strides side by side at the end",
        summary: "convolutions of phases by the kernels of a convolution alone",
        pays: pays::transposed,
        can_implement: |row, region, form| {
            let (_, problem) = form.transposed.ok_or(row.other_layers())?;
            if form.epilogue.reduce.is_some() {
                let (transposed, store) = reduced::transposed(region, &problem, &form.epilogue)?;
                let producer = Producer::Transposed(transposed);
                return Ok(Lowered::without_moments(
                    producer,
                    EpilogueKernels::Store(store),
                ));
            }
            let epilogue = EpilogueKernels::Store(Store::of(&form.epilogue)?);
            let transposed = transposed(region, &problem, epilogue.store_epilogue())?;
            let producer = Producer::Transposed(transposed);
            Ok(Lowered::without_moments(producer, epilogue))
        },
    },
    Row {
        name: "tensor",
        implements: "layers without a convolution: one by itself; a norm with scale or prelu, functions and residuals; norm, scale, max_pool2d and functions; scale, norm, clamp, scale and a reduction over the channels as in problem 79; the last two without a norm; softmax or a layer norm of rows, perhaps arithmetic with parameters, up to eight functions and a residual behind it; functions and residuals",
        summary: "kernels that read a tensor",
        pays: pays::tensor,
        can_implement: |_, region, form| {
            let epilogue = epilogue::of_tensor(region, form)?;
            let epilogue =
                Windows::of(region, &epilogue).map_or(epilogue, EpilogueKernels::Windows);
            Ok(Lowered::without_moments(Producer::Tensor, epilogue))
        },
    },
    Row {
        name: "folded",
        implements: "group_norm, scale",
        summary: "kernels that read a tensor",
        pays: pays::always,
        can_implement: |row, region, form| match epilogue::of_tensor(region, form)? {
            EpilogueKernels::NormScale(of) => Ok(Lowered::without_moments(
                Producer::Tensor,
                EpilogueKernels::NormScale(of.folded()),
            )),
            _ => Err(row.other_layers()),
        },
    },
];

/// Lowers a convolution with moments and the epilogue after its norm. `choose` returns the convolution's
/// configuration for the windows that it pools (if any) and the channels of a norm's row.
fn behind_moments(
    region: &Region<'_>,
    form: &NormalForm,
    choose: impl Fn(&ConvGeometry, Option<[u32; 2]>, u32) -> Result<Producer, Refusal>,
) -> Result<Lowered, Refusal> {
    let expected = "a convolution, a norm";
    let (_, conv) = form.convolution.ok_or(Refusal::Layers { expected })?;
    let mut epilogue = epilogue::with_norm(region, &form.epilogue)?;
    let conv = conv_geometry(&conv)?;
    let (_, norm) = epilogue.norm().ok_or(Refusal::Layers { expected })?;
    let geometry = norm_geometry(&norm)?;
    let row_channels = geometry.row_channels;
    if let EpilogueKernels::Pool(pool) = &mut epilogue
        && let Some(windows) = pool.windows_side_by_side()
        && let Ok(producer) = choose(&conv, Some(windows), row_channels)
    {
        pool.in_producer = true;
        let moments = moments(region, &producer, &epilogue, geometry);
        return Ok(Lowered::with_moments(producer, epilogue, moments));
    }
    let producer = choose(&conv, None, row_channels)?;
    let moments = moments(region, &producer, &epilogue, geometry);
    Ok(Lowered::with_moments(producer, epilogue, moments))
}

/// Returns the moments of a norm's row, and the launches that combine them. A few moments are combined by the
/// normalising kernel itself.
fn moments(
    region: &Region<'_>,
    producer: &Producer,
    epilogue: &EpilogueKernels,
    norm: NormGeometry,
) -> Option<RowMoments> {
    let by_readers = match epilogue {
        EpilogueKernels::Map(_) => norm.apply(region.of.dtype.size() as u32).combined_moments(),
        _ => 1,
    };
    let count = producer.moments_of_row(norm.row_channels)?;
    let combining = combining(count, by_readers);
    Some(RowMoments { count, combining })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_design_document_has_this_table() {
        let design = include_str!("../../../DESIGN.md");
        let mut table = "| row | implements | what the producer runs |\n|---|---|---|\n".to_owned();
        for Row {
            name,
            implements,
            summary,
            ..
        } in &TABLE
        {
            table += &format!("| `{name}` | {implements} | {summary} |\n");
        }
        assert!(design.contains(&table), "DESIGN.md should have\n{table}");
    }

    #[test]
    fn rows_have_names_of_their_own() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.name != row.name));
        }
    }
}

//! The table of kernels: what does a run of layers, read from top to bottom.
//!
//! `can` says whether a row's kernels can do a run, or which rule it breaks; `should`, of a run that they can do, whether
//! they are to be taken before the rows below, or why not. Both look at problem, device properties and options only.

use op_spec::launch::Refusal;
use op_spec::launch::implicit_gemm::GemmConfig;
use op_spec::launch::stencil::StencilGeometry;

use super::question::RunQuestion;
use crate::ops::ConvAlgorithm;
use crate::ops::any_shape::{PoolingChoice, StatisticsConvolution, conv_geometry};
use crate::ops::conv2d_group_norm_scale_max_pool_clamp::OneLaunch2d;
use crate::ops::conv3d_multiply_instance_norm_clamp_multiply_max::OneLaunch3d;
use crate::ops::forms::{PoolingForm, ReducingForm};
use crate::ops::implicit_gemm::gemm_config;

/// Kernels that were chosen for a run, with all that was decided about them.
#[derive(Debug)]
pub(super) enum Kernels {
    /// Convolution, norm, scale, pool and clamp in one launch.
    OneLaunch2d(PoolingForm, OneLaunch2d),
    /// Convolution, scale, norm, clamp, scale and channel_max in one launch.
    OneLaunch3d(ReducingForm, OneLaunch3d),
    /// A convolution that leaves statistics, then norm, scale, pool and clamp.
    ConvolutionThenPool(PoolingForm, PoolingChoice),
    /// A convolution that leaves statistics, then norm, clamp, scale and channel_max.
    ConvolutionThenReduce(ReducingForm, StatisticsConvolution),
    /// A convolution alone.
    Convolution(ConvAlgorithm),
    /// Several operators without a convolution.
    Partial(Partial),
    /// Any other operator alone.
    Operator,
}

/// Fusions of operators without a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partial {
    NormScalePoolClamp,
    ScaleNormClampScaleMax,
    NormScale,
    /// The scale in the norm's weight and bias beforehand.
    NormFoldedScale,
    ScalePoolClamp,
    PoolClamp,
    ClampScaleMax,
}

/// A row of the table.
pub(super) struct Row {
    /// By which a partition asks for it.
    pub(super) name: &'static str,
    /// Which runs of layers it is for, in words; `can` knows it exactly. Of a partial fusion, the operators.
    pub(super) takes: &'static str,
    /// What runs, in words.
    pub(super) summary: &'static str,
    pub(super) can: fn(&Row, &RunQuestion<'_>) -> Result<Kernels, Refusal>,
    pub(super) should: fn(&RunQuestion<'_>, &Kernels) -> Result<(), &'static str>,
}

/// Every row. Fusions of more layers come before those of fewer.
pub(super) const TABLE: [Row; 15] = [
    Row {
        name: "one-launch-2d",
        takes: "convolution, norm, scale, max_pool2d, clamp; `sm_90a`, 8 to 64 channels, 3x3 filters, width 128, height 10 to 133, pooling by 4",
        summary: "one launch on warpgroup products, a cluster for each sample",
        can: |_, run| {
            let form = pooling_form(run)?;
            let of = run.of;
            let launch = OneLaunch2d::choose(&form, of.dtype, of.properties, of.options.precision)?;
            Ok(Kernels::OneLaunch2d(form, launch))
        },
        should: always,
    },
    Row {
        name: "one-launch-3d",
        takes: "convolution, scale, norm of each channel, clamp, the same scale, channel_max; 163 to 232 KB of shared memory a block, 3 to 16 channels, 3x3x3 filters, width 32, a sample of up to 17,160 words a plane, no weight and bias of the norm",
        summary: "one launch on tensor cores, a block or a cluster for each sample",
        can: |_, run| {
            let form = reducing_form(run)?;
            let of = run.of;
            let launch = OneLaunch3d::choose(&form, of.dtype, of.properties, of.options.fused())?;
            Ok(Kernels::OneLaunch3d(form, launch))
        },
        should: |run, kernels| match kernels {
            Kernels::OneLaunch3d(_, launch) if !launch.fills && !run.of.options.batch_invariant => {
                Err("too few samples to fill the device with a block for each")
            }
            _ => Ok(()),
        },
    },
    Row {
        name: "stencil",
        takes: "either of the two forms above, depthwise, filters of up to 1,024 taps",
        summary: "depthwise convolution with statistics on FMA, then one kernel for the rest",
        can: |_, run| convolution_with_statistics(run, stencil),
        should: always,
    },
    Row {
        name: "implicit-gemm",
        takes: "either form, any shape and attribute; a patch of the input that fits shared memory",
        summary: "implicit matrix product with statistics on tensor cores, then one kernel for the rest",
        can: |_, run| convolution_with_statistics(run, gemm),
        should: |run, _| {
            let form = run.form.as_ref().and_then(|form| form.convolution);
            let geometry = form.and_then(|(_, conv)| conv.geometry().ok());
            match geometry {
                Some(geometry) if StencilGeometry::check(&geometry).is_ok() => {
                    Err("depthwise, of which tensor cores would multiply mostly zeros")
                }
                Some(geometry) if !GemmConfig::pays(&geometry) => {
                    Err("too few products for each value of the input to pay for its layout")
                }
                _ => Ok(()),
            }
        },
    },
    Row {
        name: "direct",
        takes: "a convolution alone",
        summary: "direct convolution",
        can: |row, run| convolution(row, run, ConvAlgorithm::Direct),
        should: always,
    },
    Row {
        name: "im2col",
        takes: "a convolution alone",
        summary: "convolution by a column matrix and a matrix product",
        can: |row, run| convolution(row, run, ConvAlgorithm::Im2col),
        should: always,
    },
    Row {
        name: "norm-scale-pool-clamp",
        takes: "group_norm, scale, max_pool2d, clamp",
        summary: "statistics, then norm, scale, pool and clamp in one kernel",
        can: |row, run| partial(row, run, Partial::NormScalePoolClamp),
        should: always,
    },
    Row {
        name: "scale-norm-clamp-scale-max",
        takes: "scale, instance_norm, clamp, the same scale, channel_max",
        summary: "statistics, then scale, norm, clamp, scale and maximum in one kernel",
        can: |row, run| {
            let kernels = partial(row, run, Partial::ScaleNormClampScaleMax)?;
            same_factor(run, [run.layers.start, run.layers.start + 3])?;
            Ok(kernels)
        },
        should: always,
    },
    Row {
        name: "norm-scale",
        takes: "group_norm, scale",
        summary: "norm and scale in one kernel, or two where groups do not fit shared memory",
        can: |row, run| partial(row, run, Partial::NormScale),
        should: always,
    },
    Row {
        name: "folded",
        takes: "group_norm, scale",
        summary: "norm whose weight and bias have the scale in them",
        can: |row, run| partial(row, run, Partial::NormFoldedScale),
        should: always,
    },
    Row {
        name: "scale-pool-clamp",
        takes: "scale, max_pool2d, clamp",
        summary: "scale, pool and clamp in one kernel",
        can: |row, run| partial(row, run, Partial::ScalePoolClamp),
        should: always,
    },
    Row {
        name: "pool-clamp",
        takes: "max_pool2d, clamp",
        summary: "pool and clamp in one kernel",
        can: |row, run| partial(row, run, Partial::PoolClamp),
        should: always,
    },
    Row {
        name: "clamp-scale-max",
        takes: "clamp, scale, channel_max",
        summary: "clamp, scale and maximum in one kernel",
        can: |row, run| partial(row, run, Partial::ClampScaleMax),
        should: always,
    },
    Row {
        name: "norm",
        takes: "group_norm or instance_norm alone",
        summary: "statistics, then the norm",
        can: |_, run| match run.operators()[..] {
            ["group_norm" | "instance_norm"] => Ok(Kernels::Operator),
            _ => Err(Refusal::Layers {
                expected: "a norm alone",
            }),
        },
        should: always,
    },
    Row {
        name: "operator",
        takes: "any other operator alone",
        summary: "one kernel",
        can: |_, run| match run.operators()[..] {
            [name] if !["conv2d", "conv3d", "group_norm", "instance_norm"].contains(&name) => {
                Ok(Kernels::Operator)
            }
            _ => Err(Refusal::Layers {
                expected: "one operator that is neither convolution nor norm",
            }),
        },
        should: always,
    },
];

fn always(_: &RunQuestion<'_>, _: &Kernels) -> Result<(), &'static str> {
    Ok(())
}

/// A convolution alone.
fn convolution(
    row: &Row,
    run: &RunQuestion<'_>,
    algorithm: ConvAlgorithm,
) -> Result<Kernels, Refusal> {
    match run.operators()[..] {
        ["conv2d" | "conv3d"] => Ok(Kernels::Convolution(algorithm)),
        _ => Err(row.other_layers()),
    }
}

/// A fusion of the operators that the row names.
fn partial(row: &Row, run: &RunQuestion<'_>, partial: Partial) -> Result<Kernels, Refusal> {
    let wanted = row.takes.split(", ");
    let wanted = wanted.map(|operator| operator.trim_start_matches("the same "));
    match wanted.eq(run.operators()) {
        true => Ok(Kernels::Partial(partial)),
        false => Err(row.other_layers()),
    }
}

impl Row {
    /// The refusal of layers that are not the row's.
    fn other_layers(&self) -> Refusal {
        let expected = self.takes;
        Refusal::Layers { expected }
    }
}

/// Refuses two scales of different factors.
fn same_factor(run: &RunQuestion<'_>, layers: [usize; 2]) -> Result<(), Refusal> {
    let [first, second] = layers.map(|layer| run.of.chain.parameters_of(layer));
    match first == second {
        true => Ok(()),
        false => Err(Refusal::Needs(
            "the same factor before the norm and behind the clamp",
        )),
    }
}

fn pooling_form(run: &RunQuestion<'_>) -> Result<PoolingForm, Refusal> {
    PoolingForm::of(run.of.problem, run.form.as_ref())
}

fn reducing_form(run: &RunQuestion<'_>) -> Result<ReducingForm, Refusal> {
    let form = ReducingForm::of(run.of.problem, run.form.as_ref())?;
    same_factor(run, form.multiply)?;
    Ok(form)
}

/// What chooses a convolution with statistics whose outputs are pooled in windows that lie side by side, or are not.
type Choose = fn(
    &RunQuestion<'_>,
    &op_spec::ConvProblem<3>,
    Option<[u32; 2]>,
) -> Result<StatisticsConvolution, Refusal>;

/// A convolution with statistics for either form.
fn convolution_with_statistics(run: &RunQuestion<'_>, choose: Choose) -> Result<Kernels, Refusal> {
    let pooling = match pooling_form(run) {
        Ok(form) => form,
        Err(of_pooling) => {
            let form = reducing_form(run).map_err(|of_reducing| match of_reducing {
                Refusal::Layers { .. } => of_pooling,
                other => other,
            })?;
            let convolution = choose(run, &form.conv, None)?;
            return Ok(Kernels::ConvolutionThenReduce(form, convolution));
        }
    };
    let choice =
        PoolingChoice::choose(&pooling.pool, |windows| choose(run, &pooling.conv, windows))?;
    Ok(Kernels::ConvolutionThenPool(pooling, choice))
}

fn stencil(
    _: &RunQuestion<'_>,
    conv: &op_spec::ConvProblem<3>,
    windows: Option<[u32; 2]>,
) -> Result<StatisticsConvolution, Refusal> {
    let geometry = conv_geometry(conv)?;
    StencilGeometry::new(&geometry, windows).map(StatisticsConvolution::Stencil)
}

fn gemm(
    run: &RunQuestion<'_>,
    conv: &op_spec::ConvProblem<3>,
    windows: Option<[u32; 2]>,
) -> Result<StatisticsConvolution, Refusal> {
    let (of, options) = (run.of, run.of.options.fused());
    let geometry = conv_geometry(conv)?;
    let config = gemm_config(&geometry, windows, of.dtype, of.properties, options)?;
    Ok(StatisticsConvolution::Gemm(config, options.precision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_design_document_has_this_table() {
        let design = include_str!("../../../DESIGN.md");
        let mut table = "| row | takes | what runs |\n|---|---|---|\n".to_owned();
        for Row {
            name,
            takes,
            summary,
            ..
        } in &TABLE
        {
            table += &format!("| `{name}` | {takes} | {summary} |\n");
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

//! The table of kernels: what does a run of layers, read from top to bottom.
//!
//! `can` says whether a row's kernels can do a run, or which rule it breaks; [`Kernels::should`], of a run that they can do,
//! whether they are to be taken before the rows below, or why not. Both look at problem, device properties and options only.

use op_spec::launch::Refusal;
use op_spec::launch::conv::ConvGeometry;
use op_spec::launch::depthwise::DepthwiseGeometry;
use op_spec::launch::implicit_gemm::GemmConfig;

use super::question::RunQuestion;
use crate::ops::any_shape::{PoolingChoice, StatisticsConvolution, conv_geometry};
use crate::ops::conv2d_group_norm_scale_max_pool_clamp::OneLaunch2d;
use crate::ops::conv3d_multiply_instance_norm_clamp_multiply_max::OneLaunch3d;
use crate::ops::forms::{EpilogueForm, MappedForm, MappedNorm, PoolingForm, ReducingForm};
use crate::ops::implicit_gemm::{gemm_config, gemm_config_without_norm};
use crate::ops::{ConvAlgorithm, ConvOptions};

/// Kernels that were chosen for a run, with all that was decided about them.
#[derive(Debug)]
pub(super) enum Kernels {
    /// Convolution, norm, scale, pool and clamp in one launch.
    OneLaunch2d(PoolingForm, OneLaunch2d),
    /// Convolution, scale, norm, clamp, scale and channel_max in one launch.
    OneLaunch3d(ReducingForm, OneLaunch3d),
    /// A convolution that leaves statistics, then norm, scale, pool and functions of single values.
    ConvolutionThenPool(PoolingForm, PoolingChoice),
    /// A convolution that leaves statistics, then norm, clamp, scale and channel_max.
    ConvolutionThenReduce(ReducingForm, StatisticsConvolution),
    /// A convolution that leaves statistics, then norm, scale and functions of single values.
    ConvolutionThenMap(MappedForm, StatisticsConvolution),
    /// Norm, scale and functions of single values.
    MappedNorm(MappedNorm),
    /// A convolution that no norm of its own statistics follows, by the kernels of those that leave statistics, and what its
    /// product does with the results before it writes them.
    Convolution(EpilogueForm, StatisticsConvolution),
    /// Several operators without a convolution.
    Partial,
    /// A norm with the factors of the scale behind it in its weight and bias.
    FoldedScale,
    /// Pointwise functions, one after the other.
    Pointwise,
    /// An operator alone; a convolution by these options.
    Operator(ConvOptions),
}

impl Kernels {
    /// The implicit product that they begin with, if they do.
    pub(super) fn product(&self) -> Option<&GemmConfig> {
        let convolution = match self {
            Kernels::ConvolutionThenPool(_, choice) => &choice.convolution,
            Kernels::ConvolutionThenReduce(_, convolution)
            | Kernels::ConvolutionThenMap(_, convolution)
            | Kernels::Convolution(_, convolution) => convolution,
            _ => return None,
        };
        match convolution {
            StatisticsConvolution::Gemm(config, _) => Some(config),
            StatisticsConvolution::Depthwise(_) => None,
        }
    }

    /// Whether they are to be taken for `run`, which they can do, before those of the rows below, or why not.
    pub(super) fn should(&self, run: &RunQuestion<'_>) -> Result<(), &'static str> {
        if let Kernels::OneLaunch3d(_, launch) = self
            && !(launch.fills || run.of.options.batch_invariant)
        {
            return Err("too few samples to fill the device with a block for each");
        }
        let Some(config) = self.product() else {
            return Ok(());
        };
        let conv = &config.geometry.conv;
        if DepthwiseGeometry::check(conv).is_ok() {
            Err("depthwise, of which tensor cores would multiply mostly zeros")
        } else if !GemmConfig::pays(conv) {
            Err("too few products for each value of the input to pay for its layout")
        } else {
            Ok(())
        }
    }
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
}

/// Every row. Fusions of more layers come before those of fewer.
pub(super) const TABLE: [Row; 17] = [
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
    },
    Row {
        name: "depthwise",
        takes: "convolution, norm, functions; with max_pool2d among the functions, those before it keep order; or the form of the row above; or a convolution alone; depthwise, filters of up to 1,024 taps",
        summary: "depthwise convolution with statistics on FMA, then one kernel for the rest",
        can: |_, run| {
            let depthwise = |conv: &ConvGeometry, windows| {
                DepthwiseGeometry::new(conv, windows).map(StatisticsConvolution::Depthwise)
            };
            match epilogue_form(run) {
                Ok(form) if run.layers.len() == 1 => {
                    let convolution = depthwise(&conv_geometry(&form.conv)?, None)?;
                    Ok(Kernels::Convolution(form, convolution))
                }
                _ => convolution_with_statistics(run, depthwise),
            }
        },
    },
    Row {
        name: "implicit-gemm",
        takes: "the same, any shape and attribute; a patch of the input that fits shared memory; or a convolution, perhaps batch_norm, perhaps a clamp or leaky_relu",
        summary: "implicit matrix product with statistics on tensor cores, then one kernel for the rest; without a norm, that product alone",
        can: |_, run| {
            let (of, options) = (run.of, run.of.options.fused());
            if let Ok(form) = epilogue_form(run) {
                let geometry = conv_geometry(&form.conv)?;
                let config = gemm_config_without_norm(&geometry, of.dtype, of.properties, options)?;
                let product = StatisticsConvolution::Gemm(config, options.precision);
                return Ok(Kernels::Convolution(form, product));
            }
            convolution_with_statistics(run, |conv, windows| {
                let config = gemm_config(conv, windows, of.dtype, of.properties, options)?;
                Ok(StatisticsConvolution::Gemm(config, options.precision))
            })
        },
    },
    Row {
        name: "direct",
        takes: "a convolution alone",
        summary: "direct convolution",
        can: |row, run| convolution(row, run, ConvAlgorithm::Direct),
    },
    Row {
        name: "im2col",
        takes: "a convolution alone",
        summary: "convolution by a column matrix and a matrix product",
        can: |row, run| convolution(row, run, ConvAlgorithm::Im2col),
    },
    Row {
        name: "norm-scale-pool-clamp",
        takes: "group_norm, scale, max_pool2d, clamp",
        summary: "statistics, then norm, scale, pool and clamp in one kernel",
        can: partial,
    },
    Row {
        name: "scale-norm-clamp-scale-max",
        takes: "scale, instance_norm, clamp, the same scale, channel_max",
        summary: "statistics, then scale, norm, clamp, scale and maximum in one kernel",
        can: |row, run| {
            let kernels = partial(row, run)?;
            same_factor(run, [run.layers.start, run.layers.start + 3])?;
            Ok(kernels)
        },
    },
    Row {
        name: "norm-scale",
        takes: "group_norm, scale",
        summary: "norm and scale in one kernel, or two where groups do not fit shared memory",
        can: partial,
    },
    Row {
        name: "folded",
        takes: "group_norm, scale",
        summary: "norm whose weight and bias have the scale in them",
        can: |row, run| partial(row, run).map(|_| Kernels::FoldedScale),
    },
    Row {
        name: "norm-functions",
        takes: "norm, functions; perhaps scale or prelu behind the norm, and scale before a norm of each channel",
        summary: "statistics, then norm, scale or prelu, and functions in one kernel",
        can: |row, run| {
            let is_norm = run.operators().len() == 1;
            let form = run
                .form
                .as_ref()
                .filter(|form| form.convolution.is_none() && !is_norm);
            let form = form.ok_or(row.other_layers())?;
            MappedNorm::of(form, row.other_layers()).map(Kernels::MappedNorm)
        },
    },
    Row {
        name: "scale-pool-clamp",
        takes: "scale, max_pool2d, clamp",
        summary: "scale, pool and clamp in one kernel",
        can: partial,
    },
    Row {
        name: "pool-clamp",
        takes: "max_pool2d, clamp",
        summary: "pool and clamp in one kernel",
        can: partial,
    },
    Row {
        name: "clamp-scale-max",
        takes: "clamp, scale, channel_max",
        summary: "clamp, scale and maximum in one kernel",
        can: partial,
    },
    Row {
        name: "norm",
        takes: "group_norm, instance_norm or layer_norm alone",
        summary: "statistics, then the norm",
        can: |_, run| match run.operators()[..] {
            ["group_norm" | "instance_norm" | "layer_norm"] => {
                Ok(Kernels::Operator(ConvOptions::default()))
            }
            _ => Err(Refusal::Layers {
                expected: "a norm alone",
            }),
        },
    },
    Row {
        name: "pointwise",
        takes: "functions of single values, one or several",
        summary: "one kernel, up to eight functions a launch",
        can: |row, run| match run.are_functions() {
            true => Ok(Kernels::Pointwise),
            false => Err(row.other_layers()),
        },
    },
    Row {
        name: "operator",
        takes: "any other operator alone",
        summary: "one kernel",
        can: |_, run| match run.operators()[..] {
            [name]
                if ![
                    "conv1d",
                    "conv2d",
                    "conv3d",
                    "group_norm",
                    "instance_norm",
                    "layer_norm",
                ]
                .contains(&name)
                    && !run.are_functions() =>
            {
                Ok(Kernels::Operator(ConvOptions::default()))
            }
            _ => Err(Refusal::Layers {
                expected: "one operator that is no convolution, norm or function of single values",
            }),
        },
    },
];

/// A convolution alone.
fn convolution(
    row: &Row,
    run: &RunQuestion<'_>,
    algorithm: ConvAlgorithm,
) -> Result<Kernels, Refusal> {
    match run.operators()[..] {
        ["conv1d" | "conv2d" | "conv3d"] => {
            let options = ConvOptions::algorithm(algorithm);
            let workspace_bytes = run.of.options.workspace_bytes;
            Ok(Kernels::Operator(options.workspace_bytes(workspace_bytes)))
        }
        _ => Err(row.other_layers()),
    }
}

/// A fusion of the operators that the row names.
fn partial(row: &Row, run: &RunQuestion<'_>) -> Result<Kernels, Refusal> {
    let wanted = row.takes.split(", ");
    let wanted = wanted.map(|operator| operator.trim_start_matches("the same "));
    match wanted.eq(run.operators()) {
        true => Ok(Kernels::Partial),
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

fn epilogue_form(run: &RunQuestion<'_>) -> Result<EpilogueForm, Refusal> {
    EpilogueForm::of(run.of.problem, run.form.as_ref())
}

fn pooling_form(run: &RunQuestion<'_>) -> Result<PoolingForm, Refusal> {
    PoolingForm::of(run.of.problem, run.form.as_ref())
}

fn reducing_form(run: &RunQuestion<'_>) -> Result<ReducingForm, Refusal> {
    let form = ReducingForm::of(run.of.problem, run.form.as_ref())?;
    same_factor(run, form.multiply)?;
    Ok(form)
}

/// A convolution with statistics for any of the forms, as `choose` has it for a convolution whose outputs are pooled in windows
/// that lie side by side, or are not.
fn convolution_with_statistics(
    run: &RunQuestion<'_>,
    choose: impl Fn(&ConvGeometry, Option<[u32; 2]>) -> Result<StatisticsConvolution, Refusal>,
) -> Result<Kernels, Refusal> {
    let of_pooling = match pooling_form(run) {
        Ok(form) => {
            let conv = conv_geometry(&form.conv)?;
            let choice = PoolingChoice::choose(&form.pool, |windows| choose(&conv, windows))?;
            return Ok(Kernels::ConvolutionThenPool(form, choice));
        }
        Err(refusal) => refusal,
    };
    let form = match MappedForm::of(run.of.problem, run.form.as_ref()) {
        Ok(form) => {
            let convolution = choose(&conv_geometry(&form.conv)?, None)?;
            return Ok(Kernels::ConvolutionThenMap(form, convolution));
        }
        Err(_) => reducing_form(run),
    };
    let form = form.map_err(|of_reducing| match of_reducing {
        Refusal::Layers { .. } => of_pooling,
        other => other,
    })?;
    let convolution = choose(&conv_geometry(&form.conv)?, None)?;
    Ok(Kernels::ConvolutionThenReduce(form, convolution))
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

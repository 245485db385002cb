//! Normal forms on any shape: a convolution that leaves the norm's statistics, then one kernel for all that follows.

use super::convolved::{Convolved, Parameters};
use super::forms::{EpilogueForm, MappedForm, PoolingForm, ReducingForm};
use super::group_norm_scale_max_pool2d_clamp::normalise_and_pool;
use super::group_norm_scale_pointwise::{Tail, normalise_and_map};
use super::multiply_instance_norm_clamp_multiply_channel_max::normalise_and_reduce;
use super::{depthwise, implicit_gemm};
use crate::error::Result;
use crate::ops::{Precision, pointwise};
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::Refusal;
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::depthwise::DepthwiseGeometry;
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::implicit_gemm::{Epilogue, GemmConfig};
use crate::spec::{ConvProblem, MaxPool2dProblem};

/// A convolution that leaves the norm's statistics.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is alive at a time, and is copied to the plan's launches"
)]
pub(crate) enum StatisticsConvolution {
    /// On tensor cores.
    Gemm(GemmConfig, Precision),
    /// On FMA, of one channel to a group.
    Depthwise(DepthwiseGeometry),
}

impl StatisticsConvolution {
    /// Appends the convolution of `x`; its output has the shape `output`, and a row of the norm behind it `row_channels` channels.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        parameters: &Parameters<'_>,
        output: &[usize],
        row_channels: u32,
    ) -> Result<Convolved> {
        match self {
            Self::Gemm(config, precision) => {
                let config = (&config.for_rows_of(row_channels), Epilogue::NONE);
                implicit_gemm::append(program, x, parameters, config, *precision, output)
            }
            Self::Depthwise(geometry) => {
                depthwise::append(program, x, parameters, geometry, output)
            }
        }
    }
}

/// Appends `function(batch_norm(convolution(x)))`, with the convolution that was chosen for this problem: one that no norm of its own
/// statistics follows, and, if it is not by a product, nothing at all.
pub(crate) fn append_epilogue(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    form: &EpilogueForm,
    convolution: &StatisticsConvolution,
) -> Result<Value> {
    let convolved = match convolution {
        StatisticsConvolution::Gemm(config, precision) => {
            let config = (config, form.epilogue);
            implicit_gemm::append(program, x, parameters, config, *precision, &form.output)
        }
        StatisticsConvolution::Depthwise(geometry) => {
            depthwise::append(program, x, parameters, geometry, &form.output)
        }
    };
    Ok(convolved?.y)
}

/// The geometry of a convolution.
///
/// # Errors
/// Extents that no kernel can index.
pub(crate) fn conv_geometry(problem: &ConvProblem<3>) -> Result<ConvGeometry, Refusal> {
    let geometry = problem.geometry();
    geometry.map_err(|_| Refusal::Needs("planes and filters that are indexed with 32 bits"))
}

/// The windows of a pool, if they lie side by side and are whole.
fn windows_side_by_side(pool: &MaxPool2dProblem) -> Option<[u32; 2]> {
    let [h, w] = pool.kernel_size;
    let plain = pool.stride == pool.kernel_size
        && pool.padding == [0, 0]
        && (pool.dilation[0] == 1 || h == 1)
        && (pool.dilation[1] == 1 || w == 1)
        && pool.output == [pool.input[0] / h, pool.input[1] / w];
    plain.then_some([u32::try_from(h).ok()?, u32::try_from(w).ok()?])
}

/// A convolution that leaves the norm's statistics, and pools where it can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolingChoice {
    pub(crate) convolution: StatisticsConvolution,
    /// Whether the convolution keeps of each window the value that norm and scale make the largest. Norm and scale are
    /// monotonic, so it is the one that pooling takes. The convolution's output is then never written.
    is_pooled: bool,
}

impl PoolingChoice {
    /// Where windows lie side by side, a convolution that pools them if `choose` gives one, else one that does not pool.
    ///
    /// # Errors
    /// Why `choose` gives none.
    pub(crate) fn choose(
        pool: &MaxPool2dProblem,
        choose: impl Fn(Option<[u32; 2]>) -> Result<StatisticsConvolution, Refusal>,
    ) -> Result<Self, Refusal> {
        let pooled = windows_side_by_side(pool).map(|windows| choose(Some(windows)));
        let (convolution, is_pooled) = match pooled {
            Some(Ok(convolution)) => (convolution, true),
            Some(Err(_)) | None => (choose(None)?, false),
        };
        Ok(Self {
            convolution,
            is_pooled,
        })
    }
}

/// Appends `functions(norm(convolution(x) * before) * behind)`, or a prelu behind the norm, with the convolution that was chosen
/// for this problem and what is multiplied before and behind its norm.
pub(crate) fn append_mapped(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &MappedForm,
    [before, scale]: [Option<Value>; 2],
    convolution: &StatisticsConvolution,
) -> Result<Value> {
    let MappedForm { norm, output, .. } = problem;
    let geometry = norm.norm.geometry()?;
    let convolved = convolution.append(program, x, parameters, output, geometry.row_channels)?;
    let pass = geometry.apply(program.dtype(convolved.y).size() as u32);
    let by_readers = pass.combined_moments();
    let input = convolved.statistics(program, parameters.norm, geometry, by_readers)?;
    let tail = Tail {
        before,
        scale,
        prelu: norm.behind.and_then(|behind| behind.prelu),
        functions: &norm.functions,
    };
    normalise_and_map(program, &input, tail)
}

/// Appends `functions(max_pool2d(norm(convolution(x)) * factor))`, done as `choice` says for this problem.
pub(crate) fn append_pooling(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &PoolingForm,
    choice: &PoolingChoice,
) -> Result<Value> {
    let output = match choice.is_pooled {
        true => &problem.output,
        false => &problem.convolved,
    };
    let norm = problem.norm.geometry()?;
    let convolved =
        (choice.convolution).append(program, x, parameters, output, norm.row_channels)?;
    let input = convolved.statistics(program, parameters.norm, norm, 1)?;
    let (scale, functions) = (parameters.factors, &problem.functions[..]);
    if choice.is_pooled {
        let tail = Tail {
            scale,
            functions,
            ..Tail::NONE
        };
        return normalise_and_map(program, &input, tail);
    }
    // The kernel that pools does a clamp besides; all else takes a launch of its own, of what is left of the pixels.
    let clamp = functions.first().and_then(|function| function.as_clamp());
    let (bounds, rest) = match clamp {
        Some(clamp) => (clamp.kernel_bounds(), &functions[1..]),
        None => (Bounds::NONE, functions),
    };
    let pooled = normalise_and_pool(program, &input, scale, &problem.pool, bounds)?;
    pointwise::append(program, pooled, rest)
}

/// Appends `channel_max(clamp(norm(convolution(x) * m)) * m)`, with the convolution that was chosen for this problem.
pub(crate) fn append_reducing(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &ReducingForm,
    convolution: &StatisticsConvolution,
) -> Result<Value> {
    let norm = problem.norm.geometry()?;
    let output = &problem.convolved;
    let convolved = convolution.append(program, x, parameters, output, norm.row_channels)?;
    let input = convolved.statistics(program, parameters.norm, norm, 1)?;
    let (clamp, channel_max) = (&problem.clamp, &problem.channel_max);
    let factors = parameters.factors.expect("the form has factors");
    normalise_and_reduce(program, &input, factors, clamp, channel_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MaxPool2dSpec;

    /// The indices of an axis that each window has, by its attributes.
    fn windows(pool: &MaxPool2dProblem, axis: usize) -> Vec<Vec<usize>> {
        let of = |output: usize| {
            let taps = 0..pool.kernel_size[axis];
            let places = taps.map(|tap| output * pool.stride[axis] + tap * pool.dilation[axis]);
            let inside = places.filter_map(|place| place.checked_sub(pool.padding[axis]));
            inside.filter(|&place| place < pool.input[axis]).collect()
        };
        (0..pool.output[axis]).map(of).collect()
    }

    /// Kernels that pool what they convolve have windows that follow one another from the first row and column on, all of them whole.
    #[test]
    fn windows_are_side_by_side_that_share_nothing_and_lack_nothing() {
        let mut found = [0; 2];
        // One number for each attribute of both axes.
        for number in 0..3 * 3 * 2 * 2 * 2 * 2 * 2 * 7 * 7 {
            let mut left = number;
            let mut next = |count: usize| {
                let value = left % count;
                left /= count;
                value
            };
            let kernel_size = [1 + next(3), 1 + next(3)];
            let stride = [kernel_size[0] + next(2), kernel_size[1] + next(2)];
            let dilation = [1 + next(2), 1 + next(2)];
            let pads = next(2) == 1;
            let input = [4 + next(7), 4 + next(7)];
            for (padding, ceil_mode) in [([0, 0], false), ([0, 0], true), ([0, 1], false)] {
                if (padding[1] == 1) != pads || padding[1] > kernel_size[1] / 2 {
                    continue;
                }
                let spec = MaxPool2dSpec {
                    stride: Some(stride),
                    padding,
                    dilation,
                    ceil_mode,
                    ..MaxPool2dSpec::new(kernel_size)
                };
                let Ok(pool) = spec.problem(&[1, 1, input[0], input[1]]) else {
                    continue;
                };
                let follow = (0..2).all(|axis| {
                    let extent = kernel_size[axis];
                    let whole =
                        (0..input[axis] / extent).map(|p| (p * extent..(p + 1) * extent).collect());
                    windows(&pool, axis) == whole.collect::<Vec<Vec<usize>>>()
                });
                let wanted = follow.then_some(kernel_size.map(|extent| extent as u32));
                // A stride that no second window takes may be any.
                let is_one =
                    (0..2).any(|axis| pool.output[axis] == 1 && stride[axis] != kernel_size[axis]);
                if !is_one {
                    assert_eq!(windows_side_by_side(&pool), wanted, "{pool:?}");
                }
                found[usize::from(follow)] += 1;
            }
        }
        assert!(found.iter().all(|&count| count > 1000), "{found:?}");
    }
}

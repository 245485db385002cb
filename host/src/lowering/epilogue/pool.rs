//! The kernels of epilogues that pool.

use launch_config::KernelGeometry;
use launch_config::Refusal;
use launch_config::elementwise::Bounds;
use launch_config::pool::NhwcWindowGeometry;
use launch_config::upsample::UpsampleGeometry;
use op_spec::PointwiseProblem;
use op_spec::graph::{Epilogue, Pointwise, Reduction};

use super::channels_last_norm::launches_of;
use super::{EpilogueKernels, at_most_one, functions};
use crate::graph::LayerProblem;
use crate::lowering::region::Region;
use crate::operators::pool::nhwc_windows;
use crate::spec::{ClampProblem, GroupNormProblem, PoolProblem};

/// `functions(max_pool2d(norm(x) * factor))`, where norm and factor may be absent.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Pool {
    pub(in crate::lowering) norm: Option<(usize, GroupNormProblem)>,
    /// The layer of the factors after the norm.
    pub(in crate::lowering) factors: Option<usize>,
    pub(in crate::lowering) pool: PoolProblem,
    /// The functions of each maximum, including monotonic functions that preceded the pool.
    pub(in crate::lowering) functions: Vec<PointwiseProblem>,
    /// Whether the producer keeps only the value of each window that the pool selects. Norm and scale are
    /// monotonic, so it is the largest or the smallest. The producer's full output is then never written.
    pub(in crate::lowering) in_producer: bool,
    /// Shape of the result.
    pub(in crate::lowering) output: Vec<usize>,
}

impl Pool {
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &Epilogue) -> Result<Pool, Refusal> {
        let expected = "a norm, max_pool2d, and functions that keep order before it and any behind";
        let refusal = Refusal::Layers { expected };
        let (reduction, pool) = match form.reduce {
            Some((layer, Reduction::Pool(pool))) if pool.is_max_of_images() => (layer, pool),
            _ => return Err(refusal),
        };
        // Without a norm, factors are part of the list.
        let (factors, list) = match (form.norm, &form.list[..]) {
            (None, [(layer, Pointwise::Scale(_))]) => (Some(*layer), &[][..]),
            (None, []) | (Some(_), _) => (at_most_one(&form.affine, refusal)?, &form.list[..]),
            (None, _) => return Err(refusal),
        };
        let keeps_order = list.iter().all(|(_, step)| step.keeps_order());
        if !form.before.is_empty() || !keeps_order {
            return Err(refusal);
        }
        let last = form.after.last().map_or(reduction, |(layer, _)| *layer);
        Ok(Pool {
            norm: form.norm,
            factors,
            pool,
            functions: functions(&[list, &form.after[..]].concat(), refusal)?,
            in_producer: false,
            output: region.output_of(last).to_vec(),
        })
    }

    /// The windows, if they are adjacent (no overlap, no gaps) and whole.
    pub(in crate::lowering) fn windows_side_by_side(&self) -> Option<[u32; 2]> {
        windows_side_by_side(&self.pool)
    }

    /// Whether there is a norm without factors, and norm and pool have kernels of their own for channels-last
    /// tensors. A producer that pools keeps both, because it stores only a value of each window.
    pub(in crate::lowering) fn is_apart_in_nhwc(&self) -> bool {
        let norm = self.norm.and_then(|(_, norm)| launches_of(&norm));
        let is_plain = self.factors.is_none() && !self.in_producer;
        is_plain && norm.is_some() && nhwc_windows(&self.pool).is_some()
    }

    /// The bounds of a leading clamp, which the pooling kernels apply, and the other functions, which need
    /// separate launches over the pooled pixels.
    pub(in crate::lowering) fn bounds_and_rest(&self) -> (Bounds, &[PointwiseProblem]) {
        let functions = &self.functions[..];
        match functions.first().and_then(PointwiseProblem::as_clamp) {
            Some(clamp) => (Bounds::of(&clamp), &functions[1..]),
            None => (Bounds::NONE, functions),
        }
    }

    /// The only function, if it is a clamp.
    pub(in crate::lowering) fn clamp(&self) -> Option<ClampProblem> {
        match &self.functions[..] {
            [function] => function.as_clamp(),
            _ => None,
        }
    }
}

/// The kernel of windows of a channels-last tensor.
#[derive(Debug, Clone)]
pub(in crate::lowering) enum WindowsKernel {
    /// The maximum or the average of each window.
    Pool(NhwcWindowGeometry),
    /// Interpolation around positions.
    Upsample(UpsampleGeometry),
}

impl WindowsKernel {
    /// The kernel for an operator, if there is one.
    fn of(problem: &LayerProblem) -> Option<WindowsKernel> {
        match problem {
            LayerProblem::Upsample(of) => {
                let geometry = of.geometry().ok()?.channels_last(of.c).ok()?;
                Some(Self::Upsample(geometry))
            }
            LayerProblem::MaxPool2d(of) => Self::of_pool(&of.pool),
            LayerProblem::MaxPool3d(of) => Self::of_pool(&of.pool),
            LayerProblem::AvgPool2d(of) => Self::of_pool(&of.pool),
            LayerProblem::AvgPool3d(of) => Self::of_pool(&of.pool),
            _ => None,
        }
    }

    /// The kernel for a pool, if there is one.
    fn of_pool(pool: &PoolProblem) -> Option<WindowsKernel> {
        nhwc_windows(pool).map(Self::Pool)
    }
}

/// `functions` of windows of a channels-last tensor.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Windows {
    pub(in crate::lowering) kernel: WindowsKernel,
    /// The functions of each window's result.
    pub(in crate::lowering) functions: Vec<PointwiseProblem>,
    /// Shape of the result.
    pub(in crate::lowering) output: Vec<usize>,
}

impl Windows {
    /// The kernels for a region with kernels for dense tensors, if its input is channels-last and these have
    /// only windows and functions.
    pub(in crate::lowering) fn of(region: &Region<'_>, plan: &EpilogueKernels) -> Option<Windows> {
        let (kernel, functions) = match plan {
            EpilogueKernels::Operator(_, problem) => (WindowsKernel::of(problem), vec![]),
            EpilogueKernels::Pool(pool) if pool.norm.is_none() && pool.factors.is_none() => {
                (WindowsKernel::of_pool(&pool.pool), pool.functions.clone())
            }
            _ => return None,
        };
        let last = region.layers[region.layers.len() - 1];
        Some(Windows {
            kernel: kernel.filter(|_| region.is_dense_nhwc())?,
            functions,
            output: region.output_of(last).to_vec(),
        })
    }
}

/// The windows of a pool, if they are adjacent (no overlap, no gaps) and whole.
fn windows_side_by_side(pool: &PoolProblem) -> Option<[u32; 2]> {
    let [_, h, w] = pool.kernel_size;
    let plain = pool.stride == pool.kernel_size
        && pool.padding == [0; 3]
        && (pool.dilation[1] == 1 || h == 1)
        && (pool.dilation[2] == 1 || w == 1)
        && pool.output == [1, pool.input[1] / h, pool.input[2] / w];
    plain.then_some([u32::try_from(h).ok()?, u32::try_from(w).ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MaxPool2dSpec;

    /// The indices of each window along an axis, from the pool's attributes.
    fn windows(pool: &PoolProblem, axis: usize) -> Vec<Vec<usize>> {
        let of = |output: usize| {
            let taps = 0..pool.kernel_size[axis];
            let places = taps.map(|tap| output * pool.stride[axis] + tap * pool.dilation[axis]);
            let inside = places.filter_map(|place| place.checked_sub(pool.padding[axis]));
            inside.filter(|&place| place < pool.input[axis]).collect()
        };
        (0..pool.output[axis]).map(of).collect()
    }

    /// Producers that pool need contiguous, whole windows from the first row and column on.
    #[test]
    fn windows_are_side_by_side_that_share_nothing_and_lack_nothing() {
        let mut found = [0; 2];
        // The digits of the number encode the attributes of both axes.
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
                let spec = MaxPool2dSpec::new(kernel_size)
                    .stride(stride)
                    .padding(padding)
                    .dilation(dilation)
                    .ceil_mode(ceil_mode);
                let Ok(problem) = spec.problem(&[1, 1, input[0], input[1]]) else {
                    continue;
                };
                let pool = problem.pool;
                let follow = (0..2).all(|axis| {
                    let extent = kernel_size[axis];
                    let whole =
                        (0..input[axis] / extent).map(|p| (p * extent..(p + 1) * extent).collect());
                    windows(&pool, 1 + axis) == whole.collect::<Vec<Vec<usize>>>()
                });
                let wanted = follow.then_some(kernel_size.map(|extent| extent as u32));
                // With a single window, the stride does not matter.
                let is_one = (0..2)
                    .any(|axis| pool.output[1 + axis] == 1 && stride[axis] != kernel_size[axis]);
                if !is_one {
                    assert_eq!(windows_side_by_side(&pool), wanted, "{pool:?}");
                }
                found[usize::from(follow)] += 1;
            }
        }
        assert!(found.iter().all(|&count| count > 1000), "{found:?}");
    }
}

//! Convolutions whose results are reduced before they are written: by a pool with adjacent windows, or over
//! channels, space, or both.
//!
//! A tile reduces windows of up to eight rows and columns, and up to 16 neighbouring filters. Further
//! launches reduce the rest, such as windows of several slices, or whole images.

use launch_config::Refusal;
use launch_config::conv_mean::Convolved;
use launch_config::conv_transpose::reduced;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::implicit_gemm::{
    Epilogue as StoreEpilogue, MAX_REDUCED_FILTERS, PixelShuffle, ReducedResults, ResultReduction,
};
use launch_config::pointwise::Function;
use op_spec::graph::{Epilogue, Reduction};
use op_spec::{
    ConvProblem, ConvTransposeProblem, Layout, Pass, PoolProblem, Pooled, ReductionOp,
    ReductionProblem,
};

use super::epilogue::{Further, Store};
use super::producer::conv_geometry;
use super::region::Region;
use crate::device::DType;
use crate::operators::conv::ConvMean;
use crate::operators::conv_transpose::Transposed;
use crate::operators::implicit_gemm::ImplicitGemm;
use crate::operators::reduction::Steps;

/// The rows and columns of the windows into which a reduction over space is divided.
const WINDOW_OF_SPACE: [usize; 2] = [4, 8];

/// The refusal of other reductions.
const OPERATIONS: Refusal =
    Refusal::Needs("max, min, sum or mean over channels, or over all of space");

/// A reduction of a convolution's results.
#[derive(Debug, Clone, Copy)]
struct Target {
    operation: ReductionOp,
    /// The operation on the results of a tile.
    in_tiles: ResultReduction,
    /// The divisor of a sum.
    divisor: f32,
    over: Over,
}

/// The values that are reduced to one.
#[derive(Debug, Clone, Copy)]
enum Over {
    /// The values of a window; `output` is the number of windows per axis. Images are one voxel deep.
    Windows {
        window: [usize; 3],
        output: [usize; 3],
    },
    /// All channels of a pixel, or all pixels of a channel, or both.
    Axes { channels: bool, space: bool },
}

impl Target {
    /// Returns the reduction at the end of an epilogue, of results with this number of axes.
    fn of(epilogue: &Epilogue, axes: usize) -> Result<Self, Refusal> {
        let expected = "a pool or a reduction as the last layer";
        let other_layers = Refusal::Layers { expected };
        match epilogue.reduce.as_ref() {
            _ if epilogue.norm.is_some() || !epilogue.after.is_empty() => Err(other_layers),
            Some((_, Reduction::Pool(pool))) => Self::of_pool(pool),
            Some((_, Reduction::Axes(problem))) => Self::of_axes(problem, axes),
            _ => Err(other_layers),
        }
    }

    fn of_pool(pool: &PoolProblem) -> Result<Self, Refusal> {
        let window = pool.kernel_size;
        let count: usize = window.iter().product();
        let (operation, divisor) = match pool.pooled {
            Pooled::Maximum => (ReductionOp::Max, 1.0),
            Pooled::DividedBy(divisor) => (ReductionOp::Mean, divisor as f32),
            // No window has padding.
            Pooled::Average { .. } => (ReductionOp::Mean, count as f32),
            _ => return Err(Refusal::Needs("a max or an average pool")),
        };
        let is_side_by_side = (0..3).all(|axis| {
            let [input, window] = [pool.input[axis], window[axis]];
            let [whole, all] = [input / window, input.div_ceil(window)];
            let output = pool.output[axis];
            // The sum of a partial window has another divisor.
            let is_whole = output == whole || output == all && operation == ReductionOp::Max;
            (pool.stride[axis] == window || output == 1)
                && pool.padding[axis] == 0
                && (pool.dilation[axis] == 1 || window == 1)
                && is_whole
        });
        if !is_side_by_side || count == 1 {
            return Err(Refusal::Needs("windows that lie side by side"));
        }
        let is_space = window == pool.input;
        let over = match is_space {
            true => Over::Axes {
                channels: false,
                space: true,
            },
            false => Over::Windows {
                window,
                output: pool.output,
            },
        };
        Self::new(operation, divisor, over)
    }

    fn of_axes(problem: &ReductionProblem, axes: usize) -> Result<Self, Refusal> {
        let reduced: Vec<usize> = problem.axes().collect();
        let channels = reduced.contains(&1);
        let of_space = &reduced[usize::from(channels)..];
        let space = !of_space.is_empty();
        let is_all = of_space.iter().copied().eq(2..axes);
        if space && !is_all {
            return Err(OPERATIONS);
        }
        let divisor = match problem.operation {
            ReductionOp::Mean => problem.count as f32,
            _ => 1.0,
        };
        Self::new(problem.operation, divisor, Over::Axes { channels, space })
    }

    fn new(operation: ReductionOp, divisor: f32, over: Over) -> Result<Self, Refusal> {
        let in_tiles = match operation {
            ReductionOp::Max => ResultReduction::MAX,
            ReductionOp::Min => ResultReduction::MIN,
            ReductionOp::Sum | ReductionOp::Mean => ResultReduction::SUM,
            _ => return Err(OPERATIONS),
        };
        Ok(Self {
            operation,
            in_tiles,
            divisor,
            over,
        })
    }
}

/// The results to be reduced: samples, channels, and extents. A channel has one filter for each phase of the
/// strides.
struct Results {
    n: usize,
    channels: usize,
    stride: [usize; 3],
    output: [usize; 3],
}

/// A reduction, divided into a part within tiles and further launches.
struct Tiling {
    reduced: ReducedResults,
    /// The positions of each phase that the windows need.
    positions: [usize; 3],
    further: Option<Further>,
}

impl Tiling {
    fn of(target: &Target, results: &Results, dtype: DType) -> Result<Self, Refusal> {
        let &Results {
            n,
            channels,
            stride,
            output,
        } = results;
        let each = [0, 1, 2];
        let phases: usize = stride.iter().product();
        let all = each.map(|axis| output[axis].div_ceil(stride[axis]));
        let (pixels, windows, of_channels) = match target.over {
            Over::Windows {
                window,
                output: windows,
            } => {
                if each.iter().any(|&axis| window[axis] % stride[axis] != 0) {
                    return Err(Refusal::Needs("windows of whole strides"));
                }
                // A partial window of phases would include phases beyond the output.
                let is_partial = |&axis: &usize| windows[axis] * window[axis] > output[axis];
                if phases > 1 && each.iter().any(is_partial) {
                    return Err(Refusal::Needs("whole windows of phases"));
                }
                (each.map(|axis| window[axis] / stride[axis]), windows, 1)
            }
            Over::Axes {
                channels: is_over_channels,
                space,
            } => {
                if phases > 1 {
                    // Tiles do not reduce an axis whose results are in several phases.
                    return Err(Refusal::Needs("a pool behind phases"));
                }
                let most = |axis: usize| all[axis].next_power_of_two();
                let [rows, columns] = WINDOW_OF_SPACE;
                let pixels = match space {
                    true => [1, most(1).min(rows), most(2).min(columns)],
                    false => [1; 3],
                };
                let filters = channels
                    .next_power_of_two()
                    .min(MAX_REDUCED_FILTERS as usize);
                let of_channels = if is_over_channels { filters } else { 1 };
                let windows = each.map(|axis| all[axis].div_ceil(pixels[axis]));
                (pixels, windows, of_channels)
            }
        };
        let positions = each.map(|axis| all[axis].min(windows[axis] * pixels[axis]));
        let written_channels = channels.div_ceil(of_channels);
        let [slices, height, width] = [positions[0], windows[1], windows[2]];
        // The reduction that remains after the tiles, and the shape in which tiles write.
        let pass = match target.over {
            Over::Windows { .. } => Pass::new(n * channels * windows[0], pixels[0], height * width),
            Over::Axes {
                channels: false, ..
            } => Pass::new(n * channels, slices * height * width, 1),
            Over::Axes { space: true, .. } => {
                Pass::new(n, written_channels * slices * height * width, 1)
            }
            Over::Axes { .. } => Pass::new(n, written_channels, slices * height * width),
        };
        if pass.reduced * windows[0] > slices && matches!(target.over, Over::Windows { .. }) {
            return Err(Refusal::Needs("windows of whole slices"));
        }
        let further = match pass.reduced {
            1 => None,
            _ => Some(Further {
                shape: vec![n, written_channels, slices, height, width],
                steps: Steps::of_passes(&[pass], target.operation, target.divisor, dtype)
                    .map_err(|_| Refusal::Needs("reductions that are indexed with 32 bits"))?,
            }),
        };
        let operation = target.in_tiles;
        if further.is_some() && operation == ResultReduction::SUM && dtype != DType::F32 {
            return Err(Refusal::Needs("f32, for sums in several launches"));
        }
        let divisor = match further {
            Some(_) => 1.0,
            None => target.divisor,
        };
        let [_, rows, columns] = pixels.map(|extent| extent as u32);
        let filters = (phases * of_channels) as u32;
        let extents = [height as u32, width as u32];
        Ok(Self {
            reduced: ReducedResults::new(operation, filters, [rows, columns], extents, divisor)?,
            positions,
            further,
        })
    }
}

/// Returns the epilogue before the reduction, for a region that reads and writes NCHW.
fn store(region: &Region<'_>, epilogue: &Epilogue) -> Result<Store, Refusal> {
    let mut in_front = epilogue.clone();
    in_front.reduce = None;
    let store = Store::of(&in_front)?;
    if [region.input, region.output] != [Layout::Nchw; 2] || store.list.has_residual() {
        return Err(Refusal::Needs("NCHW, and no residual"));
    }
    Ok(store)
}

/// Returns a convolution, transposed or not, and the mean or the sum of its results over all of space.
/// Constants may scale and shift the results before: they commute with the mean.
pub(super) fn conv_mean(
    region: &Region<'_>,
    of: &Convolved,
    epilogue: &Epilogue,
) -> Result<ConvMean, Refusal> {
    let target = Target::of(epilogue, region.axes())?;
    let is_over_space = matches!(
        target.over,
        Over::Axes {
            channels: false,
            space: true
        }
    );
    if !is_over_space || !matches!(target.operation, ReductionOp::Mean | ReductionOp::Sum) {
        return Err(Refusal::Needs("a mean or a sum over all of space"));
    }
    if region.of.dtype != DType::F32 {
        return Err(Refusal::Needs(
            "f32: 16-bit results are rounded before the mean",
        ));
    }
    let store = store(region, epilogue)?;
    let mut affine = [1.0, 0.0];
    let mut is_linear = store.epilogue == StoreEpilogue::NONE && !store.list.is_affine();
    let functions = &store.list.functions;
    for step in &functions.steps()[..functions.len()] {
        let [scale, shift, _] = step.attributes;
        is_linear &= step.function == Function::Affine;
        affine = [affine[0] * scale, affine[1] * scale + shift];
    }
    if !is_linear {
        return Err(Refusal::Needs(
            "operations with constants alone before the mean",
        ));
    }
    Ok(ConvMean {
        sums: of.tap_sums()?,
        mean: of.mean(target.divisor, affine),
    })
}

/// The refusal of a kernel that cannot store results through the list.
pub(super) const LIST: Refusal = Refusal::Needs("a list that is applied beside the accumulators");

/// Returns a convolution followed by a reduction, as an implicit GEMM with the epilogue before the reduction.
pub(super) fn convolution(
    region: &Region<'_>,
    conv: &ConvProblem<3>,
    epilogue: &Epilogue,
) -> Result<(ImplicitGemm, Store), Refusal> {
    let target = Target::of(epilogue, region.axes())?;
    let store = store(region, epilogue)?;
    let (dtype, properties) = (region.of.dtype, region.of.properties);
    let results = Results {
        n: conv.n,
        channels: conv.k,
        stride: [1; 3],
        output: conv.output,
    };
    let tiling = Tiling::of(&target, &results, dtype)?;
    let mut conv = *conv;
    conv.output = tiling.positions;
    let conv = conv_geometry(&conv)?;
    if DepthwiseGeometry::check(&conv).is_ok() {
        return Err(Refusal::Needs("groups of several channels"));
    }
    let (of, options) = (
        (tiling.reduced, PixelShuffle::NONE),
        region.of.options.fused(),
    );
    let gemm = ImplicitGemm::reduced(&conv, of, dtype, properties, options, None)?;
    match gemm.can_store(&store.list, dtype) {
        true => Ok((gemm, store.reduced_by(tiling.further))),
        false => Err(LIST),
    }
}

/// [`convolution`] for a transposed convolution: phases are filters, which are reduced with the pixels.
pub(super) fn transposed(
    region: &Region<'_>,
    problem: &ConvTransposeProblem<3>,
    epilogue: &Epilogue,
) -> Result<(Transposed, Store), Refusal> {
    let target = Target::of(epilogue, region.axes())?;
    let store = store(region, epilogue)?;
    let (dtype, properties) = (region.of.dtype, region.of.properties);
    let results = Results {
        n: problem.n,
        channels: problem.k,
        stride: problem.stride,
        output: problem.output,
    };
    let tiling = Tiling::of(&target, &results, dtype)?;
    let class = reduced(problem, tiling.positions);
    let class = class.ok_or(Refusal::Needs("strides of 1, 2 or 4 without dilation"))?;
    let conv = conv_geometry(&class.convolution)?;
    if DepthwiseGeometry::check(&conv).is_ok() {
        return Err(Refusal::Needs("groups of several channels"));
    }
    let (of, options) = ((tiling.reduced, class.shuffle), region.of.options.fused());
    let gemm = ImplicitGemm::reduced(&conv, of, dtype, properties, options, None)?;
    let outputs = (store.epilogue, store.list);
    let transposed = Transposed::reduced(problem, &class, gemm, (outputs, dtype)).ok_or(LIST)?;
    Ok((transposed, store.reduced_by(tiling.further)))
}

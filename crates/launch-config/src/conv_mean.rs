//! Means and sums of a convolution's results over all positions.
//!
//! A convolution is linear, so the sum of its results is the sum over its taps of each filter element times
//! the sum of the inputs that meet it. The convolution itself is not computed: one launch sums the inputs
//! that meet each tap, and another multiplies these sums by the filters.

use op_spec::{ConvProblem, ConvTransposeProblem};

use super::{LaunchShape, Presence, Refusal};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks of the kernels per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 6;

/// The maximum number of taps along an axis.
pub const MAX_AXIS_TAPS: usize = 8;

/// The maximum number of taps of a filter: one for each lane of a warp.
pub const MAX_TAPS: u32 = 32;

const MANY_TAPS: Refusal =
    Refusal::Needs("a filter with at most 8 taps along an axis, and 32 in all");
const EXTENTS: Refusal = Refusal::Needs("fewer than 2^31 input elements in a plane");

/// The positions of an axis of the input that meet a tap: every `step`-th from `first` to `end`, without
/// `end`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Positions {
    /// The first position.
    pub first: u32,
    /// The position behind the last one.
    pub end: u32,
}

/// The by-value argument of the kernel that sums inputs.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapSumsGeometry {
    /// Planes of the input: samples times channels.
    pub planes: u64,
    /// Depth, rows and columns of the input.
    pub input: [u32; 3],
    /// Taps along each axis.
    pub taps: [u32; 3],
    /// Distances between positions that meet a tap.
    pub steps: [u32; 3],
    /// The positions that meet each tap of each axis.
    pub positions: [[Positions; MAX_AXIS_TAPS]; 3],
}

/// The by-value argument of the kernel that multiplies sums by filters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvMeanGeometry {
    /// Samples.
    pub samples: u64,
    /// Groups.
    pub groups: u32,
    /// Input channels of a group.
    pub group_c: u32,
    /// Output channels of a group.
    pub group_k: u32,
    /// Taps of a filter.
    pub taps: u32,
    /// The order of the weight: (input channel, output channel) for a transposed convolution, (output
    /// channel, input channel) otherwise.
    pub is_transposed: Presence,
    /// Whether there is a bias.
    pub bias: Presence,
    /// What the sum of products is multiplied by.
    pub factor: f32,
    /// What the bias is multiplied by.
    pub bias_factor: f32,
    /// What is added.
    pub offset: f32,
}

/// A convolution, as these kernels see it.
#[derive(Debug, Clone, Copy)]
pub struct Convolved {
    n: usize,
    groups: usize,
    group_c: usize,
    group_k: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel_size: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    bias: bool,
    is_transposed: bool,
}

macro_rules! convolved {
    ($Problem:ty, $is_transposed:literal) => {
        impl From<&$Problem> for Convolved {
            fn from(of: &$Problem) -> Self {
                Self {
                    n: of.n,
                    groups: of.groups,
                    group_c: of.c_per_group(),
                    group_k: of.k / of.groups,
                    input: of.input,
                    output: of.output,
                    kernel_size: of.kernel_size,
                    stride: of.stride,
                    padding: of.padding,
                    dilation: of.dilation,
                    bias: of.bias,
                    is_transposed: $is_transposed,
                }
            }
        }
    };
}

convolved!(ConvProblem<3>, false);
convolved!(ConvTransposeProblem<3>, true);

impl Convolved {
    /// Returns the positions of an axis of the input that meet a tap. Output `o` of a convolution meets input
    /// `stride * o + tap * dilation - padding`, and input `i` of a transposed one output `stride * i + tap *
    /// dilation - padding`.
    fn positions(&self, axis: usize, tap: usize) -> Positions {
        let signed = |extent: usize| extent as i64;
        let stride = signed(self.stride[axis]);
        let shift = signed(tap * self.dilation[axis]) - signed(self.padding[axis]);
        let (input, output) = (signed(self.input[axis]), signed(self.output[axis]));
        let (from, to) = match self.is_transposed {
            true => (input, output),
            false => (output, input),
        };
        let first = (-shift).div_euclid(stride) + i64::from((-shift).rem_euclid(stride) > 0);
        let (first, last) = (
            first.max(0),
            (to - 1 - shift).div_euclid(stride).min(from - 1),
        );
        if last < first {
            return Positions::default();
        }
        let input = |at: i64| match self.is_transposed {
            true => at as u32,
            false => (at * stride + shift) as u32,
        };
        Positions {
            first: input(first),
            end: input(last) + 1,
        }
    }

    fn taps(&self) -> usize {
        self.kernel_size.iter().product()
    }

    /// Returns the geometry of the sums.
    ///
    /// # Errors
    /// A rule if the filter has too many taps or a plane too many elements.
    pub fn tap_sums(&self) -> Result<TapSumsGeometry, Refusal> {
        let has_few = self.taps() <= MAX_TAPS as usize
            && self.kernel_size.iter().all(|&taps| taps <= MAX_AXIS_TAPS);
        if !has_few {
            return Err(MANY_TAPS);
        }
        let plane = self
            .input
            .iter()
            .try_fold(1usize, |all, &extent| all.checked_mul(extent));
        if plane.is_none_or(|plane| plane >= 1 << 31) {
            return Err(EXTENTS);
        }
        let mut positions = [[Positions::default(); MAX_AXIS_TAPS]; 3];
        for (axis, of_axis) in positions.iter_mut().enumerate() {
            for (tap, of_tap) in of_axis.iter_mut().enumerate().take(self.kernel_size[axis]) {
                *of_tap = self.positions(axis, tap);
            }
        }
        Ok(TapSumsGeometry {
            planes: self.n as u64 * (self.groups * self.group_c) as u64,
            input: self.input.map(|extent| extent as u32),
            taps: self.kernel_size.map(|taps| taps as u32),
            steps: self
                .stride
                .map(|step| if self.is_transposed { 1 } else { step as u32 }),
            positions,
        })
    }

    /// Returns the geometry of the products. The sum over all results of `scale * result + offset` is divided
    /// by `divisor`.
    #[must_use]
    pub fn mean(&self, divisor: f32, [scale, offset]: [f32; 2]) -> ConvMeanGeometry {
        let outputs = self.output.iter().product::<usize>() as f32 / divisor;
        let (factor, bias_factor) = (scale / divisor, scale * outputs);
        let offset = offset * outputs;
        ConvMeanGeometry {
            samples: self.n as u64,
            groups: self.groups as u32,
            group_c: self.group_c as u32,
            group_k: self.group_k as u32,
            taps: self.taps() as u32,
            is_transposed: Presence::of(self.is_transposed),
            bias: Presence::of(self.bias),
            factor,
            bias_factor,
            offset,
        }
    }
}

impl TapSumsGeometry {
    /// Taps of a filter.
    #[must_use]
    #[inline(always)]
    pub const fn all_taps(&self) -> u32 {
        self.taps[0] * self.taps[1] * self.taps[2]
    }

    /// The kernel's launch: a block for each plane.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.planes, BLOCK_THREADS)
    }
}

impl ConvMeanGeometry {
    /// Output channels.
    #[must_use]
    #[inline(always)]
    pub const fn channels(&self) -> u32 {
        self.groups * self.group_k
    }

    /// Elements of the sums for a sample.
    #[must_use]
    #[inline(always)]
    pub const fn sample_sums(&self) -> u64 {
        self.groups as u64 * self.group_c as u64 * self.taps as u64
    }

    /// The kernel's launch: a warp for each output.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let outputs = self.samples.checked_mul(self.channels().into())?;
        let warps = u64::from(BLOCK_THREADS / super::WARP_THREADS);
        LaunchShape::linear(outputs.div_ceil(warps), BLOCK_THREADS)
    }
}

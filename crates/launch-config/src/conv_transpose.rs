//! Transposed convolutions, as ordinary convolutions of stride 1 with interleaved results.
//!
//! Along an axis, input `x` and tap `k` contribute to output `y = stride * x + dilation * k - padding`. Let
//! `y + padding = stride * q + r`. The taps of residue `r` are those with `dilation * k = r` modulo the
//! stride: every `n`-th one from a first one on, where `n = stride / gcd(stride, dilation)`. The first tap is
//! the *phase* of the residue, less than `n`. The outputs of a phase are thus a convolution over `q` with
//! `1 / n` of the taps, reversed and `dilation / gcd` apart. A residue without taps has the bias alone.
//!
//! Phases of an axis have `K / n` taps, or one more. Phases with equal numbers of taps on each axis form a
//! *class*; there are at most [`MAX_CLASSES`]. A class is one convolution with the groups of the transposed
//! one. Its output channels are the phases of the class times the output channels, in the order (group,
//! phase, channel of the group). One launch interleaves the results of all classes. No zeros are inserted
//! between input elements; the only additional ones are the padding around the input, which convolutions
//! skip.

use super::reciprocal::Reciprocal;
use super::{LaunchShape, Presence, VECTOR_ELEMENTS};
use op_spec::{Conv3dSpec, ConvProblem, ConvTransposeProblem, Layout, SpecError};

/// The maximum number of classes: two for each axis.
pub const MAX_CLASSES: usize = 8;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Minimum resident blocks per multiprocessor in NHWC: two items of eight values and a list take 112
/// registers.
pub const NHWC_MIN_BLOCKS: u32 = 2;

/// The maximum stride and dilation: the product of two fits a 31-bit index.
pub const MAX_STEP: usize = (1 << 15) - 1;

/// The phases of an axis with the same number of taps. Without taps, or if no output needs these phases, the
/// count is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisPhases {
    /// The first phase.
    pub first: u32,
    /// Number of phases.
    pub count: u32,
    /// Taps of each phase.
    pub taps: u32,
    /// Positions at both ends of the axis that no output needs; the convolution skips them.
    pub cropped: u32,
    /// Number of positions that the convolution computes.
    pub extent: u32,
}

/// An axis of a transposed convolution.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransposedAxis {
    /// Elements cut off at both ends of the output.
    pub padding: u32,
    /// The step in the output from one input element's products to the next one's.
    pub stride: Reciprocal,
    /// The greatest common divisor of stride and dilation. Residues that it does not divide have no taps.
    pub common: Reciprocal,
    /// Number of phases; it is also the distance between a phase's taps in the filter.
    pub phases: Reciprocal,
    /// The factor that turns a residue, divided by `common`, into its phase, modulo `phases`.
    pub inverse: u32,
    /// Distance between a phase's taps in the input.
    pub step: u32,
    /// The phases with one more tap, and the others.
    pub sides: [AxisPhases; 2],
}

/// The position of an output element in the convolution of its class, along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhasePosition {
    /// Index into [`TransposedAxis::sides`].
    pub side: u32,
    /// Index of the phase among those of the side.
    pub phase: u32,
    /// The position in the convolution's output. It is less than the side's extent if the element has taps.
    pub at: u32,
}

impl TransposedAxis {
    /// Returns the position of output element `y`; `None` if it has no taps in the input. `high_word`
    /// computes the upper 32 bits of a product.
    #[inline(always)]
    pub fn position(
        &self,
        y: u32,
        high_word: impl Fn(u32, u32) -> u32 + Copy,
    ) -> Option<PhasePosition> {
        let position = self.phase(y, high_word)?;
        (position.at < self.side(position.side).extent).then_some(position)
    }

    /// Returns the position of output element `y` in the convolution of its phase, even beyond either end;
    /// `None` if the phase has no taps. Adding a multiple `m` of the stride to `y` keeps the phase and adds
    /// `m / stride` to the position.
    #[inline(always)]
    pub fn phase(
        &self,
        y: u32,
        high_word: impl Fn(u32, u32) -> u32 + Copy,
    ) -> Option<PhasePosition> {
        let (q, residue) = self.stride.div_rem(y + self.padding, high_word);
        let (residue, rest) = match self.common.divisor {
            1 => (residue, 0),
            _ => self.common.div_rem(residue, high_word),
        };
        let phase = match self.inverse {
            1 => residue,
            _ => self.phases.div_rem(residue * self.inverse, high_word).1,
        };
        // The whole strides within the first tap's offset, `dilation * phase`.
        let first = match self.step {
            1 => 0,
            _ => self.phases.div_rem(phase * self.step, high_word).0,
        };
        let side = (phase >= self.sides[1].first) as u32;
        let of = self.side(side);
        if rest != 0 {
            return None;
        }
        Some(PhasePosition {
            side,
            phase: phase - of.first,
            at: q.wrapping_sub(first).wrapping_sub(of.cropped),
        })
    }

    /// Returns one of the two sides.
    #[inline(always)]
    pub const fn side(&self, side: u32) -> &AxisPhases {
        match side {
            0 => &self.sides[0],
            _ => &self.sides[1],
        }
    }

    /// Returns an axis with `input` input and `output` output elements. Extents have 31 bits, steps 15.
    fn new(
        [input, output]: [usize; 2],
        kernel_size: usize,
        [stride, dilation]: [usize; 2],
        padding: usize,
    ) -> Self {
        let common = greatest_common_divisor(stride, dilation);
        let (phases, step) = (stride / common, dilation / common);
        let mut inverses = 1..phases;
        let inverse = inverses.find(|inverse| step * inverse % phases == 1);
        let (split, taps) = (kernel_size % phases, kernel_size / phases);
        let side = |first: usize, end: usize, taps: usize| {
            let none = AxisPhases {
                first: first as u32,
                count: 0,
                taps: 0,
                cropped: 0,
                extent: 0,
            };
            let reach = taps.saturating_sub(1) * step;
            let full = input + reach;
            let needed = (first..end).filter_map(|phase| {
                let (before, residue) = (phase * dilation / stride, phase * dilation % stride);
                let least = padding.saturating_sub(residue).div_ceil(stride);
                let most = (padding + output).checked_sub(residue + 1)? / stride;
                // Output `q` has position `q - before` in the phase's convolution; positions without taps are
                // cut off.
                let least = least.saturating_sub(before);
                let most = most.checked_sub(before)?.min(full.checked_sub(1)?);
                (least <= most).then_some((least, most))
            });
            let both = needed.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            match both.filter(|_| taps > 0) {
                None => none,
                Some((least, most)) => {
                    let cropped = least.min(full - 1 - most).min(reach);
                    AxisPhases {
                        count: (end - first) as u32,
                        taps: taps as u32,
                        cropped: cropped as u32,
                        extent: (full - 2 * cropped) as u32,
                        ..none
                    }
                }
            }
        };
        Self {
            padding: padding as u32,
            stride: Reciprocal::of(stride as u32),
            common: Reciprocal::of(common as u32),
            phases: Reciprocal::of(phases as u32),
            inverse: inverse.unwrap_or(1) as u32,
            step: step as u32,
            sides: [side(0, split, taps + 1), side(split, phases, taps)],
        }
    }
}

/// A class: phases with equal numbers of taps on each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The index of its results among those of all classes.
    pub number: usize,
    /// The phases and taps on each axis.
    pub phases: [AxisPhases; 3],
}

impl Class {
    /// Number of phases of all axes together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.phases.iter().map(|of| of.count as usize).product()
    }

    /// Returns the class' convolution for a transposed convolution with these extents and attributes.
    ///
    /// # Errors
    /// More filters or outputs than [`op_spec::MAX_ELEMENTS`].
    pub fn convolution(
        &self,
        geometry: &InterleaveGeometry,
        problem: &ConvTransposeProblem<3>,
    ) -> Result<ConvProblem<3>, SpecError> {
        let axes = [0, 1, 2].map(|axis| (&geometry.axes[axis], &self.phases[axis]));
        let reach = |of: &TransposedAxis, phases: &AxisPhases| (phases.taps - 1) * of.step;
        let [d, h, w] = problem.input;
        let [t, r, s] = self.phases.map(|of| of.taps as usize);
        let filters = problem.k.saturating_mul(self.count());
        Conv3dSpec::default()
            .padding(axes.map(|(of, phases)| (reach(of, phases) - phases.cropped) as usize))
            .dilation(axes.map(|(of, _)| of.step as usize))
            .groups(problem.groups)
            .problem(
                &[problem.n, problem.c, d, h, w],
                &[filters, problem.c_per_group(), t, r, s],
                problem.bias.then_some(&[filters][..]),
            )
    }
}

/// The by-value argument of the kernels that interleave the results of classes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterleaveGeometry {
    /// Samples.
    pub n: u64,
    /// Output channels of a group.
    pub group_k: u32,
    /// Output slices of a plane (or volume).
    pub slices: u32,
    /// Output rows of a slice.
    pub rows: Reciprocal,
    /// Output columns.
    pub columns: Reciprocal,
    /// Output channels.
    pub channels: u32,
    /// Output elements of a plane (or volume).
    pub plane: u32,
    /// The bias of each output channel.
    pub bias: Presence,
    /// The work of a block of the NCHW launch.
    pub tile: RowTile,
    /// The work of a block of the NHWC launch.
    pub nhwc: NhwcTile,
    /// The axes: slices, rows, columns.
    pub axes: [TransposedAxis; 3],
}

impl InterleaveGeometry {
    /// Returns the geometry of a problem with checked extents.
    pub(crate) fn of(problem: &ConvTransposeProblem<3>) -> Self {
        let axis = |axis: usize| {
            TransposedAxis::new(
                [problem.input[axis], problem.output[axis]],
                problem.kernel_size[axis],
                [problem.stride[axis], problem.dilation[axis]],
                problem.padding[axis],
            )
        };
        let (channels, group_k) = (problem.k as u32, problem.k_per_group() as u32);
        let [slices, rows, columns] = problem.output.map(|extent| extent as u32);
        let plane = slices * rows * columns;
        let strides = [problem.stride[1], problem.stride[2]].map(|stride| stride as u32);
        // The element size is a placeholder until the type is known.
        let element_bytes = 4;
        Self {
            n: problem.n as u64,
            group_k,
            slices,
            rows: Reciprocal::of(rows),
            columns: Reciprocal::of(columns),
            channels,
            plane,
            bias: Presence::of(problem.bias),
            tile: RowTile::of([rows, columns], strides),
            nhwc: NhwcTile::of([channels, group_k], element_bytes, [rows, columns], strides),
            axes: [axis(0), axis(1), axis(2)],
        }
    }

    /// Returns the same geometry for elements of `bytes` bytes, which determine the vectors in NHWC.
    #[must_use]
    pub fn of_elements(self, bytes: u32) -> Self {
        let strides = [1, 2].map(|axis| self.axes[axis].stride.divisor);
        let extents = [self.rows.divisor, self.columns.divisor];
        let channels = [self.channels, self.group_k];
        Self {
            nhwc: NhwcTile::of(channels, bytes, extents, strides),
            ..self
        }
    }

    /// Iterates over the classes with results.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        let class = |number: usize| Class {
            number,
            phases: [0, 1, 2].map(|axis| self.axes[axis].sides[number >> (2 - axis) & 1]),
        };
        let classes = (0..MAX_CLASSES).map(class);
        classes.filter(|class| class.phases.iter().all(|of| of.extent > 0))
    }

    /// Returns the only class, if its convolution's output is already the whole output.
    #[must_use]
    pub fn is_convolution(&self) -> Option<Class> {
        let mut classes = self.classes();
        let class = classes.next().filter(|_| classes.next().is_none())?;
        let [slices, rows, columns] = self.output();
        let is_whole = [slices, rows, columns].into_iter().zip(&self.axes);
        let is_whole = is_whole.zip(&class.phases).all(|((extent, axis), phases)| {
            axis.stride.divisor == 1 && phases.cropped == axis.padding && phases.extent == extent
        });
        is_whole.then_some(class)
    }

    /// Output slices, rows and columns.
    #[must_use]
    pub const fn output(&self) -> [u32; 3] {
        [self.slices, self.rows.divisor, self.columns.divisor]
    }

    /// Output elements.
    pub const fn elements(&self) -> u64 {
        self.n * self.channels as u64 * self.plane as u64
    }

    /// Output slices of all samples and channels.
    pub const fn all_slices(&self) -> u64 {
        self.n * self.channels as u64 * self.slices as u64
    }

    /// The launch of the layout's kernel.
    pub const fn shape(&self, layout: Layout) -> Option<LaunchShape> {
        let blocks = match layout {
            Layout::Nchw => {
                self.all_slices().div_ceil(self.tile.slices() as u64) * self.tile.blocks()
            }
            Layout::Nhwc => {
                let slices = self.n * self.slices as u64;
                slices.div_ceil(self.nhwc.slices() as u64) * self.nhwc.blocks()
            }
        };
        LaunchShape::linear(blocks, BLOCK_THREADS)
    }
}

mod filters;
mod shuffled;
mod tile;

pub use filters::PhaseFiltersGeometry;
pub use shuffled::{ShuffledClass, reduced, shuffled};
use tile::greatest_common_divisor;
pub use tile::{AxisTile, NhwcTile, RowTile};

#[cfg(test)]
mod tests;

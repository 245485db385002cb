//! The filters of a class of phases.

use op_spec::ConvTransposeProblem;

use super::{BLOCK_THREADS, Class, InterleaveGeometry};
use crate::{LaunchShape, Presence};

/// The by-value argument of the kernel that gathers the filters and the bias of a class. The class must have
/// passed [`Class::convolution`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseFiltersGeometry {
    /// Groups.
    pub groups: u32,
    /// Input channels of a group.
    pub group_c: u32,
    /// Output channels of a group, of the transposed convolution.
    pub group_k: u32,
    /// Filter extents of the transposed convolution.
    pub kernel: [u32; 3],
    /// Filter extents of the class.
    pub taps: [u32; 3],
    /// On each axis, the filter element that is the first phase's first tap. The next phase begins one
    /// element later, and the next tap is `distance` elements before. Taps beyond the filter are 0; indices
    /// before its start wrap around and count as beyond.
    pub first: [u32; 3],
    /// Phases of the class on each axis.
    pub phases: [u32; 3],
    /// Distance between a phase's taps on each axis.
    pub distance: [u32; 3],
    /// The order of the filters: (group, channel, phase) if present, (group, phase, channel) otherwise.
    pub shuffled: Presence,
    /// The bias of each output channel.
    pub bias: Presence,
}

impl PhaseFiltersGeometry {
    /// Returns the geometry of a class.
    #[must_use]
    pub fn of(
        class: &Class,
        geometry: &InterleaveGeometry,
        problem: &ConvTransposeProblem<3>,
    ) -> Self {
        let axes = [0, 1, 2].map(|axis| (&class.phases[axis], geometry.axes[axis].phases.divisor));
        Self {
            taps: axes.map(|(of, _)| of.taps),
            first: axes.map(|(of, distance)| of.first + (of.taps - 1) * distance),
            phases: axes.map(|(of, _)| of.count),
            distance: axes.map(|(_, distance)| distance),
            ..Self::of_one_tap(problem)
        }
    }

    /// Returns the geometry of one phase with one tap.
    pub(super) fn of_one_tap(problem: &ConvTransposeProblem<3>) -> Self {
        Self {
            groups: problem.groups as u32,
            group_c: problem.c_per_group() as u32,
            group_k: problem.k_per_group() as u32,
            kernel: problem.kernel_size.map(|extent| extent as u32),
            taps: [1; 3],
            first: [0; 3],
            phases: [1; 3],
            distance: [1; 3],
            shuffled: Presence::ABSENT,
            bias: Presence::of(problem.bias),
        }
    }

    /// Number of filters of the class: its output channels.
    pub const fn filters(&self) -> u64 {
        let [d, h, w] = self.phases;
        self.groups as u64 * (d as u64 * h as u64 * w as u64) * self.group_k as u64
    }

    /// Elements of a filter.
    pub const fn filter_elements(&self) -> u64 {
        let [t, r, s] = self.taps;
        self.group_c as u64 * (t as u64 * r as u64 * s as u64)
    }

    /// Elements of the transposed convolution's weight.
    pub const fn weight_elements(&self) -> u64 {
        let [t, r, s] = self.kernel;
        let channels = self.groups as u64 * self.group_c as u64 * self.group_k as u64;
        channels * (t as u64 * r as u64 * s as u64)
    }

    /// The kernel's launch: one thread per element of the filters.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let elements = self.filters() * self.filter_elements();
        LaunchShape::linear(elements.div_ceil(BLOCK_THREADS as u64), BLOCK_THREADS)
    }
}

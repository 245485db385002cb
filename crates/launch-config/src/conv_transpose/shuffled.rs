//! Transposed convolutions as convolutions with a pixel shuffle in their epilogue.
//!
//! Output column `y = stride * q + phase` reads input columns `q + offset` through the taps
//! `k = phase + padding - stride * offset` that are in the filter. All phases together read a few
//! neighbouring columns. A convolution over `q` with `stride` filters for each output channel therefore
//! computes whole rows of the output; taps that a phase lacks are 0. Its tiles write neighbouring filters to
//! neighbouring columns ([`PixelShuffle`]), and no further launch interleaves them.
//!
//! Each phase of rows and slices is a separate convolution with exactly its taps. It writes every `stride`-th
//! row of the output.

use super::PhaseFiltersGeometry;
use crate::Presence;
use crate::implicit_gemm::{MAX_REDUCED_FILTERS, PhaseTaps, PixelShuffle};
use op_spec::{Conv3dSpec, ConvProblem, ConvTransposeProblem};

/// The maximum number of convolutions: four phases of rows, or two each of slices and rows.
const MAX_CONVOLUTIONS: usize = 4;

/// One convolution of a transposed convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffledClass {
    /// The convolution's index. The convolution of all phases has the index behind all others.
    pub number: usize,
    /// The convolution. Its input is padded with zeros as far as its windows reach.
    pub convolution: ConvProblem<3>,
    /// The geometry for its filters.
    pub filters: PhaseFiltersGeometry,
    /// The positions of its results in the output.
    pub shuffle: PixelShuffle,
}

/// Returns the range of input offsets of the phases from `first` to `last` of an axis, as the number of
/// elements before position 0, and the number of taps. Returns `None` for a range without taps, or one that
/// begins behind the input's first element.
fn taps(
    kernel_size: usize,
    [stride, padding]: [usize; 2],
    [first, last]: [usize; 2],
) -> Option<[usize; 2]> {
    let [kernel_size, stride, padding, first, last] =
        [kernel_size, stride, padding, first, last].map(|of| of as isize);
    // Offsets with `0 <= phase + padding - stride * offset < kernel_size`.
    let most = (last + padding).div_euclid(stride);
    let least = -(kernel_size - 1 - first - padding).div_euclid(stride);
    let before = usize::try_from(-least).ok()?;
    let taps = usize::try_from(most - least + 1).ok()?;
    (taps > 0).then_some([before, taps])
}

/// Returns the convolutions of a transposed one with checked extents. Returns `None` unless the stride of
/// columns is 2 or 4, there is no dilation, and rows and slices have few phases, all with taps.
#[must_use]
pub fn shuffled(
    problem: &ConvTransposeProblem<3>,
) -> Option<[Option<ShuffledClass>; MAX_CONVOLUTIONS]> {
    let [of_slices, of_rows, of_columns] = problem.stride;
    let is_of_form = matches!(of_columns, 2 | 4)
        && of_slices * of_rows <= MAX_CONVOLUTIONS
        && problem.dilation == [1; 3]
        && problem.output.iter().all(|&extent| extent > 0);
    if !is_of_form {
        return None;
    }
    let [_, rows_of_output, columns_of_output] = problem.output.map(|extent| extent as u32);
    let mut classes = [None; MAX_CONVOLUTIONS];
    for (number, class) in classes.iter_mut().enumerate().take(of_slices * of_rows) {
        let phases = [number / of_rows, number % of_rows, 0];
        if (0..2).any(|axis| phases[axis] >= problem.output[axis]) {
            continue;
        }
        let output = [0, 1, 2]
            .map(|axis| (problem.output[axis] - phases[axis]).div_ceil(problem.stride[axis]));
        let [slice, row, _] = phases.map(|phase| phase as u32);
        let slice_elements = rows_of_output * columns_of_output;
        let of_class = of_phases(problem, (phases, [1, 1, of_columns]), output)?;
        *class = Some(ShuffledClass {
            number,
            shuffle: PixelShuffle {
                plane: problem.output[0] as u32 * slice_elements,
                slice: of_slices as u32 * slice_elements,
                row: of_rows as u32 * columns_of_output,
                columns: columns_of_output,
                first: slice * slice_elements + row * columns_of_output,
                ..of_class.shuffle
            },
            ..of_class
        });
    }
    Some(classes)
}

/// Returns the convolution of a transposed one with checked extents, with a filter for each phase of a
/// channel. Its results are those of all phases at the first `positions` of each axis. Returns `None` unless
/// there is no dilation, strides are powers of two, phases are few, and each axis has taps.
#[must_use]
pub fn reduced(problem: &ConvTransposeProblem<3>, positions: [usize; 3]) -> Option<ShuffledClass> {
    let phases: usize = problem.stride.iter().product();
    let is_of_form = problem.stride.iter().all(|stride| stride.is_power_of_two())
        && phases <= MAX_REDUCED_FILTERS as usize
        && problem.dilation == [1; 3];
    if !is_of_form {
        return None;
    }
    of_phases(problem, ([0; 3], problem.stride), positions)
}

/// Returns the convolution of `phases` phases on each axis from `first_phase` on, for the first `output`
/// positions. Returns `None` if [`taps`] does, or if the convolution has too many filters or outputs.
fn of_phases(
    problem: &ConvTransposeProblem<3>,
    (first_phase, phases): ([usize; 3], [usize; 3]),
    output: [usize; 3],
) -> Option<ShuffledClass> {
    let axis = |axis: usize| {
        let steps = [problem.stride[axis], problem.padding[axis]];
        let last = first_phase[axis] + phases[axis] - 1;
        taps(problem.kernel_size[axis], steps, [first_phase[axis], last])
    };
    let of = [axis(0)?, axis(1)?, axis(2)?];
    let padding = of.map(|[before, _]| before);
    let taps = of.map(|[_, taps]| taps);
    let first = [0, 1, 2].map(|axis| {
        let before = problem.padding[axis] + problem.stride[axis] * padding[axis];
        (first_phase[axis] + before) as u32
    });
    let filters = PhaseFiltersGeometry {
        taps: taps.map(|taps| taps as u32),
        first,
        phases: phases.map(|phases| phases as u32),
        distance: problem.stride.map(|stride| stride as u32),
        shuffled: Presence::PRESENT,
        ..PhaseFiltersGeometry::of_one_tap(problem)
    };
    let [d, h, w] = problem.input;
    let [t, r, s] = taps;
    let count: usize = phases.iter().product();
    let filters_of_class = problem.k.checked_mul(count)?;
    // This padding makes the check accept any output extents. The actual padding differs between the two
    // ends.
    let convolution = Conv3dSpec::default()
        .padding(taps)
        .groups(problem.groups)
        .problem(
            &[problem.n, problem.c, d, h, w],
            &[filters_of_class, problem.c_per_group(), t, r, s],
            problem.bias.then_some(&[filters_of_class][..]),
        );
    let mut convolution = convolution.ok()?;
    (convolution.padding, convolution.output) = (padding, output);
    Some(ShuffledClass {
        number: MAX_CONVOLUTIONS,
        convolution,
        filters,
        shuffle: PixelShuffle {
            shift: count.trailing_zeros(),
            taps: [0, 1, 2].map(|axis| PhaseTaps {
                shift: phases[axis].trailing_zeros(),
                kernel: problem.kernel_size[axis] as u32,
                first: first[axis],
                distance: problem.stride[axis] as u32,
            }),
            ..PixelShuffle::NONE
        },
    })
}

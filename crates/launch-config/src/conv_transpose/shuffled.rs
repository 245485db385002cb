//! Transposed convolutions as convolutions that shuffle their results into the output.
//!
//! Output column `y = stride * q + phase - cropped` reads input columns `q + offset` through the taps
//! `k = phase - cropped + padding - stride * offset` that are in the filter. All phases together read a few
//! neighbouring columns. Which of them a pixel has is chosen by the columns of the output that its first
//! pixel lacks, so that they read as few as possible. So a convolution over `q` with `stride` filters for
//! each output channel, in which taps that a phase does not have are 0, computes whole rows of the output. Its
//! tiles write neighbouring filters to neighbouring columns ([`PixelShuffle`]), and nothing has to interleave
//! them.
//!
//! Each phase of rows and slices is a convolution of its own, with exactly its taps, that writes rows of the
//! output `stride` apart.

use super::PhaseFiltersGeometry;
use crate::Presence;
use crate::implicit_gemm::PixelShuffle;
use op_spec::{Conv3dSpec, ConvProblem, ConvTransposeProblem};

/// The most convolutions: four phases of rows, or two each of slices and rows.
const MAX_CONVOLUTIONS: usize = 4;

/// One of the convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffledClass {
    /// Which one it is.
    pub number: usize,
    /// The convolution. Zeros follow the input as far as its windows reach.
    pub convolution: ConvProblem<3>,
    /// How its filters are made.
    pub filters: PhaseFiltersGeometry,
    /// Where its results go.
    pub shuffle: PixelShuffle,
}

/// Taps of the phases from `first` to `last` of an axis: the first offset, and how many there are; none if a
/// phase by itself has none, or begins beyond the input's first element.
fn taps(
    kernel_size: usize,
    [stride, padding]: [usize; 2],
    [first, last]: [isize; 2],
) -> Option<[usize; 2]> {
    let [kernel_size, stride, padding] = [kernel_size, stride, padding].map(|of| of as isize);
    // Offsets with `0 <= phase + padding - stride * offset < kernel_size`.
    let most = (last + padding).div_euclid(stride);
    let least = -(kernel_size - 1 - first - padding).div_euclid(stride);
    let before = usize::try_from(-least).ok()?;
    let taps = usize::try_from(most - least + 1).ok()?;
    (taps > 0).then_some([before, taps])
}

/// The convolutions of a transposed one whose extents are checked; none where it is not of this form: strides
/// of 2 or 4 along columns, no dilation, few phases of rows and slices, each of which has taps.
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
    let axis = |axis: usize, phases: [isize; 2]| {
        let steps = [problem.stride[axis], problem.padding[axis]];
        taps(problem.kernel_size[axis], steps, phases)
    };
    // Rows that begin on vectors, if that costs no taps.
    let columns = (0..of_columns as isize).filter_map(|cropped| {
        let taps = axis(2, [-cropped, of_columns as isize - 1 - cropped])?;
        Some((cropped as usize, taps))
    });
    let (cropped, columns) = columns.min_by_key(|(_, [_, taps])| *taps)?;
    let [_, rows_of_output, columns_of_output] = problem.output.map(|extent| extent as u32);
    let mut classes = [None; MAX_CONVOLUTIONS];
    for (number, class) in classes.iter_mut().enumerate().take(of_slices * of_rows) {
        let phases = [number / of_rows, number % of_rows, 0];
        if (0..2).any(|axis| phases[axis] >= problem.output[axis]) {
            continue;
        }
        let of_phase = |of: usize| axis(of, [phases[of] as isize; 2]);
        let of = [of_phase(0)?, of_phase(1)?, columns];
        let each = [0, 1, 2];
        let padding = of.map(|[before, _]| before);
        let taps = of.map(|[_, taps]| taps);
        let mut output = problem.output;
        output[2] += cropped;
        let output = each.map(|axis| (output[axis] - phases[axis]).div_ceil(problem.stride[axis]));
        let first = each.map(|axis| {
            let of_tap = problem.padding[axis] + problem.stride[axis] * padding[axis];
            let first = (phases[axis] + of_tap) as u32;
            first.wrapping_sub(if axis == 2 { cropped as u32 } else { 0 })
        });
        let filters = PhaseFiltersGeometry {
            taps: taps.map(|taps| taps as u32),
            first,
            phases: [1, 1, of_columns as u32],
            distance: problem.stride.map(|stride| stride as u32),
            shuffled: Presence::PRESENT,
            ..PhaseFiltersGeometry::of_one_tap(problem)
        };
        let [d, h, w] = problem.input;
        let [t, r, s] = taps;
        let filters_of_class = problem.k.checked_mul(of_columns)?;
        // With padding that leaves outputs of any extents. The actual one is not the same at both ends.
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
        let [slice, row, _] = phases.map(|phase| phase as u32);
        let slice_elements = rows_of_output * columns_of_output;
        let shuffle = PixelShuffle {
            shift: of_columns.trailing_zeros(),
            cropped: cropped as u32,
            columns: columns_of_output,
            plane: problem.output[0] as u32 * slice_elements,
            slice: of_slices as u32 * slice_elements,
            row: of_rows as u32 * columns_of_output,
            first: slice * slice_elements + row * columns_of_output,
            kernel_columns: problem.kernel_size[2] as u32,
            first_tap: first[2],
        };
        *class = Some(ShuffledClass {
            number,
            convolution,
            filters,
            shuffle,
        });
    }
    Some(classes)
}

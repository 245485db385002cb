extern crate std;

use std::collections::BTreeSet;
use std::vec;

use super::*;

fn high_word(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// Returns input element and tap of every product of an output element, by the definition.
fn defined(
    y: usize,
    [input, kernel_size]: [usize; 2],
    [stride, dilation]: [usize; 2],
    padding: usize,
) -> BTreeSet<(usize, usize)> {
    let all = (0..input).flat_map(|x| (0..kernel_size).map(move |k| (x, k)));
    all.filter(|(x, k)| stride * x + dilation * k == y + padding)
        .collect()
}

/// Returns the same products, by phases.
fn by_phases(axis: &TransposedAxis, y: usize, input: usize) -> BTreeSet<(usize, usize)> {
    let Some(position) = axis.position(y as u32, high_word) else {
        return BTreeSet::new();
    };
    let of = &axis.sides[position.side as usize];
    assert!(position.phase < of.count && position.at < of.extent);
    let reach = (of.taps - 1) * axis.step;
    let taps = (0..of.taps).filter_map(|j| {
        // A convolution with symmetric padding and reversed taps.
        let x = (position.at + j * axis.step).checked_sub(reach - of.cropped)? as usize;
        let tap = of.first + position.phase + (of.taps - 1 - j) * axis.phases.divisor;
        (x < input).then_some((x, tap as usize))
    });
    taps.collect()
}

#[test]
fn phases_have_the_products_of_the_definition() {
    let mut cropped = 0;
    for (stride, dilation) in (1..7).flat_map(|s| (1..6).map(move |d| (s, d))) {
        for (input, kernel_size) in (1..6).flat_map(|x| (1..8).map(move |k| (x, k))) {
            for (padding, more) in [(0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (3, 1)] {
                let full: usize = (input - 1) * stride + dilation * (kernel_size - 1) + 1 + more;
                let Some(output) = full.checked_sub(2 * padding).filter(|&extent| extent > 0)
                else {
                    continue;
                };
                let steps = [stride, dilation];
                let axis = TransposedAxis::new([input, output], kernel_size, steps, padding);
                for y in 0..output {
                    let wanted = defined(y, [input, kernel_size], steps, padding);
                    let got = by_phases(&axis, y, input);
                    assert_eq!(
                        got, wanted,
                        "output {y} of {input} by {kernel_size}, {steps:?}, {padding}"
                    );
                }
                for side in &axis.sides {
                    let reach = side.taps.saturating_sub(1) * axis.step;
                    assert!(side.cropped <= reach);
                    if side.extent > 0 {
                        assert_eq!(side.extent + 2 * side.cropped, input as u32 + reach);
                    }
                    cropped += side.cropped;
                }
            }
        }
    }
    assert!(cropped > 0);
}

#[test]
fn threads_take_each_element_once_and_elements_of_one_phase() {
    let mut seen = [false; 4];
    for (extent, stride) in [1, 2, 31, 32, 33, 100, 1025, 5000]
        .into_iter()
        .flat_map(|extent| [1, 2, 3, 4, 6, 12, 31, 64, 200].map(|stride| (extent, stride)))
    {
        for (log_threads, most) in (0..9).flat_map(|log| [1, 4, 32].map(|most| (log, most))) {
            let tile = AxisTile::of(extent, stride, log_threads, most);
            assert!(tile.of_each() <= most);
            assert_eq!(tile.step, tile.position_step * stride);
            let mut times = vec![0; extent as usize];
            let blocks = (0..tile.tiles).flat_map(|of| (0..tile.runs).map(move |run| (of, run)));
            for (of, run) in blocks {
                for thread in 0..1 << log_threads {
                    let (first, end) = tile.of_thread(of, run, thread, extent);
                    for element in (first..end).step_by(tile.step as usize) {
                        times[element as usize] += 1;
                    }
                }
            }
            assert!(times.iter().all(|&times| times == 1), "{tile:?}");
            let kinds = [
                tile.tiles > 1,
                tile.runs > 1,
                tile.runs > 1 && tile.tiles > 1,
                tile.runs < tile.step >> log_threads,
            ];
            seen = [0, 1, 2, 3].map(|i| seen[i] || kinds[i]);
        }
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn blocks_have_as_many_threads_in_rows_of_any_extent() {
    for (rows, columns) in [(1, 1), (1, 5000), (3, 7), (40, 40), (5000, 1), (300, 2000)] {
        let tile = RowTile::of([rows, columns], [2, 2]);
        let threads = 1 << (tile.rows.log_threads + tile.columns.log_threads);
        assert_eq!(threads * tile.slices(), BLOCK_THREADS, "{rows} x {columns}");
    }
}

extern crate std;

use std::collections::BTreeSet;

use super::*;

fn high_word(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// Input element and tap of every product of an output element, by the definition.
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

/// The same, by phases.
fn by_phases(axis: &TransposedAxis, y: usize, input: usize) -> BTreeSet<(usize, usize)> {
    let Some(position) = axis.position(y as u32, high_word) else {
        return BTreeSet::new();
    };
    let of = &axis.sides[position.side as usize];
    assert!(position.phase < of.count && position.at < of.extent);
    let reach = (of.taps - 1) * axis.step;
    let taps = (0..of.taps).filter_map(|j| {
        // A convolution with symmetric padding, whose taps are reversed.
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

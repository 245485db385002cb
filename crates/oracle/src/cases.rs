use std::fmt;

use crate::case::Case;
use crate::golden_file::{GoldenFlaw, Reader};
use crate::layers::layer_of;

/// The test cases of an operator or a chain, for every backend.
#[derive(Clone, Copy)]
pub struct Cases {
    /// The first part of the case names.
    pub kind: &'static str,
    /// A plain case, small enough for any backend.
    pub smoke: fn() -> Vec<Case>,
    /// Edge cases of shapes and values: extents of 0 and 1, primes, height unlike width, groups, stride
    /// unlike dilation, borders, NaN and infinities.
    pub ragged: fn() -> Vec<Case>,
    /// Layers of the sizes in networks, with small batches. At least one is small enough for an emulator.
    pub realistic: fn() -> Vec<Case>,
    /// The name in golden files.
    pub(crate) golden: &'static str,
    /// Reads a case from a golden file.
    pub(crate) read: fn(&mut Reader) -> Result<Case, GoldenFlaw>,
}

impl fmt::Debug for Cases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// Parses cases of an operator, one per line: a name, the input's extents, the layer's attributes as in
/// chain files, and modifications of the values. `attributes` are the defaults of all lines:
///
/// ```text
/// reflect 2x3x5x9 out_channels=5 kernel_size=3 padding=[4,1] padding_mode=reflect
/// primes 3x7x11x13 eps=1e-3 shifted=577
/// nan_and_infinities 2x3x211 special
/// ```
pub(crate) fn rows(operator: &str, attributes: &str, lines: &str) -> Vec<Case> {
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| row(operator, attributes, line)).collect()
}

/// The modifications of values in [`rows`].
const EDITS: [&str; 6] = [
    "special",
    "poisoned",
    "shifted",
    "scaled",
    "at_bounds",
    "paired",
];

/// Parses one line of [`rows`].
pub(crate) fn row(operator: &str, attributes: &str, line: &str) -> Case {
    let mut words = line.split_whitespace();
    let (name, extents) = words.next().zip(words.next()).expect("name and extents");
    let extents = extents.split('x').map(|extent| extent.parse().expect(line));
    let extents: Vec<usize> = extents.collect();
    let (edits, own): (Vec<&str>, _) =
        words.partition(|word| EDITS.contains(&word.split('=').next().expect("one")));
    let layer = layer_of(operator, &format!("{attributes} {}", own.join(" ")));
    let name = format!("{operator}/{name}");
    let case = Case::of_layer(&name, layer.expect(line), &extents).expect(line);
    edits
        .iter()
        .fold(case, |case, edit| match edit.split_once('=') {
            Some(("shifted", mean)) => case.shifted(mean.parse().expect(line)),
            Some((_, factor)) => case.scaled(factor.parse().expect(line)),
            None => match *edit {
                "poisoned" => case.poisoned(),
                "at_bounds" => case.at_bounds(),
                _ => case.special(),
            },
        })
}

/// Defines the cases of an operator by [`rows`], and the reader of its golden files. `more` adds ragged
/// cases that rows cannot express.
macro_rules! cases {
    (
        $operator:literal, $attributes:expr, smoke: $smoke:expr, ragged: $ragged:expr,
        realistic: $realistic:expr $(, more: $more:expr)?
    ) => {
        crate::Cases {
            kind: $operator,
            smoke: || crate::cases::rows($operator, $attributes, $smoke),
            ragged: || [crate::cases::rows($operator, $attributes, $ragged), $($more)?].concat(),
            realistic: || crate::cases::rows($operator, $attributes, $realistic),
            golden: $operator,
            read: |file| file.case($operator, $attributes),
        }
    };
}

pub(crate) use cases;

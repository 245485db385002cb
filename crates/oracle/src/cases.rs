use std::fmt;

use crate::case::Case;
use crate::golden_file::{GoldenFlaw, Reader};

/// Shapes that every backend must get right, for an operator or a chain.
#[derive(Clone, Copy)]
pub struct Cases {
    /// What the names of the cases start with.
    pub kind: &'static str,
    /// A plain one, small enough for any backend.
    pub smoke: fn() -> Vec<Case>,
    /// Awkward shapes and values, where indexing goes wrong first: extents of 0 and 1, primes, height unlike
    /// width, groups, stride unlike dilation, padding, NaN and infinities.
    pub ragged: fn() -> Vec<Case>,
    /// Layers of the sizes that networks have, batches kept small; one at least that an emulator can afford.
    pub realistic: fn() -> Vec<Case>,
    /// What golden files call it.
    pub(crate) golden: &'static str,
    /// Makes a case of such a file.
    pub(crate) read: fn(&mut Reader) -> Result<Case, GoldenFlaw>,
}

impl fmt::Debug for Cases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

//! Rows of core matrices in shared memory: the operands of asynchronous operations.

use std::fmt::Display;
use std::rc::Rc;

use super::fault::Place;
use super::region::Region;
use super::{access, stamp};

/// Bytes of a row of a core matrix.
pub(crate) const ROW_BYTES: usize = 16;

/// A row of a core matrix, in the current block's shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    region: *const Region,
    pub(crate) offset: usize,
}

impl Row {
    /// Finds the row at an address operand of `what`.
    pub(crate) fn at(what: impl Display, address: u32, place: Place) -> Self {
        let (region, offset) = access::own_shared(format_args!("{what}:"), address, place);
        Self { region, offset }
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        // SAFETY: shared regions live as long as the launch.
        unsafe { &*self.region }
    }

    /// Returns the words of a row that was read before.
    pub(crate) fn words(&self) -> [u32; 4] {
        // SAFETY: the read has checked the 16 bytes and their alignment.
        unsafe { (self.region().data().add(self.offset).cast::<[u32; 4]>()).read() }
    }

    /// Checks a read of the row.
    pub(crate) fn read(&self, place: Place) {
        access::read(self.region, self.offset, ROW_BYTES, place);
    }

    /// Returns the write stamps of the cells of a row that was read before.
    #[inline(always)]
    pub(crate) fn writes(&self) -> impl Iterator<Item = u64> {
        let region = self.region();
        let cells = self.offset >> region.shift()..(self.offset + ROW_BYTES) >> region.shift();
        // SAFETY: the row was read, so it is inside of the region.
        cells.map(|cell| unsafe { (*region.cell(cell)).write & !stamp::BYTES })
    }
}

/// Returns the rows at these addresses, without duplicates.
pub(crate) fn rows(
    what: impl Display,
    addresses: impl Iterator<Item = u32>,
    place: Place,
) -> Rc<[Row]> {
    let mut addresses: Vec<u32> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    let rows = (addresses.into_iter()).map(|address| Row::at(&what, address, place));
    rows.collect()
}

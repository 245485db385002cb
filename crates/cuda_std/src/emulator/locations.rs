//! Interned source lines: numbers small enough for stamps.

use std::collections::HashMap;
use std::panic::Location;

use super::fault::Place;
use super::stamp;

/// Source lines that are found without hashing.
const CACHED: usize = 64;

/// The source lines of a launch so far.
#[derive(Debug)]
pub(crate) struct Places {
    cache: [(*const Location<'static>, u64); CACHED],
    bits: HashMap<*const Location<'static>, u64>,
    list: Vec<Place>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            cache: [(std::ptr::null(), 0); CACHED],
            bits: HashMap::new(),
            list: Vec::new(),
        }
    }
}

impl Places {
    /// The number of a source line, as bits of a stamp.
    #[inline]
    pub(crate) fn bits(&mut self, place: Place) -> u64 {
        let slot = std::ptr::from_ref(place).addr() / align_of::<Location<'_>>() % CACHED;
        let (cached, bits) = self.cache[slot];
        if std::ptr::eq(cached, place) {
            return bits;
        }
        let bits = self.intern(place);
        self.cache[slot] = (place, bits);
        bits
    }

    #[cold]
    fn intern(&mut self, place: Place) -> u64 {
        if let Some(&bits) = self.bits.get(&std::ptr::from_ref(place)) {
            return bits;
        }
        // Number 0 is "unknown", also for lines beyond the range of stamps.
        if self.list.len() + 1 >= stamp::PLACES {
            return 0;
        }
        self.list.push(place);
        let bits = stamp::with_place(self.list.len());
        self.bits.insert(place, bits);
        bits
    }

    /// The source line of a stamp.
    pub(crate) fn of(&self, stamp: u64) -> Option<Place> {
        self.list.get(stamp::place(stamp).checked_sub(1)?).copied()
    }
}

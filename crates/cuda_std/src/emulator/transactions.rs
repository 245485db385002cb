//! Asynchronous copies and stores in flight to shared memory.
//!
//! When one starts, its target is marked *in flight*, so that accesses to it are reported. The bytes land
//! when a thread tests the phase of its transaction barrier.

use super::access::{self, locate};
use super::exec::with;
use super::fault::Place;
use super::region::Region;
use super::stamp::{self, FLAG};

/// An asynchronous copy or store in flight.
#[derive(Debug)]
pub(crate) struct Transaction {
    source: Source,
    target: *const Region,
    to: usize,
    bytes: usize,
    /// The write stamp for the target.
    written: u64,
}

#[derive(Debug)]
enum Source {
    Memory {
        region: *const Region,
        from: usize,
        /// The source's write stamps at the start.
        stamps: Vec<u64>,
    },
    Value([u8; STORE_BYTES]),
    Chunks {
        region: *const Region,
        chunks: Vec<Chunk>,
        /// Whether f32 are rounded to tf32.
        rounds: bool,
    },
}

/// A 16-byte chunk of a box: its source offset and the write stamps at the start; `None` outside of the
/// tensor.
type Chunk = Option<(usize, Vec<u64>)>;

/// The unit of bulk copies and of their checks, in bytes.
pub(crate) const CHUNK: usize = 16;
/// Bytes of an asynchronous store.
const STORE_BYTES: usize = 8;

impl Transaction {
    /// A copy of checked bytes, from `from` in `source` to `to` in `target`. The current thread counts as
    /// reader and writer.
    pub(crate) fn copy(
        (source, from): (*const Region, usize),
        (target, to): (*const Region, usize),
        bytes: usize,
        place: Place,
    ) -> Self {
        let written = with().stamp(place);
        for offset in (0..bytes).step_by(CHUNK) {
            access::read(source, from + offset, CHUNK, place);
            mark(target, to + offset, CHUNK, "copy_bulk", place);
        }
        Self {
            source: Source::Memory {
                region: source,
                from,
                stamps: write_stamps(source, from, bytes),
            },
            target,
            to,
            bytes,
            written,
        }
    }

    /// A copy of 16-byte chunks to consecutive addresses, each from byte `from` of `source`, or zeros. With
    /// `rounds`, f32 are rounded to tf32. The current thread counts as reader and writer.
    pub(crate) fn chunks(
        source: *const Region,
        (from, rounds): (&[Option<usize>], bool),
        (target, to): (*const Region, usize),
        place: Place,
    ) -> Self {
        let written = with().stamp(place);
        for (i, from) in from.iter().enumerate() {
            if let &Some(from) = from {
                access::read(source, from, CHUNK, place);
            }
            mark(target, to + i * CHUNK, CHUNK, "copy_box", place);
        }
        let chunk = |from: usize| (from, write_stamps(source, from, CHUNK));
        Self {
            source: Source::Chunks {
                region: source,
                chunks: from.iter().map(|from| from.map(chunk)).collect(),
                rounds,
            },
            target,
            to,
            bytes: from.len() * CHUNK,
            written,
        }
    }

    /// A store of the current thread to byte `to` of `target`.
    pub(crate) fn store(
        (target, to): (*const Region, usize),
        values: [f32; 2],
        what: &'static str,
        place: Place,
    ) -> Self {
        let written = with().stamp(place);
        mark(target, to, STORE_BYTES, what, place);
        let mut bytes = [0; STORE_BYTES];
        for (bytes, value) in bytes.chunks_mut(size_of::<f32>()).zip(values) {
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
        Self {
            source: Source::Value(bytes),
            target,
            to,
            bytes: STORE_BYTES,
            written,
        }
    }

    /// The target's memory and byte, and the target's write stamp.
    pub(crate) fn target(&self) -> (String, u64, u64) {
        // SAFETY: shared regions live as long as the launch.
        let target = unsafe { &*self.target };
        (target.describe(), self.to as u64, self.written)
    }

    /// The segment of the write.
    pub(crate) fn segment(&self) -> u64 {
        self.written >> stamp::SEGMENT_SHIFT
    }
}

/// Checks that a range may be overwritten by the current thread, and marks it in flight.
fn mark(target: *const Region, to: usize, bytes: usize, what: &'static str, place: Place) {
    let exec = with();
    // SAFETY: shared regions live as long as the launch.
    let target = unsafe { &*target };
    let in_flight = exec.stamp(place) | FLAG;
    for index in locate(target, to, bytes, what, place) {
        // SAFETY: `locate` gives indices of the shadow.
        let cell = unsafe { &mut *target.cell(index) };
        exec.check_overwrite(target, index, cell, what, place);
        cell.write = in_flight;
    }
}

impl Transaction {
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes as i64
    }

    /// Writes the bytes to the target.
    pub(crate) fn land(&self, place: Place) {
        let exec = with();
        // SAFETY: shared regions live as long as the launch.
        let target = unsafe { &*self.target };
        let check = |source: &Region, from: usize, bytes: usize, stamps: &[u64]| {
            if write_stamps(source, from, bytes) != stamps {
                with().source_changed(source, from, self.written, place);
            }
        };
        let mut gathered = Vec::new();
        let bytes: *const u8 = match &self.source {
            Source::Memory {
                region,
                from,
                stamps,
            } => {
                // SAFETY: views are made from live regions.
                let source = unsafe { &**region };
                check(source, *from, self.bytes, stamps);
                // SAFETY: `copy` checked the range against the region.
                unsafe { source.data().add(*from) }
            }
            Source::Value(bytes) => bytes.as_ptr(),
            Source::Chunks {
                region,
                chunks,
                rounds,
            } => {
                for chunk in chunks {
                    let mut bytes = [0; CHUNK];
                    if let Some((from, stamps)) = chunk {
                        // SAFETY: tensors are in live regions, or no chunk is from one.
                        let source = unsafe { &**region };
                        check(source, *from, CHUNK, stamps);
                        // SAFETY: `chunks` checked the range against the region.
                        bytes = unsafe { source.data().add(*from).cast::<[u8; CHUNK]>().read() };
                        if *rounds {
                            bytes.as_chunks_mut().0.iter_mut().for_each(round_to_tf32);
                        }
                    }
                    gathered.extend(bytes);
                }
                gathered.as_ptr()
            }
        };
        for offset in (0..self.bytes).step_by(STORE_BYTES) {
            for index in locate(target, self.to + offset, STORE_BYTES, "landing", place) {
                // SAFETY: `locate` gives indices of the shadow.
                unsafe { (*target.cell(index)).write = self.written | target.full_cell() };
            }
        }
        exec.stored[1] += self.bytes as u64;
        // SAFETY: the source has that many bytes, and the target's range was checked when the copy
        // started; they are different regions.
        unsafe { std::ptr::copy_nonoverlapping(bytes, target.data().add(self.to), self.bytes) };
    }
}

/// Rounds an f32 to the nearest tf32, to even in the middle.
fn round_to_tf32(bytes: &mut [u8; 4]) {
    /// Fraction bits of an f32 beyond those of a tf32.
    const SURPLUS: u32 = 13;
    let word = u32::from_ne_bytes(*bytes);
    let value = f32::from_bits(word);
    let rounded = if value.is_finite() {
        let half = (1 << (SURPLUS - 1)) - 1 + (word >> SURPLUS & 1);
        (word + half) >> SURPLUS << SURPLUS
    } else if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        word
    };
    *bytes = rounded.to_ne_bytes();
}

/// The write stamps, without locations, of a range's 4-byte words.
fn write_stamps(region: *const Region, start: usize, len: usize) -> Vec<u64> {
    // SAFETY: sources are live regions.
    let region = unsafe { &*region };
    let word = |offset: usize| {
        // SAFETY: the range was checked against the region.
        let write = unsafe { (*region.cell(offset >> region.shift())).write };
        write & !stamp::BYTES
    };
    (start..start + len).step_by(4).map(word).collect()
}

//! A region of device memory with its shadow.
//!
//! Each allocation, each static shared array and the dynamic shared memory is a region. Its shadow
//! is an array of cells, one per granule of 4 bytes: the stamp of the last write, with the bytes
//! are initialised, and the stamps of two reads since. The first access that is narrower than a granule
//! splits the whole shadow, once, to 2 or 1 bytes per cell. Accesses to neighbouring halves are thus no
//! race, and regions with wider accesses only stay cheap.
//!
//! A *sparse* region may exceed the host's memory: data and shadow are reserved addresses, and only touched
//! parts take memory. Initial contents are computed, cell by cell, at the first read. Its shadow is never
//! split.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::fault::{Earlier, FaultKind};
use super::reserve::Reserved;
use super::stamp;

/// The shadow of one granule. All zeros: never written, never read.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Shadow {
    /// The last write.
    pub(crate) write: u64,
    /// Reads since: see `access`.
    pub(crate) reads: [u64; 2],
}

/// The kind and name of a region, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    Allocation(u64),
    Static(&'static str),
    Dynamic,
}

#[derive(Debug)]
pub(crate) struct Region {
    data: *mut u8,
    bytes: usize,
    /// The device address of the first byte.
    pub(crate) base: usize,
    pub(crate) name: Name,
    /// 0 for global memory, 1 for shared.
    pub(crate) space: usize,
    shadow: Cell<*mut Shadow>,
    /// log2 of the bytes per cell.
    shift: Cell<u32>,
    data_layout: Layout,
    sparse: Option<Sparse>,
}

/// The reserved addresses of a sparse region, in place of allocations.
#[derive(Debug)]
struct Sparse {
    _data: Reserved,
    _shadow: Reserved,
    contents: Option<Contents>,
}

/// Computes the bytes from a given offset on.
type Computes = dyn Fn(usize, &mut [u8]) + Send + Sync;

/// The initial contents of sparse memory.
pub(crate) struct Contents(pub(crate) Arc<Computes>);

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

/// Alignment of allocations, as `cuMemAlloc` gives it.
const ALIGNMENT: usize = 256;
/// log2 of the widest granule.
const WIDEST: u32 = 2;

// SAFETY: the pointers are owned, and whoever holds the device's state is alone with its regions.
unsafe impl Send for Region {}

impl Region {
    /// A region of uninitialised bytes, at `base` or, if `None`, at its real address. `None` if the
    /// system has no memory.
    pub(crate) fn new(name: Name, bytes: usize, base: Option<usize>) -> Option<Self> {
        let data_layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
        let shadow_layout = shadow_layout(bytes, WIDEST)?;
        // SAFETY: neither layout is empty.
        let (data, shadow) = unsafe { (alloc_zeroed(data_layout), alloc_zeroed(shadow_layout)) };
        let region = Self {
            data,
            bytes,
            base: base.unwrap_or(data as usize),
            name,
            space: usize::from(!matches!(name, Name::Allocation(_))),
            shadow: Cell::new(shadow.cast()),
            shift: Cell::new(WIDEST),
            data_layout,
            sparse: None,
        };
        // If one of the two is missing, dropping `region` frees the other.
        (!data.is_null() && !shadow.is_null()).then_some(region)
    }

    /// A sparse region with accesses of at least `element_bytes` bytes, uninitialised or with these contents.
    /// `None` if the system cannot reserve the addresses.
    pub(crate) fn sparse(
        name: Name,
        bytes: usize,
        element_bytes: usize,
        contents: Option<Contents>,
    ) -> Option<Self> {
        let shift = element_bytes.trailing_zeros().min(WIDEST);
        let data = Reserved::new(bytes)?;
        let shadow = Reserved::new(shadow_layout(bytes, shift)?.size())?;
        Some(Self {
            data: data.start(),
            bytes,
            base: data.start().expose_provenance(),
            name,
            space: 0,
            shadow: Cell::new(shadow.start().cast()),
            shift: Cell::new(shift),
            data_layout: Layout::new::<u8>(),
            sparse: Some(Sparse {
                _data: data,
                _shadow: shadow,
                contents,
            }),
        })
    }

    pub(crate) fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    /// Computes the contents of an unwritten cell of a sparse region. Returns whether the region has
    /// contents.
    #[cold]
    pub(crate) fn supply(&self, index: usize) -> bool {
        let contents = self.sparse.as_ref().and_then(|of| of.contents.as_ref());
        let (Some(Contents(contents)), start) = (contents, index << self.shift.get()) else {
            return false;
        };
        let bytes = (self.bytes - start).min(1 << self.shift.get());
        // SAFETY: the cell is one of the shadow's, and so its bytes are the region's; whoever calls has no
        // reference to them.
        let (cell, bytes) = unsafe {
            let at = self.data.add(start);
            (
                &mut *self.cell(index),
                std::slice::from_raw_parts_mut(at, bytes),
            )
        };
        if cell.write != 0 {
            return false;
        }
        contents(start, bytes);
        cell.write = stamp::HOST | self.full_cell();
        true
    }

    /// The fault of an access to `bytes` bytes that starts at `offset`.
    pub(crate) fn misaligned(&self, what: &'static str, offset: usize, bytes: usize) -> FaultKind {
        let (object, offset, bytes) = (self.describe(), offset as u64, bytes as u64);
        FaultKind::Misaligned {
            what,
            object,
            offset,
            bytes,
        }
    }

    /// The fault of an access to the bytes from `start` to `end`.
    pub(crate) fn outside(&self, what: &'static str, start: i64, end: i64) -> FaultKind {
        let object = self.describe();
        FaultKind::OutsideAllocation {
            what,
            object,
            start,
            end,
        }
    }

    /// The fault of an access to a byte that is in flight since `earlier`.
    pub(crate) fn in_flight(
        &self,
        what: &'static str,
        offset: usize,
        earlier: Box<Earlier>,
    ) -> FaultKind {
        let (object, offset) = (self.describe(), offset as u64);
        FaultKind::InFlight {
            what,
            object,
            offset,
            earlier,
        }
    }

    /// The fault of a read of a byte that was never written.
    pub(crate) fn uninitialised(&self, what: &'static str, offset: usize) -> FaultKind {
        let (object, offset) = (self.describe(), offset as u64);
        FaultKind::Uninitialized {
            what,
            object,
            offset,
        }
    }

    /// The region's name for messages.
    pub(crate) fn describe(&self) -> String {
        let bytes = self.bytes;
        match self.name {
            Name::Allocation(number) => format!("global allocation {number} ({bytes} bytes)"),
            Name::Static(name) => format!("shared array {name} ({bytes} bytes)"),
            Name::Dynamic => format!("dynamic shared memory ({bytes} bytes)"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.data
    }

    #[inline(always)]
    pub(crate) fn shift(&self) -> u32 {
        self.shift.get()
    }

    /// The `bytes` bits of the write stamp of an initialised cell.
    #[inline(always)]
    pub(crate) fn full_cell(&self) -> u64 {
        (1 << (1 << self.shift.get())) - 1
    }

    pub(crate) fn cell(&self, index: usize) -> *mut Shadow {
        debug_assert!(index < cells(self.bytes, self.shift.get()));
        // SAFETY: the caller checked the access against `len`, so the index is within the shadow.
        unsafe { self.shadow.get().add(index) }
    }

    /// The cell of an access that covers one whole cell, if it does and lies within the region.
    #[inline(always)]
    pub(crate) fn whole_cell(&self, offset: usize, bytes: usize) -> Option<*const Shadow> {
        let shift = self.shift.get();
        let whole = bytes == 1 << shift
            && (self.base + offset) & (bytes - 1) == 0
            && bytes <= self.bytes
            && offset <= self.bytes - bytes;
        // SAFETY: the access ends within the region, so its cell is one of the shadow's.
        whole.then(|| unsafe { self.shadow.get().add(offset >> shift).cast_const() })
    }

    /// Makes everything uninitialised and unread.
    pub(crate) fn forget(&self) {
        // SAFETY: the shadow has this many cells, and zeros are valid.
        unsafe {
            let count = cells(self.bytes, self.shift.get());
            self.shadow.get().write_bytes(0, count);
        }
    }

    /// Splits cells until an access of `bytes` bytes covers whole ones. `false` if the system has no
    /// memory for them.
    #[cold]
    pub(crate) fn split_for(&self, bytes: usize) -> bool {
        let (old_shift, new_shift) = (self.shift.get(), bytes.trailing_zeros());
        if new_shift >= old_shift {
            return true;
        }
        if self.is_sparse() {
            return false;
        }
        let parts = 1 << (old_shift - new_shift);
        let Some(layout) = shadow_layout(self.bytes, new_shift) else {
            return false;
        };
        // SAFETY: the layout is not empty.
        let new: *mut Shadow = unsafe { alloc_zeroed(layout).cast() };
        if new.is_null() {
            return false;
        }
        let (part_bytes, count) = (1 << new_shift, cells(self.bytes, new_shift));
        let part_mask = (1 << part_bytes) - 1;
        for i in 0..count {
            // SAFETY: i / parts is below the old count, i below the new one.
            unsafe {
                let mut cell = *self.shadow.get().add(i / parts);
                let initialised =
                    (cell.write & stamp::BYTES) >> ((i % parts) * part_bytes) & part_mask;
                cell.write = cell.write & !stamp::BYTES | initialised;
                // Two cells cannot share a set of reads. Dropping it may hide a race, but never reports a
                // false one.
                if cell.reads[1] & stamp::FLAG != 0 {
                    cell.reads[1] = 0;
                }
                new.add(i).write(cell);
            }
        }
        self.free_shadow();
        self.shadow.set(new);
        self.shift.set(new_shift);
        true
    }

    /// Marks bytes `start .. start + len` as written by the host: initialised, and ordered before all later
    /// launches.
    pub(crate) fn host_wrote(&self, start: usize, len: usize) {
        let shift = self.shift.get();
        let mut byte = start;
        while byte < start + len {
            let index = byte >> shift;
            let cell_end = ((index + 1) << shift).min(start + len);
            let within = byte - (index << shift);
            let mask = ((1u64 << (cell_end - byte)) - 1) << within;
            // SAFETY: the caller checked start + len against `len`.
            let cell = unsafe { &mut *self.cell(index) };
            let kept = cell.write & stamp::BYTES;
            *cell = Shadow {
                write: stamp::HOST | kept | mask,
                reads: [0; 2],
            };
            byte = cell_end;
        }
    }

    /// The first uninitialised byte of `start .. start + len`.
    pub(crate) fn first_uninitialised(&self, start: usize, len: usize) -> Option<usize> {
        let shift = self.shift.get();
        (start..start + len).find(|byte| {
            let index = byte >> shift;
            // SAFETY: the caller checked start + len against `len`.
            let write = unsafe { (*self.cell(index)).write };
            if write == 0 && self.supply(index) {
                return false;
            }
            write >> (byte - (index << shift)) & 1 == 0
        })
    }

    /// Replaces every stamp by the host's, so that the clock can start again.
    pub(crate) fn restart_clock(&self) {
        for i in 0..cells(self.bytes, self.shift.get()) {
            // SAFETY: i is below the number of cells.
            let cell = unsafe { &mut *self.cell(i) };
            let initialised = cell.write & stamp::BYTES;
            *cell = Shadow {
                write: stamp::HOST | initialised,
                reads: [0; 2],
            };
        }
    }

    fn free_shadow(&self) {
        let shadow = self.shadow.get();
        if let (false, Some(layout)) = (
            shadow.is_null(),
            shadow_layout(self.bytes, self.shift.get()),
        ) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(shadow.cast(), layout) }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.is_sparse() {
            return;
        }
        self.free_shadow();
        if !self.data.is_null() {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.data, self.data_layout) }
        }
    }
}

fn cells(bytes: usize, shift: u32) -> usize {
    bytes.div_ceil(1 << shift)
}

fn shadow_layout(bytes: usize, shift: u32) -> Option<Layout> {
    Layout::array::<Shadow>(cells(bytes, shift).max(1)).ok()
}

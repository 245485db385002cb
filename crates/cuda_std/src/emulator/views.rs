//! The emulated views of global and shared memory.

use std::panic::Location;

use super::access;
use super::exec::{fail, with};
use super::fault::{FaultKind, Place};
use super::region::{Name, Region};
use crate::common::{Element, MAX_SHARED_BYTES};

/// A view of global memory: its allocation, found once, and the offset in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalView {
    /// Null if the pointer is in no allocation.
    pub(super) region: *const Region,
    /// Bytes from the region's start, or the bare address.
    offset: usize,
    len: usize,
}

/// A view of shared memory.
#[derive(Debug, Clone, Copy)]
pub struct SharedView {
    pub(super) region: *const Region,
    offset: u32,
    len: u32,
}

/// A static shared array's declaration.
#[derive(Debug)]
pub struct SharedSymbol {
    name: &'static str,
    len: u32,
    element_bytes: u32,
}

#[cold]
#[inline(never)]
fn out_of_bounds(
    what: &'static str,
    region: *const Region,
    index: u64,
    len: u64,
    place: Place,
) -> ! {
    // SAFETY: null or live, as in every view.
    let object =
        unsafe { region.as_ref() }.map_or_else(|| "no allocation".to_owned(), Region::describe);
    let kind = FaultKind::OutOfBounds {
        what,
        object,
        index,
        len,
    };
    fail(place, kind)
}

#[cold]
#[inline(never)]
fn no_allocation(what: &'static str, address: usize, bytes: usize, place: Place) -> ! {
    let object = format!("no allocation (address {address:#x})");
    let (start, end) = (0, bytes as i64);
    let kind = FaultKind::OutsideAllocation {
        what,
        object,
        start,
        end,
    };
    fail(place, kind)
}

macro_rules! view {
    ($view:ident, $index:ty) => {
        impl $view {
            #[inline(always)]
            pub(crate) fn len(self) -> $index {
                self.len
            }

            #[track_caller]
            pub(crate) fn slice<T>(self, start: $index, len: $index) -> Self {
                let end = start.checked_add(len);
                if end.is_none_or(|end| end > self.len) {
                    let index = u64::from(start as u64).saturating_add(len as u64);
                    out_of_bounds(
                        "slice up to",
                        self.region,
                        index,
                        self.len as u64,
                        Location::caller(),
                    );
                }
                let offset = self
                    .offset
                    .wrapping_add(start.wrapping_mul(size_of::<T>() as $index));
                Self {
                    offset,
                    len,
                    ..self
                }
            }

            /// The byte offset of element `i` of `n` accessed ones.
            #[track_caller]
            #[inline(always)]
            pub(super) fn locate<T>(self, what: &'static str, i: $index, n: usize) -> usize {
                let n_index = n as $index;
                if i >= self.len || n_index > self.len - i {
                    let outside = (i as u64).max(self.len as u64);
                    out_of_bounds(
                        what,
                        self.region,
                        outside,
                        self.len as u64,
                        Location::caller(),
                    );
                }
                let offset =
                    (self.offset as usize).wrapping_add((i as usize).wrapping_mul(size_of::<T>()));
                if self.region.is_null() {
                    no_allocation(what, offset, n * size_of::<T>(), Location::caller());
                }
                offset
            }

            // SAFETY: `read` and `write` check the bytes, and any bits are a `T`.
            backend_functions! {
                #[inline(never)]
                unsafe fn load[T: Element](self, i: $index) -> T =
                    access::read(self.region, self.locate::<T>("load", i, 1), size_of::<T>(), Location::caller())
                        .cast::<T>()
                        .read();
                #[inline(never)]
                unsafe fn store[T: Element](self, i: $index, value: T) =
                    access::write(self.region, self.locate::<T>("store", i, 1), size_of::<T>(), Location::caller())
                        .cast::<T>()
                        .write(value);
                #[inline(never)]
                unsafe fn load_vec[T: Element, const N: usize](self, i: $index) -> [T; N] =
                    access::read(self.region, self.locate::<T>("load", i, N), N * size_of::<T>(), Location::caller())
                        .cast::<[T; N]>()
                        .read();
                #[inline(never)]
                unsafe fn store_vec[T: Element, const N: usize](self, i: $index, values: [T; N]) =
                    access::write(self.region, self.locate::<T>("store", i, N), N * size_of::<T>(), Location::caller())
                        .cast::<[T; N]>()
                        .write(values);
            }
        }
    };
}

view!(GlobalView, usize);
view!(SharedView, u32);

impl GlobalView {
    pub(crate) unsafe fn new(ptr: *const u8, len: usize) -> Self {
        match with().memory.find(ptr.addr()) {
            Some(region) => Self {
                region,
                offset: ptr.addr() - region.base,
                len,
            },
            None => Self {
                region: std::ptr::null(),
                offset: ptr.addr(),
                len,
            },
        }
    }

    // SAFETY: `read_constant` checks the bytes, and any bits are a `T`.
    backend_functions! {
        #[inline(never)]
        unsafe fn load_readonly[T: Element](self, i: usize) -> T = {
            let offset = self.locate::<T>("load", i, 1);
            access::read_constant(self.region, offset, size_of::<T>(), Location::caller()).cast::<T>().read()
        };
        #[inline(always)]
        unsafe fn load_vec_readonly[T: Element, const N: usize](self, i: usize) -> [T; N] = {
            let (offset, bytes) = (self.locate::<T>("load", i, N), N * size_of::<T>());
            access::read_constant(self.region, offset, bytes, Location::caller()).cast::<[T; N]>().read()
        };
    }

    /// The source of a copy of elements from `i` on, `valid` bytes of which are read.
    #[track_caller]
    pub(crate) fn source<T>(self, i: usize, valid: usize) -> Option<(*const Region, usize)> {
        let n = valid.div_ceil(size_of::<T>());
        (n > 0).then(|| (self.region, self.locate::<T>("cp.async", i, n)))
    }
}

impl SharedView {
    backend_functions! {
        #[inline(always)]
        unsafe fn load_opaque[T: Element](self, i: u32) -> T = self.load::<T>(i);
    }

    #[track_caller]
    pub(crate) fn dynamic<T>(byte_offset: u32, len: u32) -> Self {
        let place = Location::caller();
        let exec = with();
        let is_dynamic = |region: &&Region| matches!(region.name, Name::Dynamic);
        let Some(region) = exec.shared.of_block(exec.rank).find(is_dynamic) else {
            let text = "dynamic shared memory: the launch gives none".to_owned();
            fail(place, FaultKind::Argument(text));
        };
        let end = u64::from(byte_offset) + u64::from(len) * size_of::<T>() as u64;
        if end > region.len() as u64 {
            fail(
                place,
                region.outside("view", byte_offset.into(), end as i64),
            );
        }
        let view = Self {
            region,
            offset: byte_offset,
            len,
        };
        view.check_alignment::<T>(place);
        view
    }

    fn check_alignment<T>(self, place: Place) {
        // SAFETY: shared regions live as long as the launch.
        let region = unsafe { &*self.region };
        if !(region.base + self.offset as usize).is_multiple_of(size_of::<T>()) {
            fail(
                place,
                region.misaligned("view", self.offset as usize, size_of::<T>()),
            );
        }
    }

    #[track_caller]
    pub(crate) fn cast<T, U>(self) -> Self {
        let bytes = u64::from(self.len) * size_of::<T>() as u64;
        let view = Self {
            len: (bytes / size_of::<U>() as u64) as u32,
            ..self
        };
        view.check_alignment::<U>(Location::caller());
        view
    }

    #[track_caller]
    pub(crate) fn addr<T>(self, i: u32) -> u32 {
        if i > self.len {
            out_of_bounds(
                "address",
                self.region,
                u64::from(i),
                u64::from(self.len),
                Location::caller(),
            );
        }
        // SAFETY: shared regions live as long as the launch.
        let base = unsafe { (*self.region).base } as u32;
        base + self.offset + i * size_of::<T>() as u32
    }
}

impl SharedSymbol {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str, len: u32, element_bytes: u32) -> Self {
        Self {
            name,
            len,
            element_bytes,
        }
    }

    #[doc(hidden)]
    #[track_caller]
    pub fn view(&'static self) -> SharedView {
        let bytes = self.len as usize * self.element_bytes as usize;
        let key = std::ptr::from_ref(self).cast();
        let region = static_shared(key, self.name, bytes, Location::caller());
        SharedView {
            region,
            offset: 0,
            len: self.len,
        }
    }
}

/// The memory of a static shared array in this block, allocated at its first use.
fn static_shared(key: *const (), name: &'static str, bytes: usize, place: Place) -> *const Region {
    let exec = with();
    if let Some(region) = exec.shared.of_symbol(key, exec.rank) {
        return region;
    }
    let total = exec.shared.bytes + bytes as u64;
    let limit = u64::from(MAX_SHARED_BYTES);
    if total > limit {
        fail(
            place,
            FaultKind::SharedMemory {
                bytes: total,
                limit,
            },
        );
    }
    exec.shared
        .lay_out(key, Name::Static(name), bytes, exec.rank)
}

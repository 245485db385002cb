//! Atomic accesses: their checks and their operations.

use std::panic::Location;

use super::access::locate;
use super::exec::{current, with};
use super::fault::Place;
use super::region::Region;
use super::schedule;
use super::stamp::{self, ATOMIC, FLAG};
use super::vector_clocks::Atomic;
use super::views::{GlobalView, SharedView};
use crate::common::Element;

/// Checks an atomic access of 4 or 8 bytes and returns where they are.
#[inline(never)]
pub(crate) fn atomic(
    region: *const Region,
    offset: usize,
    bytes: usize,
    kind: Atomic,
    place: Place,
) -> *mut u8 {
    // SAFETY: as in `read`.
    let (exec, region) = unsafe { (&mut *current(), &*region) };
    exec.tick(place);
    exec.stats.atomics += 1;
    let what = "atomic access";
    let cells = locate(region, offset, bytes, what, place);
    let full = region.full_cell();
    let new = exec.stamp(place) | ATOMIC | full;
    for index in cells {
        let cell = region.cell(index);
        // SAFETY: `locate` gives indices of the shadow.
        let write = unsafe { (*cell).write };
        let lacking = kind != Atomic::Store && write & full != full && !region.supply(index);
        // SAFETY: as above, and nobody has another reference to it.
        let cell = unsafe { &mut *cell };
        if cell.write & FLAG != 0 || lacking {
            exec.not_readable(region, index, cell, what, place);
        }
        if cell.write & ATOMIC == 0 && !exec.now.ordered(cell.write) {
            exec.race(region, index, cell.write, "write", what, place);
        }
        if kind == Atomic::Load {
            continue;
        }
        for slot in 0..2 {
            let read = cell.reads[slot];
            if read & ATOMIC != 0 && !exec.now.ordered(read) {
                continue;
            }
            if let Some(unordered) = exec.unordered_read(region, read) {
                exec.race(region, index, unordered, "read", what, place);
            }
            // An atomic of another thread is kept beside this one, because the next access may be ordered
            // after only one of them.
            let keep = cell.write & ATOMIC != 0 && !exec.now.ordered(cell.write);
            cell.reads[slot] = if keep { cell.write & !stamp::BYTES } else { 0 };
        }
        cell.write = new;
    }
    // SAFETY: offset + bytes <= len, says `locate`.
    unsafe { region.data().add(offset) }
}

macro_rules! atomics_of_view {
    ($view:ident, $index:ty) => {
        impl $view {
            #[track_caller]
            unsafe fn update<T: Element>(
                self,
                i: $index,
                kind: Atomic,
                change: impl FnOnce(T) -> T,
            ) -> T {
                /// Atomics in a row after which other threads run, because a loop may wait for them.
                const PATIENCE: u64 = 64;
                let place = Location::caller();
                let offset = self.locate::<T>("atomic access", i, 1);
                let at = atomic(self.region, offset, size_of::<T>(), kind, place).cast::<T>();
                // SAFETY: `atomic` checked the bytes, and any bits are a `T`.
                let old = unsafe { at.read() };
                if kind != Atomic::Load {
                    // SAFETY: as above.
                    unsafe { at.write(change(old)) };
                }
                let exec = with();
                exec.synchronise(self.region, offset, kind);
                if exec.stats.atomics.is_multiple_of(PATIENCE) {
                    schedule::step_aside();
                }
                old
            }

            backend_functions! {
                unsafe fn atomic_add[T: AtomicAdd](self, i: $index, value: T) -> T =
                    self.update::<T>(i, Atomic::Modify, |old| old.plus(value));
                unsafe fn atomic_exchange[T: AtomicInteger](self, i: $index, value: T) -> T =
                    self.update::<T>(i, Atomic::Modify, |_| value);
                unsafe fn atomic_load[T: AtomicInteger](self, i: $index) -> T =
                    self.update::<T>(i, Atomic::Load, |old| old);
                unsafe fn atomic_store[T: AtomicInteger](self, i: $index, value: T) -> T = {
                    self.update::<T>(i, Atomic::Store, |_| value);
                    value
                };
            }
        }
    };
}

atomics_of_view!(GlobalView, usize);
atomics_of_view!(SharedView, u32);

/// Element types of atomic additions.
pub trait AtomicAdd: Element {
    #[doc(hidden)]
    fn plus(self, other: Self) -> Self;
}

/// Element types of atomic comparisons.
pub trait AtomicInteger: AtomicAdd + Ord {}

macro_rules! atomics {
    ($($ty:ty: $a:ident, $b:ident => $sum:expr;)*) => {$(
        impl AtomicAdd for $ty {
            fn plus(self, $b: Self) -> Self {
                let $a = self;
                $sum
            }
        }
    )*};
}

atomics! {
    u32: a, b => a.wrapping_add(b);
    i32: a, b => a.wrapping_add(b);
    u64: a, b => a.wrapping_add(b);
    f32: a, b => a + b;
    f64: a, b => a + b;
}

impl AtomicInteger for u32 {}
impl AtomicInteger for i32 {}
impl AtomicInteger for u64 {}

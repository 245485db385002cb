//! Which mutant is active. The root of a crate in the copy of the kernels, not of this program.
#![feature(core_intrinsics, const_eval_select)]
#![allow(internal_features)]

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Numbers of no mutant: it is not known yet, and those that are asked for are to be noted.
const UNKNOWN: u32 = u32::MAX;
const NOTED: u32 = u32::MAX - 1;

/// More than there are mutants.
const MOST: usize = 1 << 17;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static LIST: Mutex<Option<File>> = Mutex::new(None);

/// Whether this mutant is to be done: never when a constant is computed.
#[inline(always)]
pub const fn active(number: u32) -> bool {
    core::intrinsics::const_eval_select((number,), never, chosen)
}

const fn never(_: u32) -> bool {
    false
}

#[inline(always)]
fn chosen(number: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    active == number || active >= NOTED && note(number)
}

/// Reads once which mutant it is to be, or notes that this one was asked for.
#[cold]
#[inline(never)]
fn note(number: u32) -> bool {
    let mut list = LIST.lock().unwrap();
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let text = |name| env::var(name).ok();
        if let Some(path) = text("MUTANTS_REACHED") {
            *list = Some(OpenOptions::new().create(true).append(true).open(path).unwrap());
            ACTIVE.store(NOTED, Relaxed);
        } else {
            let number = text("MUTANT").map_or(0, |text| text.parse().unwrap());
            ACTIVE.store(number, Relaxed);
        }
    }
    if ACTIVE.load(Relaxed) == NOTED && !REACHED[number as usize].swap(true, Relaxed) {
        writeln!(list.as_mut().unwrap(), "{number}").unwrap();
    }
    ACTIVE.load(Relaxed) == number
}

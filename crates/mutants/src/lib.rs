//! Run-time selection of a thread's mutant, in a copy of the sources that contains all mutants.
//!
//! `cargo xtask mutants` writes the copy: each expression has its mutants next to it, and [`is_on`] selects
//! one of them at run time. A single build thus tests all mutants.

use std::cell::{Cell, RefCell};

/// The number that means no mutant.
pub const NONE: u32 = u32::MAX;

thread_local! {
    static ON: Cell<u32> = const { Cell::new(NONE) };
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static ASKED: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread runs the mutant of this number.
///
/// # Panics
/// After more calls than [`run`] allows: a mutant may run without end.
#[inline]
#[must_use]
pub fn is_on(mutant: u32) -> bool {
    let left = LEFT.get();
    assert!(left > 0, "a mutant runs without end");
    LEFT.set(left - 1);
    let on = ON.get();
    if on == NONE {
        note(mutant);
    }
    on == mutant
}

#[cold]
fn note(mutant: u32) {
    ASKED.with_borrow_mut(|asked| {
        let mutant = mutant as usize;
        if asked.len() <= mutant {
            asked.resize(mutant + 1, false);
        }
        asked[mutant] = true;
    });
}

/// Runs `f` with a mutant, and allows this many calls of [`is_on`].
pub fn run<R>(mutant: u32, questions: u64, f: impl FnOnce() -> R) -> R {
    ON.set(mutant);
    LEFT.set(questions);
    let result = f();
    ON.set(NONE);
    LEFT.set(u64::MAX);
    result
}

/// Runs `f` without a mutant. Returns its result, the mutants that it could have run, and the number of
/// calls of [`is_on`].
pub fn asked<R>(f: impl FnOnce() -> R) -> (R, Vec<u32>, u64) {
    ASKED.with_borrow_mut(Vec::clear);
    ON.set(NONE);
    LEFT.set(u64::MAX);
    let result = f();
    let questions = u64::MAX - LEFT.replace(u64::MAX);
    let asked = ASKED.take();
    let numbers = (0..).zip(&asked).filter(|(_, is_asked)| **is_asked);
    (
        result,
        numbers.map(|(number, _)| number).collect(),
        questions,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mutant_is_on_and_all_that_were_asked_for_are_known() {
        let both = || [is_on(3), is_on(5)];
        assert_eq!(asked(both), ([false, false], vec![3, 5], 2));
        assert_eq!(run(5, 2, both), [false, true]);
        assert_eq!(both(), [false, false]);
    }

    #[test]
    fn what_runs_without_end_ends() {
        let endless = || while !is_on(1) {};
        assert!(std::panic::catch_unwind(|| run(0, 1000, endless)).is_err());
    }
}

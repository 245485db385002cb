//! The programs that a model has made.

use std::sync::{Arc, Mutex, PoisonError};

use super::Options;
use crate::device::Order;
use crate::error::Result;
use crate::program::Program;

/// Programs that a model keeps, the last ones used. Plans keep theirs themselves.
const KEPT_PROGRAMS: usize = 16;

/// Programs of a model by what they were made for. The model's element type and device are the same for all.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    input: Box<[usize]>,
    order: Order,
    options: Options,
    program: Arc<Program>,
}

impl Programs {
    /// The program for inputs of this shape that lie like this, from `make` where it is not kept. Threads that ask for different ones at a
    /// time do not wait for each other.
    pub(super) fn get(
        &self,
        input: &[usize],
        order: &Order,
        options: &Options,
        make: impl FnOnce() -> Result<Program>,
    ) -> Result<Arc<Program>> {
        // A panic under the lock leaves the list whole.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &Entry| {
            *entry.input == *input && entry.order == *order && entry.options == *options
        };
        let mut kept = lock();
        if let Some(index) = kept.iter().rposition(is_it) {
            // The last one used is the last one to go.
            kept[index..].rotate_left(1);
            return Ok(Arc::clone(&kept[kept.len() - 1].program));
        }
        drop(kept);
        // Two threads may both make it; either is as good as the other.
        let program = Arc::new(make()?);
        let mut kept = lock();
        if kept.len() == KEPT_PROGRAMS {
            kept.remove(0);
        }
        kept.push(Entry {
            input: input.into(),
            order: *order,
            options: options.clone(),
            program: Arc::clone(&program),
        });
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::program::ProgramBuilder;

    #[test]
    fn those_used_last_are_kept() {
        let programs = Programs::default();
        let mut made = Vec::new();
        let mut get = |n: usize| {
            let make = || {
                made.push(n);
                Ok(ProgramBuilder::new(&Device::cpu()).finish(&[]))
            };
            programs
                .get(&[n], &Order::Dense, &Options::default(), make)
                .map(drop)
        };
        // The first is used again, so the second goes for the one that is too many.
        for n in (0..KEPT_PROGRAMS).chain([0, KEPT_PROGRAMS, 0, 1]) {
            get(n).unwrap();
        }
        let wanted: Vec<usize> = (0..=KEPT_PROGRAMS).chain([1]).collect();
        assert_eq!(made, wanted);
    }
}

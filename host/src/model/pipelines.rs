//! The pipelines that a model keeps.

use std::any::Any;
use std::fmt;

use crate::sync::{Mutex, MutexGuard, lock};

/// The number of pipelines that a model keeps between calls, in order of last use.
pub(super) const KEPT_PIPELINES: usize = 2;

/// The unused pipelines of a model, all of its element type.
#[derive(Default)]
pub(super) struct Pipelines(Mutex<Vec<Box<dyn Any + Send + Sync>>>);

impl Pipelines {
    pub(super) fn kept(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send + Sync>>> {
        lock(&self.0)
    }

    /// Removes and returns a kept pipeline.
    pub(super) fn take<P: Any>(&self, is_it: impl Fn(&P) -> bool) -> Option<Box<P>> {
        let is_it =
            |pipeline: &Box<dyn Any + Send + Sync>| pipeline.downcast_ref().is_some_and(&is_it);
        let mut kept = self.kept();
        let index = kept.iter().rposition(is_it)?;
        kept.remove(index).downcast().ok()
    }

    pub(super) fn give<P: Any + Send + Sync>(&self, pipeline: Box<P>) {
        let mut kept = self.kept();
        kept.push(pipeline);
        let last = (kept.len() > KEPT_PIPELINES).then(|| kept.remove(0));
        drop(kept);
        // Freeing the pipeline's memory may wait for copies, so it happens outside of the lock.
        drop(last);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.kept());
        drop(all);
    }
}

impl fmt::Debug for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipelines({})", self.kept().len())
    }
}

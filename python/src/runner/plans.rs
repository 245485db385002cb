//! The plans of a set of parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convfuse::model::Launches;

/// Plans that are kept for a set of parameters, the last ones used.
const KEPT_PLANS: usize = 32;

/// What a run needs for inputs that lie like this.
pub(super) struct Prepared {
    /// Shapes, strides and alignment of all inputs, and how products are made.
    pub(super) key: Box<[i64]>,
    pub(super) launches: Launches,
    pub(super) output_shape: Box<[i64]>,
    pub(super) workspace_bytes: i64,
    /// Whether a graph was captured of a run.
    pub(super) is_captured: AtomicBool,
}

/// The plans of a set.
#[derive(Default)]
pub(super) struct Plans(Vec<Arc<Prepared>>);

impl Plans {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(
        &mut self,
        key: &[i64],
        make: impl FnOnce() -> Result<Prepared, String>,
    ) -> Result<Arc<Prepared>, String> {
        let kept = &mut self.0;
        if let Some(index) = kept.iter().rposition(|plan| *plan.key == *key) {
            // The last one used is the last one to go.
            kept[index..].rotate_left(1);
            return Ok(Arc::clone(&kept[kept.len() - 1]));
        }
        let made = Arc::new(make()?);
        if kept.len() >= KEPT_PLANS {
            let may_go = |plan: &Arc<Prepared>| !plan.is_captured.load(Ordering::Relaxed);
            if let Some(index) = kept.iter().position(may_go) {
                kept.remove(index);
            }
        }
        kept.push(Arc::clone(&made));
        Ok(made)
    }
}

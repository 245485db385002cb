//! Prepared parameters: parameters in the layouts that kernels need.

use crate::device::{Tensor, WeakTensor};
use crate::error::Result;
use crate::sync::{Mutex, lock};

/// Prepared parameters that the programs of a model share, by key. This map holds weak handles, so the last
/// program that uses a key's tensors frees them.
#[derive(Debug)]
pub(crate) struct PreparedParameters<L>(Mutex<Vec<(L, Vec<WeakTensor>)>>);

impl<L> Default for PreparedParameters<L> {
    fn default() -> Self {
        PreparedParameters(Mutex::default())
    }
}

impl<L: PartialEq> PreparedParameters<L> {
    /// The tensors of a key, from `prepare` if no program has them.
    pub(crate) fn get(
        &self,
        layout: L,
        prepare: impl FnOnce() -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        // Held while `prepare` queues its launches, so that two threads do not both prepare.
        let mut known = lock(&self.0);
        let mut found = None;
        known.retain(|(other, weak)| {
            let tensors: Option<Vec<Tensor>> = weak.iter().map(WeakTensor::upgrade).collect();
            let is_there = tensors.is_some();
            if *other == layout {
                found = tensors;
            }
            is_there
        });
        if let Some(found) = found {
            return Ok(found);
        }
        let prepared = prepare()?;
        let weak = prepared.iter().map(Tensor::downgrade).collect();
        known.push((layout, weak));
        Ok(prepared)
    }
}

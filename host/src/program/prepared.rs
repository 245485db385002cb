//! Prepared parameters: parameters in the layouts that kernels need.

use crate::device::{Tensor, WeakTensor};
use crate::error::Result;
use crate::sync::{Mutex, lock};

/// Prepared parameters that the programs of a model share, by key. The map has weak handles, so the last
/// program that uses a key's tensors frees them.
#[derive(Debug)]
pub(crate) struct PreparedParameters<L>(Mutex<Vec<(L, Vec<Handle>)>>);

/// A handle of a prepared tensor.
#[derive(Debug)]
enum Handle {
    Weak(WeakTensor),
    /// A tensor without elements. No program holds it, since no launch reads it.
    Empty(Tensor),
}

impl Handle {
    fn of(tensor: &Tensor) -> Self {
        match tensor.is_empty() {
            true => Self::Empty(tensor.clone()),
            false => Self::Weak(tensor.downgrade()),
        }
    }

    fn upgrade(&self) -> Option<Tensor> {
        match self {
            Self::Weak(weak) => weak.upgrade(),
            Self::Empty(tensor) => Some(tensor.clone()),
        }
    }
}

impl<L> Default for PreparedParameters<L> {
    fn default() -> Self {
        PreparedParameters(Mutex::default())
    }
}

impl<L: PartialEq> PreparedParameters<L> {
    /// Returns the tensors of a key, from `prepare` if no program has them.
    pub(crate) fn get(
        &self,
        layout: L,
        prepare: impl FnOnce() -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        // The lock is held while `prepare` queues its launches, so that only one thread prepares.
        let mut known = lock(&self.0);
        let mut found = None;
        known.retain(|(other, handles)| {
            let tensors: Option<Vec<Tensor>> = handles.iter().map(Handle::upgrade).collect();
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
        let handles = prepared.iter().map(Handle::of).collect();
        known.push((layout, handles));
        Ok(prepared)
    }

    /// The keys that were requested, except keys whose tensors were already freed when another key was
    /// prepared.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> Vec<L>
    where
        L: Clone,
    {
        let known = lock(&self.0);
        known.iter().map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DType, Device};

    /// A program keeps the tensors that its launches read, which excludes tensors without elements.
    #[test]
    fn what_has_no_elements_is_there_as_long_as_what_was_prepared_with_it() {
        let stream = Device::cpu().stream().unwrap();
        let known = PreparedParameters::default();
        let get = |key, prepares: &mut usize| {
            let tensors = known.get(key, || {
                *prepares += 1;
                let tensor = |len| Tensor::zeros(&stream, &[len], DType::F32);
                Ok(vec![tensor(3)?, tensor(0)?])
            });
            tensors.unwrap().remove(0)
        };
        let mut prepares = 0;
        let kept = get(1, &mut prepares);
        drop(get(1, &mut prepares));
        assert_eq!(prepares, 1);
        drop(kept);
        drop(get(1, &mut prepares));
        assert_eq!(prepares, 2);
    }
}

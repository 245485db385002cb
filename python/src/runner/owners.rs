//! Modules and their chains.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use convfuse::chain::Chain;

use super::Call;
use super::sets::Sets;

/// Chains that are kept for one number, the last ones used. A module has one; calls without a module share the number 0.
const KEPT_CHAINS: usize = 64;

/// A module and its chain.
pub(super) struct Owner {
    text: Box<str>,
    pub(super) chain: Chain,
    pub(super) sets: Mutex<Sets>,
}

type Owners = HashMap<i64, Vec<Arc<Owner>>>;

static OWNERS: LazyLock<RwLock<Owners>> = LazyLock::new(RwLock::default);

/// A panic under a lock of this crate leaves what it guards whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The owner of a call, made if it is not known.
pub(super) fn owner(call: &Call<'_>) -> Result<Arc<Owner>, String> {
    let find = |owners: &Owners| {
        let chains = owners.get(&call.owner)?;
        let found = chains.iter().find(|owner| *owner.text == *call.chain)?;
        Some(Arc::clone(found))
    };
    let known = find(&OWNERS.read().unwrap_or_else(PoisonError::into_inner));
    if let Some(known) = known {
        return Ok(known);
    }
    let made = Arc::new(Owner {
        text: call.chain.into(),
        chain: crate::chains::chain(call.chain)?,
        sets: Mutex::default(),
    });
    let mut owners = OWNERS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find(&owners) {
        return Ok(known);
    }
    let chains = owners.entry(call.owner).or_default();
    let gone = (chains.len() == KEPT_CHAINS).then(|| chains.remove(0));
    chains.push(Arc::clone(&made));
    drop(owners);
    drop(gone);
    Ok(made)
}

/// Gives back what is kept for a number.
pub(crate) fn forget(number: i64) {
    let mut owners = OWNERS.write().unwrap_or_else(PoisonError::into_inner);
    let gone = owners.remove(&number);
    // Outside of the lock: it calls the driver.
    drop(owners);
    drop(gone);
}

/// Gives back what is kept for a number, but for that of which graphs were captured.
pub(crate) fn release(number: i64) {
    let chains = {
        let owners = OWNERS.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(&number).cloned().unwrap_or_default()
    };
    for owner in chains {
        let gone = lock(&owner.sets).release();
        drop(gone);
    }
}

/// Numbers, sets and plans.
pub(crate) fn kept() -> Vec<(i64, usize, usize)> {
    let owners: Vec<(i64, Arc<Owner>)> = {
        let owners = OWNERS.read().unwrap_or_else(PoisonError::into_inner);
        let each = owners.iter().flat_map(|(&number, chains)| {
            chains.iter().map(move |owner| (number, Arc::clone(owner)))
        });
        each.collect()
    };
    let counted = owners.iter().map(|(number, owner)| {
        let sets = lock(&owner.sets);
        (*number, sets.len(), sets.plans())
    });
    counted.collect()
}

//! Modules and their chains.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use convfuse::graph::Chain;

use super::call::{Call, lock};
use super::sets::Sets;

/// Chains that are kept for one number, the last ones used. A module has one; calls without a module share
/// the number 0.
const KEPT_CHAINS: usize = 64;

/// A module and its chain.
pub(crate) struct Owner {
    text: Box<str>,
    pub(super) chain: Chain,
    pub(super) sets: Mutex<Sets>,
}

type Owners = HashMap<i64, Vec<Arc<Owner>>>;

static OWNERS: LazyLock<RwLock<Owners>> = LazyLock::new(RwLock::default);

/// The owner of a call, made if it is not known. A call without a chain means that of a module which [has
/// begun](begin).
pub(super) fn owner(call: &Call<'_>) -> Result<Arc<Owner>, String> {
    let found = known(call.owner, call.chain);
    match found {
        Some(known) => Ok(known),
        None if call.chain.is_empty() => {
            Err("convfuse: the module is not known here, and the call has no chain".into())
        }
        None => begin(call.owner, call.chain),
    }
}

fn known(number: i64, text: &str) -> Option<Arc<Owner>> {
    find(
        &OWNERS.read().unwrap_or_else(PoisonError::into_inner),
        number,
        text,
    )
}

fn find(owners: &Owners, number: i64, text: &str) -> Option<Arc<Owner>> {
    let chains = owners.get(&number)?;
    let is_it = |owner: &&Arc<Owner>| text.is_empty() || *owner.text == *text;
    chains.iter().find(is_it).map(Arc::clone)
}

/// Makes a module and its chain known.
pub(crate) fn begin(number: i64, text: &str) -> Result<Arc<Owner>, String> {
    let made = Arc::new(Owner {
        text: text.into(),
        chain: crate::chains::chain(text)?,
        sets: Mutex::default(),
    });
    let mut owners = OWNERS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find(&owners, number, text) {
        return Ok(known);
    }
    let chains = owners.entry(number).or_default();
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

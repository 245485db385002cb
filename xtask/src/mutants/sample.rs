//! Which mutants are tried.

use std::collections::BTreeMap;

use super::kinds::Kind;
use super::rewrite::Mutant;

/// The next of a sequence of pseudorandom numbers (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// All of the mutants in an order drawn by a seed, one of each kind in turn, so that kinds with few places
/// are not lost among those with many.
pub(crate) fn drawn(mutants: Vec<Mutant>, seed: u64) -> Vec<Mutant> {
    let mut kinds: BTreeMap<Kind, Vec<Mutant>> = BTreeMap::new();
    for mutant in mutants {
        kinds.entry(mutant.site.kind).or_default().push(mutant);
    }
    let mut state = seed;
    for mutants in kinds.values_mut() {
        for last in (1..mutants.len()).rev() {
            mutants.swap(last, (next(&mut state) % (last as u64 + 1)) as usize);
        }
    }
    let mut drawn = Vec::new();
    while kinds.values().any(|mutants| !mutants.is_empty()) {
        drawn.extend(kinds.values_mut().filter_map(Vec::pop));
    }
    drawn
}

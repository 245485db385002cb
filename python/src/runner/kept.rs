//! A cache of values between calls, by a graph's text and numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The most values kept. The least recently used one is evicted.
const MOST: usize = 256;

/// A cache of values by graph and key.
pub(super) struct Kept<T> {
    entries: RwLock<HashMap<u64, Entry<T>, BuildHasherDefault<Hashed>>>,
    /// The number of uses so far.
    clock: AtomicU64,
}

struct Entry<T> {
    text: Box<str>,
    key: Box<[i64]>,
    value: Arc<T>,
    /// The clock value of the last use.
    used: AtomicU64,
}

impl<T> Kept<T> {
    pub(super) const fn new() -> Kept<T> {
        Kept {
            entries: RwLock::new(HashMap::with_hasher(BuildHasherDefault::new())),
            clock: AtomicU64::new(0),
        }
    }

    /// Returns the value for this graph and key, or calls `make` if it is not cached. No lock is held during
    /// `make`.
    pub(super) fn get(
        &self,
        text: &str,
        key: &[i64],
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let hash = hash(text, key);
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(&hash)
            && *entry.key == *key
            && *entry.text == *text
        {
            entry.used.store(now, Ordering::Relaxed);
            return Ok(Arc::clone(&entry.value));
        }
        drop(entries);
        let value = Arc::new(make()?);
        let entry = Entry {
            text: text.into(),
            key: key.into(),
            value: Arc::clone(&value),
            used: AtomicU64::new(now),
        };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST {
            let oldest = entries
                .iter()
                .min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
            if let Some((&oldest, _)) = oldest {
                entries.remove(&oldest);
            }
        }
        // Replaces an entry with the same hash.
        entries.insert(hash, entry);
        Ok(value)
    }

    pub(super) fn len(&self) -> usize {
        self.entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    pub(super) fn clear(&self) {
        self.entries
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// Hashes a graph and a key in a few cycles per eight bytes. Both come from the caller itself, so collisions
/// need no protection; they only cost another plan.
fn hash(text: &str, key: &[i64]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let text = words
        .iter()
        .chain([&last])
        .map(|&word| u64::from_le_bytes(word));
    let key = key.iter().map(|&number| number.cast_unsigned());
    let hash = text.chain(key).fold(0, mix);
    hash ^ hash >> 32
}

/// The hasher for keys that are already hashes.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, &byte| hash << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_used_last_are_kept() {
        let kept = Kept::new();
        let mut made = Vec::new();
        let most = MOST as i64;
        // The first entry is used again, so the second one is evicted.
        for key in (0..most).chain([0, most, 0, 1]) {
            let value = kept.get("chain", &[key], || {
                made.push(key);
                Ok(key)
            });
            assert_eq!(value.as_deref(), Ok(&key));
        }
        assert_eq!(made, (0..=most).chain([1]).collect::<Vec<_>>());
        assert_eq!(kept.len(), MOST);
        kept.clear();
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn chains_and_keys_are_told_apart() {
        let kept = Kept::new();
        let get = |text: &str, key: &[i64]| kept.get(text, key, || Ok((text.len(), key.len())));
        let of = [
            ("", [].as_slice()),
            ("a", &[]),
            ("a", &[0]),
            ("a", &[0, 0]),
            ("aa", &[0]),
        ];
        for (text, key) in of.iter().chain(&of) {
            assert_eq!(get(text, key).as_deref(), Ok(&(text.len(), key.len())));
        }
        assert_eq!(kept.len(), of.len());
        let failed: Result<_, String> = kept.get("b", &[], || Err("no".into()));
        assert_eq!(failed.err().as_deref(), Some("no"));
        assert_eq!(kept.len(), of.len());
    }
}

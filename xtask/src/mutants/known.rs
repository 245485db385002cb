//! Which mutants compile, as far as an earlier call of the same sources and the same mutator found out: the
//! copy is not written anew then, and what was built of it stays.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::rewrite::Mutant;

/// Numbers of mutants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) compile: BTreeSet<u32>,
    pub(crate) do_not: BTreeSet<u32>,
}

/// What tells one list of all mutants from another.
pub(crate) fn key(all: &[Mutant]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for Mutant { number, file, site } in all {
        (number, file, &site.range, &site.replacement).hash(&mut hasher);
    }
    hasher.finish()
}

impl Known {
    /// What stands in the file, if it is of this key.
    pub(crate) fn read(path: &Path, key: u64) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if value["key"] != key {
            return Self::default();
        }
        let numbers = |name: &str| {
            let numbers = value[name].as_array().into_iter().flatten();
            numbers
                .filter_map(|number| number.as_u64()?.try_into().ok())
                .collect()
        };
        Self {
            compile: numbers("compile"),
            do_not: numbers("do_not"),
        }
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path, key: u64) -> io::Result<()> {
        let value = json!({ "key": key, "compile": self.compile, "do_not": self.do_not });
        fs::write(path, value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_of_one_list_of_mutants() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known.json");
        assert_eq!(Known::read(&path, 1), Known::default());
        let known = Known {
            compile: [1, 3].into(),
            do_not: [2].into(),
        };
        known.write(&path, 1).unwrap();
        assert_eq!(Known::read(&path, 1), known);
        assert_eq!(Known::read(&path, 2), Known::default());
    }
}

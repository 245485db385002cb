//! Which call is to fail, and what kinds of calls there are.

use std::collections::BTreeMap;

use crate::interface::Mode;

/// A call that is to fail.
pub(crate) struct Fault {
    pub(crate) name: String,
    /// Which call of the function, from 1 on.
    pub(crate) number: u32,
    pub(crate) code: u32,
}

/// Counts of calls, and what is to happen to one of them.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) mode: Mode,
    pub(crate) counts: BTreeMap<&'static str, u32>,
    pub(crate) next: Option<Fault>,
}

impl Faults {
    pub(crate) fn begin(&mut self, mode: Mode) {
        *self = Faults {
            mode,
            ..Faults::default()
        };
    }

    /// Counts a call; the code with which it fails, once.
    pub(crate) fn of(&mut self, name: &'static str) -> Option<u32> {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let is_it = |fault: &mut Fault| fault.name == name && fault.number == *count;
        self.next.take_if(is_it).map(|fault| fault.code)
    }
}

/// Functions whose failure nobody can do anything about: what they were to give back counts as given back.
pub(crate) fn gives_back(name: &str) -> bool {
    let verbs = ["Destroy", "Free", "Release", "Unload", "PopCurrent"];
    verbs.iter().any(|verb| name.contains(verb))
}

/// Functions that a lost context does not concern.
pub(crate) fn needs_no_context(name: &str) -> bool {
    let mut others = ["cuInit", "cuDriver", "cuDevice"].into_iter();
    others.any(|prefix| name.starts_with(prefix)) || concerns_its_thread_alone(name)
}

/// Functions of which no other thread can tell when they were called.
pub(crate) fn concerns_its_thread_alone(name: &str) -> bool {
    name.starts_with("cuCtxGetCurrent") || name.starts_with("cuCtxP")
}

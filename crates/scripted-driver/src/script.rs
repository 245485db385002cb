//! The scripted fault, and the classes of calls.

use std::collections::BTreeMap;

use crate::interface::Mode;

/// A scripted fault of a call.
pub(crate) struct Fault {
    pub(crate) name: String,
    /// The number of the function's call that fails, from 1 on.
    pub(crate) number: u32,
    pub(crate) code: u32,
}

/// The counts of calls, and the scripted fault.
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

    /// Counts a call. Returns the scripted code if this call fails; a fault occurs once.
    pub(crate) fn of(&mut self, name: &'static str) -> Option<u32> {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let is_it = |fault: &mut Fault| fault.name == name && fault.number == *count;
        self.next.take_if(is_it).map(|fault| fault.code)
    }
}

/// Returns whether a function releases something. After a failure the object counts as released, because
/// the caller cannot repeat the call.
pub(crate) fn gives_back(name: &str) -> bool {
    let verbs = ["Destroy", "Free", "Release", "Unload", "PopCurrent"];
    verbs.iter().any(|verb| name.contains(verb))
}

/// Returns whether a function works in a lost context.
pub(crate) fn needs_no_context(name: &str) -> bool {
    let mut others = ["cuInit", "cuDriver", "cuDevice"].into_iter();
    others.any(|prefix| name.starts_with(prefix)) || concerns_its_thread_alone(name)
}

/// Returns whether other threads cannot observe when the function is called.
pub(crate) fn concerns_its_thread_alone(name: &str) -> bool {
    name.starts_with("cuCtxGetCurrent") || name.starts_with("cuCtxP")
}

//! What a test wants to happen.

use std::collections::BTreeMap;

/// A call that is to fail.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: String,
    /// Which call of the function, from 1 on.
    pub(crate) number: u32,
    pub(crate) code: u32,
}

/// A call that returns late.
#[derive(Debug)]
struct Gate {
    name: String,
    number: u32,
    reached: bool,
    opened: bool,
}

/// Counts of calls, and what is to happen to some of them.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Whether work is done no sooner than it is waited for.
    pub(crate) lazy: bool,
    pub(crate) counts: BTreeMap<&'static str, u32>,
    fault: Option<Fault>,
    gate: Option<Gate>,
}

impl Script {
    pub(crate) fn begin(&mut self, lazy: bool) {
        *self = Script {
            lazy,
            ..Script::default()
        };
    }

    pub(crate) fn count(&mut self, name: &'static str) -> u32 {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// The fault of this call; it happens once.
    pub(crate) fn fault(&mut self, name: &str, number: u32) -> Option<Fault> {
        self.fault
            .take_if(|fault| fault.name == name && fault.number == number)
    }

    /// Lets call `number` from now on return late.
    pub(crate) fn gate(&mut self, name: String, number: u32) {
        let so_far = self.counts.get(&*name).copied().unwrap_or(0);
        self.gate = Some(Gate {
            name,
            number: so_far + number,
            reached: false,
            opened: false,
        });
    }

    pub(crate) fn stops_at(&mut self, name: &str, number: u32) -> bool {
        let Some(gate) = &mut self.gate else {
            return false;
        };
        let is_it = gate.name == name && gate.number == number;
        gate.reached |= is_it;
        is_it && !gate.opened
    }

    pub(crate) fn open(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.opened = true;
        }
    }

    pub(crate) fn opened(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.opened)
    }

    pub(crate) fn reached(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.reached)
    }
}

/// Functions whose failure nobody can do anything about: what they were to give back counts as given back.
pub(crate) fn gives_back(name: &str) -> bool {
    let verbs = ["Destroy", "Free", "Release", "Unload", "PopCurrent"];
    verbs.iter().any(|verb| name.contains(verb))
}

/// Codes after which a context serves nobody any more.
pub(crate) fn is_fatal(code: u32) -> bool {
    matches!(code, 4 | 214 | 220 | 700 | 702 | 709 | 710 | 714..=719)
}

/// Functions that a lost context does not concern.
pub(crate) fn needs_no_context(name: &str) -> bool {
    let mut others = ["cuInit", "cuDriver", "cuDevice"].into_iter();
    others.any(|prefix| name.starts_with(prefix)) || concerns_its_thread_alone(name)
}

/// Functions of which no other thread can tell when they were called.
pub(crate) fn concerns_its_thread_alone(name: &str) -> bool {
    let mut stack = ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxP"].into_iter();
    stack.any(|prefix| name.starts_with(prefix))
}

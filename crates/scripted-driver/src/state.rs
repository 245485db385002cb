//! All that the driver knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::call::{self, INVALID_CONTEXT, INVALID_HANDLE, Outcome};
use crate::context::Context;
use crate::graph::{Executable, Graph};
use crate::memory::{Memory, Pool};
use crate::module::{Function, Linker, Module};
use crate::queue::{Event, Stream};
use crate::script::{self, Script};

/// A handle, as the number that the pointer is.
pub(crate) type Handle = usize;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) script: Script,
    /// Retained contexts by ordinal.
    pub(crate) contexts: BTreeMap<u32, Context>,
    pub(crate) stacks: HashMap<u64, Vec<Handle>>,
    pub(crate) memory: Memory,
    pub(crate) pools: BTreeMap<Handle, Pool>,
    pub(crate) modules: BTreeMap<Handle, Module>,
    pub(crate) functions: BTreeMap<Handle, Function>,
    /// PTX that was loaded, once each.
    pub(crate) texts: HashSet<Arc<str>>,
    pub(crate) linkers: BTreeMap<Handle, Linker>,
    pub(crate) streams: BTreeMap<Handle, Stream>,
    pub(crate) events: BTreeMap<Handle, Event>,
    pub(crate) graphs: BTreeMap<Handle, Graph>,
    pub(crate) executables: BTreeMap<Handle, Executable>,
    /// What was launched and copied, as the report has it.
    pub(crate) log: Vec<(u32, String)>,
    /// What no program should do.
    pub(crate) violations: Vec<String>,
    handles: usize,
}

impl State {
    /// A handle that nobody had before.
    pub(crate) fn handle(&mut self) -> Handle {
        self.handles += 1;
        0x1_0000 + 16 * self.handles
    }

    pub(crate) fn stack(&mut self) -> &mut Vec<Handle> {
        self.stacks.entry(call::thread()).or_default()
    }

    /// The ordinal of the thread's current context.
    pub(crate) fn current(&mut self) -> Outcome<u32> {
        let top = self.stack().last().copied().unwrap_or(0);
        self.ordinal_of(top).ok_or(INVALID_CONTEXT)
    }

    /// The current context, which must be the one that something belongs to.
    pub(crate) fn must_be_current(&mut self, owner: u32) -> Outcome {
        match self.current()? == owner {
            true => Ok(()),
            false => Err(INVALID_CONTEXT),
        }
    }

    /// The code with which a lost context answers this call.
    pub(crate) fn lost(&mut self, name: &str) -> Option<u32> {
        if script::needs_no_context(name) {
            return None;
        }
        let current = self.current().ok()?;
        self.contexts[&current].lost
    }

    /// From now on the current context serves nobody.
    pub(crate) fn lose(&mut self, name: &str, code: u32) {
        if !script::needs_no_context(name)
            && let Ok(current) = self.current()
            && let Some(context) = self.contexts.get_mut(&current)
        {
            context.lost = Some(code);
        }
    }

    /// Lost contexts serve again, and hold nothing but modules and pools.
    pub(crate) fn revive(&mut self) {
        for (&ordinal, context) in &mut self.contexts {
            if context.lost.take().is_some() {
                self.streams.retain(|_, stream| stream.context != ordinal);
                self.events.retain(|_, event| event.context != ordinal);
                self.graphs.retain(|_, graph| graph.context != ordinal);
                self.executables.retain(|_, made| made.context != ordinal);
                self.linkers.retain(|_, linker| linker.context != ordinal);
                self.memory.forget(ordinal);
            }
        }
    }

    /// Notes that something uses a handle that is none.
    pub(crate) fn stale(&mut self, what: &str, handle: Handle) -> u32 {
        self.violations
            .push(format!("{handle:#x} is no {what}, or not any more"));
        INVALID_HANDLE
    }

    /// What is alive of one device, a line for each kind of which there is any.
    pub(crate) fn alive(&self, ordinal: u32) -> String {
        fn of<T>(all: &BTreeMap<Handle, T>, owner: impl Fn(&T) -> Option<u32>, of: u32) -> usize {
            all.values().filter(|item| owner(item) == Some(of)).count()
        }
        let stream = |stream: &Stream| (!stream.destroyed).then_some(stream.context);
        let counts = [
            ("contexts", {
                let context = self.contexts.get(&ordinal);
                context.map_or(0, |context| context.retained as usize)
            }),
            ("pools", of(&self.pools, |pool| Some(pool.context), ordinal)),
            (
                "modules",
                of(&self.modules, |module| Some(module.context), ordinal),
            ),
            (
                "linkers",
                of(&self.linkers, |linker| Some(linker.context), ordinal),
            ),
            ("streams", of(&self.streams, stream, ordinal)),
            (
                "events",
                of(&self.events, |event| Some(event.context), ordinal),
            ),
            (
                "graphs",
                of(&self.graphs, |graph| Some(graph.context), ordinal),
            ),
            (
                "executables",
                of(&self.executables, |made| Some(made.context), ordinal),
            ),
            ("allocations", self.memory.blocks_of(ordinal)),
            ("pinned", self.memory.pinned_of(ordinal)),
            (
                "contexts on stacks of threads",
                self.stacks.values().map(Vec::len).sum(),
            ),
        ];
        let some = counts.into_iter().filter(|&(_, count)| count > 0);
        some.map(|(kind, count)| format!("{kind}: {count}\n"))
            .collect()
    }
}

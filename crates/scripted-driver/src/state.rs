//! All that the driver knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::memory::Memory;
use crate::outcome::{INVALID_CONTEXT, Outcome};
use crate::script::{self, Faults};
use crate::thread;
use crate::work::{Event, Handle, Stream, Work};

/// A primary context.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) retained: u32,
    /// The code that it answers with once it is lost.
    pub(crate) lost: Option<u32>,
    /// The bytes of memory that the device has for pools, if a test says so.
    pub(crate) room: Option<usize>,
}

pub(crate) struct Function {
    pub(crate) name: Arc<str>,
    /// Bytes of each parameter, if the PTX tells.
    pub(crate) parameters: Option<Arc<[usize]>>,
    /// Bytes of shared memory that a launch may name.
    pub(crate) granted: u32,
}

/// Something in the context of a device.
pub(crate) struct In<T> {
    pub(crate) context: u32,
    it: T,
}

impl<T> Deref for In<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl<T> DerefMut for In<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.it
    }
}

/// All of one kind that there are, by their handles.
pub(crate) type Table<T> = BTreeMap<Handle, In<T>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// Retained contexts by ordinal.
    pub(crate) contexts: BTreeMap<u32, Context>,
    pub(crate) stacks: HashMap<u64, Vec<Handle>>,
    pub(crate) memory: Memory,
    pub(crate) pools: Table<()>,
    /// The PTX of each, if it was made of such.
    pub(crate) modules: Table<Option<Arc<str>>>,
    pub(crate) functions: Table<Function>,
    /// PTX that was loaded, once each.
    pub(crate) texts: HashSet<Arc<str>>,
    /// What each has made so far.
    pub(crate) linkers: Table<Vec<u8>>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) graphs: Table<Vec<Work>>,
    pub(crate) executables: Table<Vec<Work>>,
    /// What was launched and copied, as the report has it.
    pub(crate) log: Vec<(u32, String)>,
    /// What no program should do.
    pub(crate) violations: Vec<String>,
    handles: usize,
}

/// The handle of a device's primary context, which is none of [`State::add`].
pub(crate) fn handle_of(ordinal: u32) -> Handle {
    (1 << 40) + 16 * ordinal as usize
}

impl State {
    /// Something new in a context, by a handle that nothing had before.
    pub(crate) fn add<T>(
        &mut self,
        table: impl Fn(&mut State) -> &mut Table<T>,
        context: u32,
        it: T,
    ) -> Handle {
        self.handles += 1;
        let handle = 0x1_0000 + 16 * self.handles;
        table(self).insert(handle, In { context, it });
        handle
    }

    /// A default stream, which is there without being made.
    pub(crate) fn default_stream(&mut self, handle: Handle, context: u32) {
        let it = Stream::default();
        self.streams.entry(handle).or_insert(In { context, it });
    }

    /// The contexts that are current to the thread, the last one on top.
    pub(crate) fn stack(&mut self) -> &mut Vec<Handle> {
        self.stacks.entry(thread::current()).or_default()
    }

    /// The device of a context that is retained.
    pub(crate) fn ordinal_of(&self, context: Handle) -> Option<u32> {
        let ordinal = u32::try_from(context.checked_sub(1 << 40)? / 16).ok()?;
        self.contexts.contains_key(&ordinal).then_some(ordinal)
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
        fn forget<T>(table: &mut Table<T>, context: u32) {
            table.retain(|_, item| item.context != context);
        }
        for (&ordinal, context) in &mut self.contexts {
            if context.lost.take().is_some() {
                forget(&mut self.streams, ordinal);
                forget(&mut self.events, ordinal);
                forget(&mut self.graphs, ordinal);
                forget(&mut self.executables, ordinal);
                forget(&mut self.linkers, ordinal);
                self.memory.forget(ordinal);
            }
        }
    }

    /// What is alive of one device, a line for each kind of which there is any.
    pub(crate) fn alive(&self, ordinal: u32) -> String {
        fn of<T>(table: &Table<T>, ordinal: u32) -> usize {
            let contexts = table.values().map(|item| item.context);
            contexts.filter(|&context| context == ordinal).count()
        }
        let retained = self.contexts.get(&ordinal).map(|context| context.retained);
        let streams = self.streams.values();
        let streams = streams.filter(|stream| stream.context == ordinal && !stream.destroyed);
        let on_stacks = self.stacks.values().map(Vec::len).sum();
        let counts = [
            ("contexts", retained.unwrap_or(0) as usize),
            ("pools", of(&self.pools, ordinal)),
            ("modules", of(&self.modules, ordinal)),
            ("linkers", of(&self.linkers, ordinal)),
            ("streams", streams.count()),
            ("events", of(&self.events, ordinal)),
            ("graphs", of(&self.graphs, ordinal)),
            ("executables", of(&self.executables, ordinal)),
            ("allocations", self.memory.count(ordinal, false)),
            ("pinned", self.memory.count(ordinal, true)),
            ("contexts on stacks of threads", on_stacks),
        ];
        let some = counts.into_iter().filter(|&(_, count)| count > 0);
        some.map(|(kind, count)| format!("{kind}: {count}\n"))
            .collect()
    }
}

//! The whole state of the driver.

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
    /// The error code of calls in this context, once it is lost.
    pub(crate) lost: Option<u32>,
    /// The bytes of memory for the device's pools, if a test limits them.
    pub(crate) room: Option<usize>,
}

pub(crate) struct Function {
    pub(crate) name: Arc<str>,
    /// Bytes of each parameter, if the PTX has the function.
    pub(crate) parameters: Option<Arc<[usize]>>,
    /// The maximum bytes of dynamic shared memory of a launch.
    pub(crate) granted: u32,
}

/// An object in the context of a device.
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

/// All objects of one kind, by their handles.
pub(crate) type Table<T> = BTreeMap<Handle, In<T>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// The driver's version, if a test sets it.
    pub(crate) version: Option<i32>,
    /// Retained contexts by ordinal.
    pub(crate) contexts: BTreeMap<u32, Context>,
    pub(crate) stacks: HashMap<u64, Vec<Handle>>,
    pub(crate) memory: Memory,
    pub(crate) pools: Table<()>,
    /// The PTX of each module, if the module was loaded from PTX.
    pub(crate) modules: Table<Option<Arc<str>>>,
    pub(crate) functions: Table<Function>,
    /// The loaded PTX texts, without duplicates.
    pub(crate) texts: HashSet<Arc<str>>,
    /// The output of each linker so far.
    pub(crate) linkers: Table<Vec<u8>>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) graphs: Table<Vec<Work>>,
    pub(crate) executables: Table<Vec<Work>>,
    /// The launches and copies, by device, as a test reads them.
    pub(crate) log: Vec<(u32, String)>,
    /// The violations of the driver's rules.
    pub(crate) violations: Vec<String>,
    handles: usize,
}

/// Returns the handle of a device's primary context, which differs from all handles of [`State::add`].
pub(crate) fn handle_of(ordinal: u32) -> Handle {
    (1 << 40) + 16 * ordinal as usize
}

impl State {
    /// Adds an object to a context, with a handle that was never used before.
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

    /// Creates a default stream, unless it exists.
    pub(crate) fn default_stream(&mut self, handle: Handle, context: u32) {
        let it = Stream::default();
        self.streams.entry(handle).or_insert(In { context, it });
    }

    /// Returns the calling thread's stack of current contexts, with the newest on top.
    pub(crate) fn stack(&mut self) -> &mut Vec<Handle> {
        self.stacks.entry(thread::current()).or_default()
    }

    /// Returns the device of a context, if the context is retained.
    pub(crate) fn ordinal_of(&self, context: Handle) -> Option<u32> {
        let ordinal = u32::try_from(context.checked_sub(1 << 40)? / 16).ok()?;
        self.contexts.contains_key(&ordinal).then_some(ordinal)
    }

    /// Returns the ordinal of the thread's current context.
    pub(crate) fn current(&mut self) -> Outcome<u32> {
        let top = self.stack().last().copied().unwrap_or(0);
        self.ordinal_of(top).ok_or(INVALID_CONTEXT)
    }

    /// Checks that the current context is the one to which an object belongs.
    pub(crate) fn must_be_current(&mut self, owner: u32) -> Outcome {
        match self.current()? == owner {
            true => Ok(()),
            false => Err(INVALID_CONTEXT),
        }
    }

    /// Returns the error code of this call if the current context is lost.
    pub(crate) fn lost(&mut self, name: &str) -> Option<u32> {
        if script::needs_no_context(name) {
            return None;
        }
        let current = self.current().ok()?;
        self.contexts[&current].lost
    }

    /// Marks the current context as lost.
    pub(crate) fn lose(&mut self, name: &str, code: u32) {
        if !script::needs_no_context(name)
            && let Ok(current) = self.current()
            && let Some(context) = self.contexts.get_mut(&current)
        {
            context.lost = Some(code);
        }
    }

    /// Makes lost contexts usable again. They keep only their modules and pools.
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

    /// Returns the number of live objects of a device, one line for each kind that has any.
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

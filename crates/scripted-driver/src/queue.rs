//! Work of streams, and when it is done.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::call::{CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, Outcome};
use crate::kernel::Launch;
use crate::memory;
use crate::state::{Handle, State};

/// Memory that work uses, and the allocation that it was when the work was given.
#[derive(Clone)]
pub(crate) enum Place {
    Device {
        address: usize,
        start: usize,
        id: u64,
    },
    Pinned {
        address: usize,
        start: usize,
        id: u64,
    },
    /// A copy of what was not pinned.
    Staged(Arc<[u8]>),
    /// Memory of the host that is not pinned, while its owner waits.
    Host(usize),
}

#[derive(Clone)]
pub(crate) enum Work {
    /// Memory begins to be somebody's.
    Take {
        start: usize,
        id: u64,
    },
    /// Memory ends to be somebody's.
    Give {
        start: usize,
        id: u64,
    },
    Copy {
        to: Place,
        from: Place,
        bytes: usize,
    },
    Fill {
        to: Place,
        value: u8,
        bytes: usize,
    },
    Launch(Arc<Launch>),
    /// What another stream was given before this position comes first.
    Wait {
        stream: Handle,
        position: u64,
    },
}

impl Work {
    /// Whether it uses this allocation.
    fn uses(&self, start: usize, id: u64) -> bool {
        let is_it = |place: &Place| match *place {
            Place::Device {
                start: of, id: own, ..
            }
            | Place::Pinned {
                start: of, id: own, ..
            } => (of, own) == (start, id),
            Place::Staged(_) | Place::Host(_) => false,
        };
        match self {
            Work::Copy { to, from, .. } => is_it(to) || is_it(from),
            Work::Fill { to, .. } => is_it(to),
            Work::Launch(launch) => launch.places.iter().any(is_it),
            Work::Take { .. } | Work::Give { .. } | Work::Wait { .. } => false,
        }
    }
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) context: u32,
    queue: VecDeque<Work>,
    done: u64,
    /// Work that was given before is still done.
    pub(crate) destroyed: bool,
    pub(crate) capture: Option<Capture>,
}

/// What becomes a graph.
pub(crate) struct Capture {
    pub(crate) work: Vec<Work>,
    pub(crate) invalid: bool,
    pub(crate) thread: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) context: u32,
    /// The stream and how much it had been given.
    pub(crate) recorded: Option<(Handle, u64)>,
    /// Recorded in a capture, so that it marks nothing outside of it.
    pub(crate) captured: bool,
}

impl Stream {
    pub(crate) fn new(context: u32) -> Stream {
        Stream {
            context,
            ..Stream::default()
        }
    }

    /// Work that it was given so far.
    pub(crate) fn position(&self) -> u64 {
        self.done + self.queue.len() as u64
    }

    pub(crate) fn has_done(&self, position: u64) -> bool {
        self.done >= position
    }

    /// A call that the capture forbids ends it; the code of that call.
    pub(crate) fn invalidate(&mut self) -> u32 {
        if let Some(capture) = &mut self.capture {
            capture.invalid = true;
        }
        CAPTURE_UNSUPPORTED
    }
}

impl State {
    /// Gives work to a stream, or to what it captures.
    pub(crate) fn give(&mut self, stream: Handle, work: Work) -> Outcome {
        let lazy = self.script.lazy;
        let known = self.streams.get_mut(&stream).expect("callers found it");
        match &mut known.capture {
            Some(capture) if capture.invalid => return Err(CAPTURE_INVALIDATED),
            Some(capture) => capture.work.push(work),
            None => known.queue.push_back(work),
        }
        if !lazy {
            self.finish_stream(stream);
        }
        Ok(())
    }

    /// Does all that a stream was given, and what comes before it.
    pub(crate) fn finish_stream(&mut self, stream: Handle) {
        let position = self.streams[&stream].position();
        self.advance(stream, position);
    }

    /// Does what a stream was given before a position, and what comes before that.
    pub(crate) fn advance(&mut self, stream: Handle, position: u64) {
        while let Some(known) = self.streams.get_mut(&stream)
            && known.done < position
            && let Some(work) = known.queue.pop_front()
        {
            known.done += 1;
            self.run(work);
        }
    }

    /// Does all that there is to do, in one context or all, the last streams first or last.
    pub(crate) fn finish(&mut self, context: Option<u32>, backwards: bool) {
        let mut streams: Vec<Handle> = self.streams.keys().copied().collect();
        if backwards {
            streams.reverse();
        }
        for stream in streams {
            if context.is_none_or(|context| self.streams[&stream].context == context) {
                self.finish_stream(stream);
            }
        }
        self.streams
            .retain(|_, stream| !stream.destroyed || !stream.queue.is_empty());
    }

    /// Whether work that is not done uses an allocation.
    pub(crate) fn is_awaited(&self, start: usize, id: u64) -> bool {
        let mut queued = self.streams.values().flat_map(|stream| &stream.queue);
        queued.any(|work| work.uses(start, id))
    }

    fn run(&mut self, work: Work) {
        match work {
            Work::Take { start, id } => self.memory.take(start, id),
            Work::Give { start, id } => {
                if !self.memory.give(start, id) {
                    let what = format!("{start:#x} is given back, but is somebody else's");
                    self.violations.push(what);
                }
            }
            Work::Wait { stream, position } => self.advance(stream, position),
            Work::Fill { to, value, bytes } => {
                if let Some(to) = self.there(&to, "a fill") {
                    memory::fill(to, bytes, value);
                }
            }
            Work::Copy { to, from, bytes } => {
                if let Some(to) = self.there(&to, "a copy")
                    && let Some(from) = self.there(&from, "a copy")
                {
                    let from: *const u8 = std::ptr::with_exposed_provenance(from);
                    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
                    // SAFETY: both ranges were in bounds when the copy was queued, and are still allocated.
                    unsafe { std::ptr::copy(from, to, bytes) };
                }
            }
            Work::Launch(launch) => {
                let mut places = launch.places.iter();
                if places.all(|place| self.there(place, &launch.name).is_some()) {
                    launch.run();
                }
            }
        }
    }

    /// Where memory is, if it is still what the work was given.
    fn there(&mut self, place: &Place, user: &str) -> Option<usize> {
        let (address, is_there) = match *place {
            Place::Device { address, start, id } => (address, self.memory.owns(start, id)),
            Place::Pinned { address, start, id } => {
                let pinned = self.memory.pinned(start);
                (address, pinned.is_some_and(|(_, block)| block.id == id))
            }
            Place::Staged(ref bytes) => (bytes.as_ptr().expose_provenance(), true),
            Place::Host(address) => (address, true),
        };
        if !is_there {
            let what =
                format!("{user} uses {address:#x}, which is not allocated or somebody else's");
            self.violations.push(what);
        }
        is_there.then_some(address)
    }
}

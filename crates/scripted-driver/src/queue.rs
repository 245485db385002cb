//! The queues of streams, and the execution of their work.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::interface::Mode;
use crate::memory;
use crate::outcome::{
    CAPTURE_INVALIDATED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, Outcome,
};
use crate::state::State;
use crate::thread;
use crate::work::{Handle, Launch, Place, Stream, Work, word};

impl State {
    /// Returns the stream of a handle. Default streams exist without being created.
    pub(crate) fn stream_to_use(&mut self, handle: Handle) -> Outcome<Handle> {
        let current = self.current()?;
        let handle = match handle {
            0 | 1 => usize::MAX - 2 * current as usize,
            2 => 1 << 63 | (thread::current() as usize) << 20 | current as usize,
            _ => handle,
        };
        if handle >> 63 == 1 {
            self.default_stream(handle, current);
        }
        match self.streams.get(&handle) {
            Some(stream) if stream.destroyed => Err(INVALID_HANDLE),
            Some(stream) if stream.context != current => Err(INVALID_CONTEXT),
            Some(_) => Ok(handle),
            None => Err(INVALID_HANDLE),
        }
    }

    /// Returns the stream of a handle, for calls that a capture forbids.
    pub(crate) fn stream_outside_of_captures(&mut self, handle: Handle) -> Outcome<Handle> {
        let handle = self.stream_to_use(handle)?;
        match self.streams.get_mut(&handle) {
            Some(stream) if stream.is_captured() => Err(stream.invalidate()),
            _ => Ok(handle),
        }
    }

    /// Fails if some stream of the current context is in capture, by any thread or only by the calling one.
    /// Calls without a stream argument use it.
    pub(crate) fn refuse_in_captures(&mut self, by_any: bool) -> Outcome {
        let current = self.current()?;
        let threads = |stream: &Stream| stream.capture.as_ref().map(|capture| capture.thread);
        let is_it = |thread| by_any || thread == thread::current();
        let mut streams = self.streams.values_mut();
        match streams.find(|stream| stream.context == current && threads(stream).is_some_and(is_it))
        {
            Some(stream) => Err(stream.invalidate()),
            None => Ok(()),
        }
    }

    /// Returns a range of device memory for use by work.
    pub(crate) fn device_place(&mut self, address: u64, bytes: usize) -> Outcome<Place> {
        match self.memory.place(address as usize, bytes) {
            Some((place @ Place::Block { pinned: false, .. }, _)) => Ok(place),
            _ => {
                let what = format!("{bytes} bytes from {address:#x} on are no memory of a device");
                self.violations.push(what);
                Err(INVALID_VALUE)
            }
        }
    }

    /// Queues work on a stream, or adds it to the stream's capture.
    pub(crate) fn give(&mut self, stream: Handle, work: Work) -> Outcome {
        let known = self.streams.get_mut(&stream).expect("callers found it");
        if let Some(joined) = &mut known.joined {
            joined.given += 1;
            let origin = joined.origin;
            return self.give(origin, work);
        }
        match &mut known.capture {
            Some(capture) if capture.invalid => return Err(CAPTURE_INVALIDATED),
            Some(capture) => capture.work.push(work),
            None => known.queue.push_back(work),
        }
        if self.faults.mode == Mode::AtOnce {
            self.finish_stream(stream);
        }
        Ok(())
    }

    /// Executes all work of a stream, and the work that precedes it.
    pub(crate) fn finish_stream(&mut self, stream: Handle) {
        let position = self.streams[&stream].position();
        self.advance(stream, position);
    }

    /// Executes the work of a stream before a position, and the work that precedes it.
    pub(crate) fn advance(&mut self, stream: Handle, position: u64) {
        while let Some(known) = self.streams.get_mut(&stream)
            && known.done < position
            && let Some(work) = known.queue.pop_front()
        {
            known.done += 1;
            self.run(work);
        }
    }

    /// Executes all queued work of one context, or of all; in reverse order of streams if `backwards` is
    /// set.
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

    /// Reports memory that returns to the system before queued work that uses it, and executes the work.
    pub(crate) fn must_not_be_awaited(&mut self, start: usize, id: u64) {
        let mut queued = self.streams.values().flat_map(|stream| &stream.queue);
        if queued.any(|work| work.uses(id)) {
            let what = format!("{start:#x} is freed before work that uses it");
            self.violations.push(what);
            self.finish(None, false);
        }
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

    /// Returns the address of a place, if its allocation still owns the memory. Otherwise reports a
    /// violation.
    fn there(&mut self, place: &Place, user: &str) -> Option<usize> {
        let there = self.memory.address(place);
        let gone = |address: &usize| {
            let what =
                format!("{user} uses {address:#x}, which is not allocated or somebody else's");
            self.violations.push(what);
        };
        there.inspect_err(gone).ok()
    }

    /// Logs a launch. The text does not depend on addresses.
    pub(crate) fn log_launch(&mut self, stream: Handle, launch: &Launch) {
        let (grid, block, shared) = (launch.grid, launch.block, launch.shared);
        let mut text = format!("{} {grid:?} {block:?} {shared}", launch.name);
        for chunk in launch.parameters.iter().flat_map(|value| value.chunks(8)) {
            let place = word(chunk).and_then(|address| self.memory.place(address, 0));
            let _ = match place {
                Some((Place::Block { address, start, .. }, bytes)) => {
                    write!(text, " [{} of {bytes}]", address - start)
                }
                _ => write!(text, " {chunk:?}"),
            };
        }
        self.log.push((self.streams[&stream].context, text));
    }

    /// Logs and queues a copy. The text has a hash of the bytes if they are known, and no addresses.
    pub(crate) fn copy(&mut self, stream: Handle, to: Place, from: Place, bytes: usize) -> Outcome {
        let stream = self.stream_to_use(stream)?;
        let of = |place: &Place| match place {
            Place::Block { pinned: true, .. } => "pinned".to_owned(),
            Place::Block { address, start, .. } => format!("device+{}", address - start),
            Place::Host(_) => "host".to_owned(),
            Place::Staged(values) => {
                let mut hasher = DefaultHasher::new();
                values.hash(&mut hasher);
                format!("host {:x}", hasher.finish())
            }
        };
        let text = format!("copy {bytes} from {} to {}", of(&from), of(&to));
        self.log.push((self.streams[&stream].context, text));
        self.give(stream, Work::Copy { to, from, bytes })
    }
}

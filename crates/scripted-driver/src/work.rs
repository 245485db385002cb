//! Work, and the streams that do it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::outcome::CAPTURE_UNSUPPORTED;

/// A handle, as the number that the pointer is.
pub(crate) type Handle = usize;

/// Memory that work uses, and the allocation that it was when the work was given.
#[derive(Clone)]
pub(crate) enum Place {
    Block {
        address: usize,
        start: usize,
        id: u64,
        pinned: bool,
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

#[derive(Default)]
pub(crate) struct Event {
    /// The stream and how much it had been given.
    pub(crate) recorded: Option<(Handle, u64)>,
    /// Recorded in a capture, so that it marks nothing outside of it.
    pub(crate) captured: bool,
}

impl Stream {
    /// Work that it was given so far.
    pub(crate) fn position(&self) -> u64 {
        self.done + self.queue.len() as u64
    }

    /// A call that the capture forbids ends it; the code of that call.
    pub(crate) fn invalidate(&mut self) -> u32 {
        if let Some(capture) = &mut self.capture {
            capture.invalid = true;
        }
        CAPTURE_UNSUPPORTED
    }
}

/// A launch: what it was given.
pub(crate) struct Launch {
    pub(crate) name: Arc<str>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The bytes of each parameter, where they are known.
    pub(crate) parameters: Vec<Vec<u8>>,
    /// Memory that parameters point to.
    pub(crate) places: Vec<Place>,
}

/// The steps of a list, and the bytes of each.
const STEPS: usize = 8;
const STEP_BYTES: usize = 16;

/// The address that eight bytes are.
pub(crate) fn word(bytes: &[u8]) -> Option<usize> {
    Some(u64::from_ne_bytes(bytes.try_into().ok()?) as usize)
}

impl Launch {
    /// Kernels do nothing here, but for one.
    pub(crate) fn run(&self) {
        let [x, y, elements, list] = &self.parameters[..] else {
            return;
        };
        if &*self.name != "pointwise_f32" {
            return;
        }
        let address = |parameter: &[u8]| word(parameter).unwrap_or_default();
        let word_at = |at: usize| list.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        // Of each step its bounds, after the word that says which function it is: tests give clamps.
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
            // SAFETY: both have as many elements, as the kernel asks of its callers, and are there.
            let value = unsafe { *x.add(index) };
            let clamp = |value: f32, &(low, high): &(f32, f32)| value.max(low).min(high);
            // SAFETY: as above.
            unsafe { *y.add(index) = clamps.iter().fold(value, clamp) };
        }
    }
}

//! Runs recorded as CUDA graphs.
//!
//! PyTorch's allocator gives the calls of a loop the same few addresses again. A run whose addresses are all
//! those of an earlier run is recorded, and launched as one graph from then on. The launches of a graph are
//! those of a run, so results have the same bits.

use std::sync::{Mutex, TryLockError};

use convfuse::model::{Launches, Recorded};
use convfuse::raw::RawPointer;
use convfuse::{Result, Stream};

/// The most graphs that are kept, and the most earlier runs that are remembered.
const MOST: usize = 4;

/// The recordings that are always allowed. Each further one needs [`WORTH`] launches of graphs before it, as
/// a recording makes all launches of a run and instantiates a graph.
const FREE: u64 = 8;
const WORTH: u64 = 16;

/// The graphs of one plan.
#[derive(Default)]
pub(super) struct RecordedRuns(Mutex<Graphs>);

#[derive(Default)]
struct Graphs {
    /// The addresses of earlier runs, and of graphs, most recently used first.
    seen: Vec<Box<[usize]>>,
    recorded: Vec<(Box<[usize]>, Recorded)>,
    /// The numbers of recordings and of launches of graphs so far.
    made: u64,
    launched: u64,
}

impl RecordedRuns {
    /// Queues a run, as a graph if its addresses are those of an earlier one.
    ///
    /// # Safety
    /// As for [`Launches::run`].
    pub(super) unsafe fn run(
        &self,
        launches: &Launches,
        stream: &Stream,
        [inputs, parameters]: [&[RawPointer]; 2],
        outputs: &[RawPointer],
        workspace: RawPointer,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let plainly = || unsafe { launches.run(stream, inputs, parameters, outputs, workspace) };
        let mut graphs = match self.0.try_lock() {
            Ok(graphs) => graphs,
            // A panic under the lock leaves the lists valid.
            Err(TryLockError::Poisoned(graphs)) => graphs.into_inner(),
            Err(TryLockError::WouldBlock) => return plainly(),
        };
        if !matches!(stream.is_capturing(), Ok(false)) {
            return plainly();
        }
        let stream_at = stream.as_raw()?.addr();
        let pointers = [inputs, parameters, outputs, &[workspace]];
        let pointers = pointers.into_iter().flatten().map(|pointer| pointer.addr());
        let key: Box<[usize]> = std::iter::once(stream_at).chain(pointers).collect();
        let graphs = &mut *graphs;
        if let Some(position) = graphs.recorded.iter().position(|(known, _)| *known == key) {
            graphs.recorded[..=position].rotate_right(1);
        } else if !graphs.sees(&key) {
            return plainly();
        } else {
            // SAFETY: a graph is launched only with these addresses, for which the caller promises the same.
            let recorded =
                unsafe { launches.record(stream, inputs, parameters, outputs, workspace) };
            graphs.made += 1;
            let Ok(recorded) = recorded else {
                return plainly();
            };
            graphs.recorded.truncate(MOST - 1);
            graphs.recorded.insert(0, (key, recorded));
        }
        graphs.launched += 1;
        // SAFETY: the caller's promise.
        unsafe { graphs.recorded[0].1.launch() }
    }
}

impl Graphs {
    /// Remembers a run, and returns whether it is to be recorded.
    fn sees(&mut self, key: &[usize]) -> bool {
        if let Some(position) = self.seen.iter().position(|known| **known == *key) {
            let is_allowed = self.made < FREE + self.launched / WORTH;
            if is_allowed {
                self.seen.remove(position);
            }
            return is_allowed;
        }
        self.seen.truncate(MOST - 1);
        self.seen.insert(0, key.into());
        false
    }
}

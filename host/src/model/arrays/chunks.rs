//! How a batch is cut into chunks, so that copies and kernels overlap.

/// Sizes by which batches are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Bytes of input and output together up to which a batch is copied and run as a whole.
    pub(crate) whole_bytes: usize,
    /// The least and the most bytes of a chunk. Below, each costs more to queue than to copy; above, the
    /// first to be copied in and the last to be copied out take too long, for nothing overlaps with them.
    pub(crate) chunk_bytes: [usize; 2],
    /// Stages of the pipeline, which is the number of chunks in flight. Arrays that are not pinned have one
    /// for each thread that copies.
    pub(crate) stages: usize,
    /// The most bytes of pinned memory that a pipeline may take, and of device memory as well.
    pub(crate) ring_bytes: usize,
    /// Whether batches are cut on the CPU and in the emulator, too, where nothing overlaps.
    pub(crate) on_any_device: bool,
}

impl Cut {
    /// For arrays that threads of rayon's pool copy, for this many devices.
    pub(crate) fn for_threads(devices: usize) -> Cut {
        // Calls of the driver by many threads wait for each other, so that few large chunks do best
        // (`convfuse arrays --sweep`).
        let threads = rayon::current_num_threads() * 3 / 4 / devices.max(1);
        Cut {
            stages: threads.clamp(2, 12),
            chunk_bytes: [1 << 20, 8 << 20],
            ..Cut::default()
        }
    }
}

impl Default for Cut {
    fn default() -> Self {
        Cut {
            whole_bytes: 2 << 20,
            chunk_bytes: [1 << 20, 6 << 20],
            stages: 4,
            ring_bytes: 128 << 20,
            on_any_device: false,
        }
    }
}

/// Chunks of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// Samples of each but perhaps the last.
    pub(crate) samples: usize,
    /// Those that are under way at a time.
    pub(crate) stages: usize,
}

impl Cut {
    /// The chunks of a batch whose samples take this many bytes, in and out together; `None` where it is
    /// better left whole, or where not even two samples fit the pipeline.
    pub(crate) fn chunks(&self, batch: usize, sample_bytes: usize) -> Option<Chunks> {
        let all = batch.checked_mul(sample_bytes)?;
        if all == 0 || all <= self.whole_bytes || sample_bytes > self.ring_bytes / 2 {
            return None;
        }
        // A batch of a few chunks would overlap little.
        let [least, most] = self.chunk_bytes;
        let bytes = (all / self.stages.max(8)).clamp(least, most);
        let count = batch.div_ceil((bytes / sample_bytes).clamp(1, batch));
        let even = batch.div_ceil(count);
        // Slightly smaller chunks, if these divide the batch: a shorter last chunk needs a stage of its own.
        let divides = |samples: &usize| batch.is_multiple_of(*samples);
        let samples = (even - even / 4..=even).rev().find(divides);
        let samples = samples.unwrap_or(even);
        let fitting = self.ring_bytes / (samples * sample_bytes);
        Some(Chunks {
            samples,
            stages: self.stages.min(fitting.max(2)).min(batch.div_ceil(samples)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_problems_are_cut_evenly() {
        let chunks = |batch, input: usize, output: usize| {
            let cut = Cut::default();
            cut.chunks(batch, 4 * (input + output)).unwrap()
        };
        let problem_85 = chunks(128, 8 * 128 * 128, 64 * 31 * 31);
        assert_eq!((problem_85.samples, problem_85.stages), (8, 4));
        let problem_79 = chunks(128, 3 * 16 * 32 * 32, 14 * 30 * 30);
        assert_eq!((problem_79.samples, problem_79.stages), (16, 4));
    }

    #[test]
    fn small_batches_and_large_samples_are_left_whole() {
        let cut = Cut::default();
        assert_eq!(cut.chunks(0, 1000), None);
        assert_eq!(cut.chunks(128, 0), None);
        assert_eq!(cut.chunks(2, 1 << 20), None);
        assert_eq!(cut.chunks(4, 65 << 20), None);
        assert_eq!(cut.chunks(usize::MAX, 1 << 20), None);
        assert!(cut.chunks(3, 1 << 20).is_some());
    }

    #[test]
    fn rings_stay_within_their_bytes() {
        let cut = Cut::default();
        for sample_bytes in [1, 100, 4096, 300_000, 5_000_000, 40 << 20, 64 << 20] {
            for batch in [1, 2, 3, 7, 31, 64, 101, 1 << 20] {
                let Some(chunks) = cut.chunks(batch, sample_bytes) else {
                    continue;
                };
                assert!((1..=batch).contains(&chunks.samples));
                let bytes = chunks.stages * chunks.samples * sample_bytes;
                assert!(
                    bytes <= cut.ring_bytes,
                    "{batch} of {sample_bytes}: {chunks:?}"
                );
            }
        }
    }
}

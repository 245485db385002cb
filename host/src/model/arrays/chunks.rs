//! The division of a batch into chunks, so that copies and kernels overlap.

/// The sizes that control how batches are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// The largest batch, in bytes of input and output together, that is copied and run as a whole.
    pub(crate) whole_bytes: usize,
    /// The smallest and the largest chunk in bytes. A smaller chunk costs more to queue than to copy. With
    /// larger chunks, the first copy in and the last copy out take too long, because nothing overlaps with
    /// them.
    pub(crate) chunk_bytes: [usize; 2],
    /// The number of pipeline stages, which is the number of chunks in flight. For arrays that are not
    /// pinned, each copying thread has one stage.
    pub(crate) stages: usize,
    /// The largest number of bytes of pinned memory, and of device memory, that a pipeline may take.
    pub(crate) ring_bytes: usize,
    /// Whether batches are also cut on the CPU and in the emulator, where nothing overlaps.
    pub(crate) on_any_device: bool,
}

impl Cut {
    /// Returns the sizes for arrays that threads of rayon's pool copy, for this many devices.
    pub(crate) fn for_threads(devices: usize) -> Cut {
        // Driver calls of many threads wait for each other, so a few large chunks perform best
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

/// The chunks of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// The samples of each chunk, except perhaps the last.
    pub(crate) samples: usize,
    /// The number of chunks in flight.
    pub(crate) stages: usize,
}

impl Cut {
    /// Returns the chunks of a batch whose samples take this many bytes, in and out together. `None` if the
    /// batch is better left whole, or if the pipeline cannot hold two samples.
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
        // Slightly smaller chunks are preferred if they divide the batch: a shorter last chunk needs its own
        // stage.
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

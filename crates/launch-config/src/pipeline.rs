//! Pipelines of stages in shared memory.

/// A number of stages that a consumer of a pipeline skips, such as the stages of a tile that is another
/// warpgroup's in the ping-pong schedule.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Whole rounds of the pipeline.
    pub rounds: u32,
    /// Stages beyond them, fewer than the pipeline has.
    pub stages: u32,
}

impl Skip {
    /// Skips nothing.
    pub const NONE: Self = Self {
        rounds: 0,
        stages: 0,
    };

    /// Skips `skipped` stages of a pipeline of `stages` stages. Without stages there is nothing to skip.
    #[must_use]
    pub const fn of(skipped: u32, stages: u32) -> Self {
        if stages == 0 {
            return Self::NONE;
        }
        Self {
            rounds: skipped / stages,
            stages: skipped % stages,
        }
    }
}

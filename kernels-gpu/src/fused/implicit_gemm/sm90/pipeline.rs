//! Rings of pipeline stages: their barriers, and whose turn it is.

use cuda_std::mbarrier::Barrier;
use cuda_std::opaque;
use cuda_std::shared::Shared;

use crate::parts::index::div_rem;

/// The barriers of a pipeline of pipeline stages: of each pipeline stage one for that it is filled, and one for that it is free.
#[derive(Clone, Copy)]
pub(super) struct Pipeline {
    pub(super) barriers: Shared<u64>,
    pub(super) first: u32,
    pub(super) stages: u32,
    /// 0 if each pipeline stage is filled once, and stays so, else 1.
    pub(super) wraps: u32,
}

impl Pipeline {
    #[inline(always)]
    pub(super) unsafe fn init(&self, fillers: u32, consumer_warps: u32) {
        let mut stage = 0;
        while stage < self.stages {
            opaque::not_unrolled();
            self.full(stage).init(fillers);
            self.empty(stage).init(consumer_warps);
            stage = opaque::to_compiler(stage + 1);
        }
    }

    #[inline(always)]
    pub(super) fn full(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * stage)
    }

    #[inline(always)]
    pub(super) fn empty(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * stage + 1)
    }
}

/// The pipeline stage that comes next, and the parity of how often the pipeline has come round, if it does.
#[derive(Clone, Copy)]
pub(super) struct PipelineState {
    pub(super) stage: u32,
    pub(super) parity: u32,
}

impl PipelineState {
    pub(super) const FIRST: Self = Self {
        stage: 0,
        parity: 0,
    };

    #[inline(always)]
    pub(super) fn next(self, pipeline: &Pipeline) -> Self {
        if self.stage + 1 == pipeline.stages {
            Self {
                stage: 0,
                parity: self.parity ^ pipeline.wraps,
            }
        } else {
            Self {
                stage: self.stage + 1,
                ..self
            }
        }
    }

    /// The one `stages` turns later.
    #[inline(always)]
    pub(super) unsafe fn skip(self, stages: u32, pipeline: &Pipeline) -> Self {
        let (rounds, stage) = div_rem(self.stage + stages, pipeline.stages);
        Self {
            stage,
            parity: self.parity ^ (rounds & pipeline.wraps),
        }
    }
}

//! Pipelines of stages in shared memory: their barriers, and the state of a producer or consumer.

use cuda_std::mbarrier::Barrier;
use cuda_std::opaque;
use cuda_std::shared::Shared;
use launch_config::pipeline::Skip;

/// A pipeline: two transaction barriers for each stage, `full` and `empty`.
#[derive(Clone, Copy)]
pub(crate) struct Pipeline {
    pub(crate) barriers: Shared<u64>,
    pub(crate) first: u32,
    pub(crate) stages: u32,
    /// 0 if each stage is filled once and stays full, else 1.
    pub(crate) wraps: u32,
}

impl Pipeline {
    #[inline(always)]
    pub(crate) unsafe fn init(&self, producers: u32, consumers: u32) {
        let mut stage = 0;
        while stage < self.stages {
            opaque::not_unrolled();
            self.full(stage).init(producers);
            self.empty(stage).init(consumers);
            stage = opaque::to_compiler(stage + 1);
        }
    }

    #[inline(always)]
    pub(crate) fn full(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * stage)
    }

    #[inline(always)]
    pub(crate) fn empty(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * stage + 1)
    }
}

/// The next stage, and the parity of the phase of its barriers, which flips whenever the pipeline wraps.
#[derive(Clone, Copy)]
pub(crate) struct PipelineState {
    pub(crate) stage: u32,
    pub(crate) parity: u32,
}

impl PipelineState {
    pub(crate) const FIRST: Self = Self {
        stage: 0,
        parity: 0,
    };

    #[inline(always)]
    pub(crate) fn next(self, pipeline: &Pipeline) -> Self {
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

    /// The state after `skip`, which is of this pipeline.
    #[inline(always)]
    pub(crate) fn skip(self, skip: Skip, pipeline: &Pipeline) -> Self {
        let stage = self.stage + skip.stages;
        let (rounds, stage) = match stage.checked_sub(pipeline.stages) {
            Some(stage) => (skip.rounds + 1, stage),
            None => (skip.rounds, stage),
        };
        Self {
            stage,
            parity: self.parity ^ (rounds & pipeline.wraps),
        }
    }
}

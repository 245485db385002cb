//! Named views of the block's shared memory.

use cuda_std::shared::{self, Shared};
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    AFFINE_BYTES, CHANNEL_FLOATS, MOMENTS_BYTES, OUT_CHANNELS, OneLaunch2dConfig, PIXEL_BYTES,
    RECEIVED_BYTES, TILE_ROWS, WIDTH,
};

/// A view of each part of `OneLaunch2dLayout`.
pub(super) struct Memory {
    pub pooled: Shared<f32>,
    pub pipeline: Shared<u32>,
    pub constant: Shared<u32>,
    pub magnitudes: Shared<u32>,
    pub full: Shared<u64>,
    pub empty: Shared<u64>,
    pub exchanged: Shared<u64>,
    pub descale: Shared<f32>,
    pub moments: Shared<f32>,
    pub partner: Shared<f32>,
    pub affine: Shared<f32>,
    pub channels: Shared<f32>,
}

impl Memory {
    #[inline(always)]
    pub(super) fn new(config: OneLaunch2dConfig) -> Self {
        let layout = config.layout();
        let stages = config.stages;
        Self {
            pooled: shared::dynamic(layout.pooled, OUT_CHANNELS * config.pooled_pitch()),
            pipeline: shared::dynamic(layout.pipeline, stages * TILE_ROWS * config.row_bytes() / 4),
            constant: shared::dynamic(layout.constant, WIDTH * PIXEL_BYTES / 4),
            magnitudes: shared::dynamic(layout.magnitudes, 2 * super::WARPS),
            full: shared::dynamic(layout.full, stages),
            empty: shared::dynamic(layout.empty, stages),
            exchanged: shared::dynamic(layout.exchanged, 2),
            descale: shared::dynamic(layout.descale, stages),
            moments: shared::dynamic(
                layout.moments,
                config.consumers * OUT_CHANNELS * MOMENTS_BYTES / 4,
            ),
            partner: shared::dynamic(
                layout.partner,
                2 * config.received() * OUT_CHANNELS * RECEIVED_BYTES / 4,
            ),
            affine: shared::dynamic(layout.affine, OUT_CHANNELS * AFFINE_BYTES / 4),
            channels: shared::dynamic(layout.channels, CHANNEL_FLOATS),
        }
    }
}

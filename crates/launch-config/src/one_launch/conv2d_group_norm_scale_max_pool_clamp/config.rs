//! Threads, registers and shared memory of a block, for each operand format.

use super::{
    CHANNEL_FLOATS, FRAGMENT_WORDS, HALF_POOL_ROWS, HALVES, OUT_CHANNELS, OUT_WIDTH, PART_BYTES,
    PIXEL_BYTES, TILE_ROWS, WARPGROUP_THREADS, WIDTH,
};

/// The compile-time constants of an instance of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneLaunch2dConfig {
    /// Parts of a pixel: 2 for the f16x2 split (high and low), 1 for one rounded value.
    pub parts: u32,
    /// A fragments (filters) of a thread, 16 bytes each.
    pub fragments: u32,
    /// Pipeline stages. Each holds an input tile.
    pub stages: u32,
    /// Consumer warpgroups. There is one producer warpgroup.
    pub consumers: u32,
    /// Registers of a producer thread.
    pub producer_registers: u32,
    /// Registers of a consumer thread.
    pub consumer_registers: u32,
    /// Blocks that share half a sample: 1, in which all consumer warpgroups multiply, or `consumers` blocks
    /// with one of them each.
    pub blocks_per_half: u32,
}

impl OneLaunch2dConfig {
    /// f32 as the sum of two scaled f16, with three of the four products. The error is as with f32 FMA.
    pub const F16X2: Self = Self {
        parts: 2,
        fragments: 14,
        stages: 4,
        consumers: 2,
        producer_registers: 104,
        consumer_registers: 200,
        blocks_per_half: 1,
    };

    /// f32 rounded to one scaled f16, which has 11 bits as tf32.
    pub const SCALED_F16: Self = Self {
        parts: 1,
        fragments: 7,
        stages: 6,
        consumers: 2,
        producer_registers: 120,
        consumer_registers: 192,
        blocks_per_half: 1,
    };

    /// f16 or bf16 in and out.
    pub const STORED: Self = Self {
        parts: 1,
        fragments: 7,
        stages: 6,
        consumers: 3,
        producer_registers: 80,
        consumer_registers: 144,
        blocks_per_half: 1,
    };

    /// Returns the same format with a sample spread over more blocks: one for each half and consumer
    /// warpgroup.
    #[must_use]
    pub const fn spread(self) -> Self {
        let mut spread = Self {
            blocks_per_half: self.consumers,
            ..self
        };
        if self.parts == 2 {
            // A block has fewer MMAs, so loads limit it: it keeps two input tiles in flight.
            spread.producer_registers = Self::SCALED_F16.producer_registers;
            spread.consumer_registers = Self::SCALED_F16.consumer_registers;
        }
        spread
    }

    /// Blocks of a cluster, which computes a sample.
    #[must_use]
    pub const fn cluster_blocks(self) -> u32 {
        HALVES * self.blocks_per_half
    }

    /// Pooled rows that a block has room for.
    #[must_use]
    pub const fn pool_rows(self) -> u32 {
        HALF_POOL_ROWS.div_ceil(self.blocks_per_half)
    }

    /// Floats from the pooled rows of one channel to those of the next. Odd, so that channels start in
    /// different banks.
    #[must_use]
    pub const fn pooled_pitch(self) -> u32 {
        self.pool_rows() * OUT_WIDTH + 1
    }

    /// Sets of statistics that a block receives for a sample: one from the other half, or, with spread
    /// samples, one from every block of the cluster.
    #[must_use]
    pub const fn received(self) -> u32 {
        if self.blocks_per_half == 1 {
            1
        } else {
            self.cluster_blocks()
        }
    }

    /// Threads of a block.
    #[must_use]
    pub const fn block_threads(self) -> u32 {
        (1 + self.consumers) * WARPGROUP_THREADS
    }

    /// Bytes of an input row in shared memory.
    #[must_use]
    pub const fn row_bytes(self) -> u32 {
        self.parts * PART_BYTES
    }

    /// Words of the prepared filters.
    #[must_use]
    pub const fn operand_words(self) -> u32 {
        self.fragments * WARPGROUP_THREADS * FRAGMENT_WORDS
    }

    /// The map of shared memory.
    #[must_use]
    pub const fn layout(self) -> OneLaunch2dLayout {
        let pooled = 0;
        let pipeline = pooled + 4 * OUT_CHANNELS * self.pooled_pitch();
        let constant = pipeline + self.stages * TILE_ROWS * self.row_bytes();
        let magnitudes = constant + WIDTH * PIXEL_BYTES;
        let full = magnitudes + 2 * 16;
        let empty = full + 8 * self.stages;
        let exchanged = empty + 8 * self.stages;
        let descale = exchanged + 2 * 8;
        let moments = descale + 4 * self.stages.next_multiple_of(2);
        let partner = moments + self.consumers * OUT_CHANNELS * MOMENTS_BYTES;
        let affine = partner + 2 * self.received() * OUT_CHANNELS * RECEIVED_BYTES;
        let channels = affine + OUT_CHANNELS * AFFINE_BYTES;
        OneLaunch2dLayout {
            pooled,
            pipeline,
            constant,
            magnitudes,
            full,
            empty,
            exchanged,
            descale,
            moments,
            partner,
            affine,
            channels,
            bytes: channels + 4 * CHANNEL_FLOATS,
        }
    }
}

/// Bytes of one channel's count, mean and M2.
pub const MOMENTS_BYTES: u32 = 12;

/// Bytes of one channel in a received set of statistics: mean and M2.
pub const RECEIVED_BYTES: u32 = 8;

/// Bytes of one channel's center, factor and summand.
pub const AFFINE_BYTES: u32 = 12;

/// Byte offsets in a block's shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneLaunch2dLayout {
    /// Maxima of the pooling windows: f32, channel by channel.
    pub pooled: u32,
    /// Converted input: stage, row, part, stride phase, window.
    pub pipeline: u32,
    /// A row of constant pixels.
    pub constant: u32,
    /// The largest magnitude in each producer warp's row, for even and for odd input tiles.
    pub magnitudes: u32,
    /// The full barrier of each stage: its input tile is stored.
    pub full: u32,
    /// The empty barrier of each stage: its output tile is computed, so the stage may be overwritten.
    pub empty: u32,
    /// Barriers of the statistics from other blocks, for even and for odd samples.
    pub exchanged: u32,
    /// The reciprocal scale of each stage.
    pub descale: u32,
    /// Statistics of each channel from each warpgroup.
    pub moments: u32,
    /// Statistics from other blocks, for even and for odd samples.
    pub partner: u32,
    /// Center, factor and summand of each channel.
    pub affine: u32,
    /// The per-channel parameters.
    pub channels: u32,
    /// Size of the whole.
    pub bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGS: [OneLaunch2dConfig; 6] = [
        OneLaunch2dConfig::F16X2,
        OneLaunch2dConfig::SCALED_F16,
        OneLaunch2dConfig::STORED,
        OneLaunch2dConfig::F16X2.spread(),
        OneLaunch2dConfig::SCALED_F16.spread(),
        OneLaunch2dConfig::STORED.spread(),
    ];

    #[test]
    fn shared_memory_suffices_and_barriers_are_aligned() {
        for config in CONFIGS {
            let layout = config.layout();
            assert!(layout.bytes <= 227 * 1024, "{layout:?}");
            assert_eq!(layout.pipeline % 128, 0);
            assert_eq!(layout.constant % 128, 0);
            assert_eq!(layout.magnitudes % 16, 0);
            for barrier in [layout.full, layout.empty, layout.exchanged, layout.partner] {
                assert_eq!(barrier % 8, 0);
            }
        }
    }

    #[test]
    fn registers_suffice() {
        for config in CONFIGS {
            // Registers of a thread at the launch: a multiple of 8, from the 65,536 of a multiprocessor.
            let at_entry = (65_536 / config.block_threads()) & !7;
            let held = config.producer_registers + config.consumers * config.consumer_registers;
            assert!(held <= at_entry * (1 + config.consumers), "{config:?}");
        }
    }
}

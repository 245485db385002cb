//! What each format has of a block's threads, registers and shared memory.

use super::{
    BAND_ROWS, CHANNEL_FLOATS, FRAGMENT_WORDS, HALF_POOL_ROWS, HALVES, OUT_CHANNELS, OUT_WIDTH,
    PART_BYTES, PIXEL_BYTES, WARPGROUP_THREADS, WIDTH,
};

/// The constants of a kernel's instance, which follow from its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneLaunch2dConfig {
    /// Parts of a pixel: 2 for high and low halves, 1 for one rounded value.
    pub parts: u32,
    /// Fragments of the filters, 16 bytes each, of a thread.
    pub fragments: u32,
    /// Bands that shared memory holds.
    pub stages: u32,
    /// Warpgroups that multiply; one more loads.
    pub consumers: u32,
    /// Registers of a thread that loads.
    pub producer_registers: u32,
    /// Registers of a thread that multiplies.
    pub consumer_registers: u32,
    /// Blocks that share half a sample: 1, in which all warpgroups multiply, or `consumers`, in
    /// each of which one does.
    pub blocks_per_half: u32,
}

impl OneLaunch2dConfig {
    /// f32 as the sum of two scaled f16, three of the four products: error as of an f32 FMA chain.
    pub const F16X2: Self = Self {
        parts: 2,
        fragments: 14,
        stages: 4,
        consumers: 2,
        producer_registers: 104,
        consumer_registers: 200,
        blocks_per_half: 1,
    };

    /// f32 rounded to one scaled f16: 11 bits, as tf32.
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

    /// The same with a sample spread over as many blocks as it can be: a block for each warpgroup
    /// that multiplies.
    #[must_use]
    pub const fn spread(self) -> Self {
        let mut spread = Self {
            blocks_per_half: self.consumers,
            ..self
        };
        if self.parts == 2 {
            // With fewer products to a block the loads count: two bands of them under way.
            spread.producer_registers = Self::SCALED_F16.producer_registers;
            spread.consumer_registers = Self::SCALED_F16.consumer_registers;
        }
        spread
    }

    /// Blocks of a cluster, which takes a sample.
    #[must_use]
    pub const fn cluster_blocks(self) -> u32 {
        HALVES * self.blocks_per_half
    }

    /// Pooled rows that a block has room for.
    #[must_use]
    pub const fn pool_rows(self) -> u32 {
        HALF_POOL_ROWS.div_ceil(self.blocks_per_half)
    }

    /// Floats between the pooled rows of neighbouring channels. Odd, so that channels start in
    /// different banks.
    #[must_use]
    pub const fn pooled_pitch(self) -> u32 {
        self.pool_rows() * OUT_WIDTH + 1
    }

    /// Sets of statistics that a block receives for a sample: those of the other half, or of every
    /// warpgroup in the cluster that multiplies.
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

    /// Bytes of a row in shared memory.
    #[must_use]
    pub const fn row_bytes(self) -> u32 {
        self.parts * PART_BYTES
    }

    /// Words of the prepared filters.
    #[must_use]
    pub const fn operand_words(self) -> u32 {
        self.fragments * WARPGROUP_THREADS * FRAGMENT_WORDS
    }

    /// Where things lie in shared memory.
    #[must_use]
    pub const fn layout(self) -> OneLaunch2dLayout {
        let pooled = 0;
        let pipeline = pooled + 4 * OUT_CHANNELS * self.pooled_pitch();
        let constant = pipeline + self.stages * BAND_ROWS * self.row_bytes();
        let magnitudes = constant + WIDTH * PIXEL_BYTES;
        let filled = magnitudes + 2 * 16;
        let freed = filled + 8 * self.stages;
        let exchanged = freed + 8 * self.stages;
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
            filled,
            freed,
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

/// Bytes of what one channel receives of a set of statistics: mean and M2.
pub const RECEIVED_BYTES: u32 = 8;

/// Bytes of one channel's center, factor and summand.
pub const AFFINE_BYTES: u32 = 12;

/// Byte offsets in a block's shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneLaunch2dLayout {
    /// Maxima of the pooling windows: f32, channel by channel.
    pub pooled: u32,
    /// Input rows as operands: slot, row, part, residue, window.
    pub pipeline: u32,
    /// A row of pixels that are all the same constant.
    pub constant: u32,
    /// Largest magnitude that each loading warp saw, for even and for odd bands.
    pub magnitudes: u32,
    /// A barrier for each slot: its rows are there.
    pub filled: u32,
    /// A barrier for each slot: its window row is computed.
    pub freed: u32,
    /// The barriers of the statistics that other blocks send, for even and for odd samples.
    pub exchanged: u32,
    /// For each slot, what undoes the scaling of its rows.
    pub descale: u32,
    /// Statistics of each channel from each warpgroup.
    pub moments: u32,
    /// Statistics from other blocks, for even and for odd samples.
    pub partner: u32,
    /// What the output does to each channel.
    pub affine: u32,
    /// The per-channel parameters.
    pub channels: u32,
    /// All of it.
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
            for barrier in [
                layout.filled,
                layout.freed,
                layout.exchanged,
                layout.partner,
            ] {
                assert_eq!(barrier % 8, 0);
            }
        }
    }

    #[test]
    fn registers_suffice() {
        for config in CONFIGS {
            // What a launch takes of the 65,536 registers, in multiples of 8 for each thread.
            let at_entry = (65_536 / config.block_threads()) & !7;
            let held = config.producer_registers + config.consumers * config.consumer_registers;
            assert!(held <= at_entry * (1 + config.consumers), "{config:?}");
        }
    }
}

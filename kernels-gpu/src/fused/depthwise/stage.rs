//! Filters and parameters of a block's channels in shared memory.

use cuda_std::global::Global;
use cuda_std::shared::{self, Shared};
use cuda_std::{Storage, opaque, thread};
use launch_config::depthwise::PARAMETER_ROWS;
use launch_config::{Presence, WARP_THREADS};

use crate::parts::batch_norm::Norm;
use crate::parts::index::div_rem;
use crate::parts::store::StoreEpilogue;
use crate::parts::unroll::unroll;

/// Taps that a thread loads before it stores the first.
const STAGED_AT_ONCE: usize = 8;

/// The filters of channels-last tensors, and the sources of their epilogue's parameters.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a, T> {
    pub(super) weight: *const T,
    pub(super) bias: *const T,
    pub(super) has_bias: Presence,
    /// A batch norm, in place of gain and shift of the epilogue.
    pub(super) norm: Norm,
    pub(super) epilogue: &'a StoreEpilogue,
    /// Channels of the tensors.
    pub(super) channels: u32,
    /// Taps of a channel.
    pub(super) taps: u32,
    /// Channels of a block, and the values between rows of shared memory, which are no fewer.
    pub(super) block_channels: u32,
    pub(super) pitch: u32,
}

impl<T: Storage> Filters<'_, T> {
    /// Copies the taps and parameters of the block's channels to shared memory: a row for each tap, and then
    /// rows of bias, gain and shift, of [`Self::pitch`] values.
    ///
    /// # Safety
    /// The tensors are as the kernel requires. All threads of the block make this call. A barrier follows
    /// before the values are read.
    #[inline(always)]
    pub(super) unsafe fn stage(&self, first_channel: u32) -> Shared<f32> {
        let &Self {
            channels,
            taps,
            block_channels,
            pitch,
            ..
        } = self;
        let filter = shared::dynamic::<f32>(0, (taps + PARAMETER_ROWS) * pitch);
        let staged = block_channels.min(channels - first_channel);
        let weight = Global::new(self.weight, channels as usize * taps as usize);
        // Some warps load the parameters, which take as long as the taps, and the others load the taps. In a
        // block of few threads all warps load both.
        let (threads, number) = (thread::block_dim_x(), thread::thread_idx_x());
        let of_parameters = staged.next_multiple_of(WARP_THREADS);
        let before = if threads > of_parameters {
            of_parameters
        } else {
            0
        };
        let (step, end) = (threads - before, staged * taps);
        let mut first = if number < before {
            end
        } else {
            number - before
        };
        while first < end {
            opaque::not_unrolled();
            // All loads are in flight before the first value is stored.
            let mut values = [T::from_f32(0.0); STAGED_AT_ONCE];
            unroll!(8, |i| {
                let at = first + i as u32 * step;
                if at < end {
                    let at = first_channel as usize * taps as usize + at as usize;
                    values[i] = weight.load_readonly(at);
                }
            });
            unroll!(8, |i| {
                let at = first + i as u32 * step;
                if at < end {
                    let (channel, tap) = div_rem(at, taps);
                    filter.store(tap * pitch + channel, values[i].to_f32());
                }
            });
            first += STAGED_AT_ONCE as u32 * step;
        }
        let mut at = number;
        while at < staged {
            let channel = (first_channel + at) as usize;
            let bias = if self.has_bias.is_present() {
                let bias = Global::new(self.bias, channels as usize);
                bias.load_readonly(channel).to_f32()
            } else {
                0.0
            };
            let [gain, shift] = if self.norm.presence.is_present() {
                self.norm.folded::<T>(channel)
            } else {
                self.epilogue.of_channel(channel, channels as usize)
            };
            let row = taps * pitch + at;
            filter.store(row, bias);
            filter.store(row + pitch, gain);
            filter.store(row + 2 * pitch, shift);
            at += threads;
        }
        filter
    }
}

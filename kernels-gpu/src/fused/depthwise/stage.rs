//! Filters and parameters of a block's channels in shared memory.

use cuda_std::global::Global;
use cuda_std::shared::{self, Shared};
use cuda_std::{Storage, thread};
use launch_config::Presence;
use launch_config::depthwise::nhwc::PARAMETER_ROWS;

use crate::parts::batch_norm::Norm;
use crate::parts::index::div_rem;
use crate::parts::store::StoreEpilogue;

/// The filters of channels-last tensors, and what gives the parameters of their epilogue.
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
    /// Channels of a block, and values from one row of shared memory to the next, which are no fewer.
    pub(super) block_channels: u32,
    pub(super) pitch: u32,
}

impl<T: Storage> Filters<'_, T> {
    /// Copies the taps and parameters of the block's channels to shared memory: a row for each tap, and then
    /// rows of bias, gain and shift, of [`Self::pitch`] values.
    ///
    /// # Safety
    /// The tensors have what the kernel says. All threads of the block make this call. A barrier follows
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
        let mut at = thread::thread_idx_x();
        while at < staged * taps {
            let (channel, tap) = div_rem(at, taps);
            let value = weight.load_readonly(first_channel as usize * taps as usize + at as usize);
            filter.store(tap * pitch + channel, value.to_f32());
            at += thread::block_dim_x();
        }
        let mut at = thread::thread_idx_x();
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
            at += thread::block_dim_x();
        }
        filter
    }
}

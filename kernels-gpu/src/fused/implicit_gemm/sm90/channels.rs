//! The parameters of a block's filters in shared memory.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::thread;
use launch_config::implicit_gemm::sm90::BLOCK_THREADS;
use launch_config::implicit_gemm::{K_VECTOR_WORDS, WARP_SPECIALIZED};

use super::super::format::Format;
use super::output::Output;
use super::results::filter_shift;
use super::{Memory, TileEpilogue, Work};

/// Loads the bias and the reciprocal scale of each of the block's filters to shared memory; for a convolution
/// without a norm, gain and shift too.
///
/// # Safety
/// All threads of the block make this call, and a barrier follows.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn load_channels<F: Format, E: TileEpilogue>(
    memory: &Memory,
    work: &Work<'_>,
    bias: *const F::Stored,
    descales: Global<f32>,
    output: &Output<'_, F, E>,
) {
    let conv = &work.g.conv;
    let channels = conv.output_channels() as usize;
    let mut filter = thread::thread_idx_x();
    while filter < memory.mainloop.tiles * WARP_SPECIALIZED.filters() {
        // Results of filters beyond the last one are not written.
        let mut of_channel = [0.0, 1.0, 0.0, 0.0];
        let made = work.output_channels(filter);
        if made.filters > 0 {
            let channel = made.channel as usize;
            if conv.bias.is_present() {
                of_channel[0] = Global::new(bias, channels).load_readonly(channel).to_f32();
            }
            if F::OPERANDS.scaled {
                of_channel[1] = descales.load_readonly(channel);
            }
            if !E::HAS_NORM {
                let store = &output.without_norm.store;
                // Filters that become columns share a channel of the output.
                let shift = filter_shift::<E>(work.g);
                [of_channel[2], of_channel[3]] =
                    store.of_channel(channel >> shift, channels >> shift);
            }
        }
        memory
            .channels
            .store_vec(filter * K_VECTOR_WORDS, of_channel);
        filter += BLOCK_THREADS;
    }
}

//! The epilogue of the interleave kernels.

use cuda_std::Storage;
use cuda_std::global::Global;
use launch_config::conv_transpose::InterleaveGeometry;
use launch_config::implicit_gemm::Epilogue;

use crate::parts::pointwise::{InRegisters, apply_with};
use crate::parts::store::{GainAndShift, Store};
use crate::parts::unroll::unroll;

/// The operations on results, and on the bias of outputs without taps, before they are written.
pub(super) struct OutputEpilogue<'a, T> {
    store: Store<'a, T>,
    /// The list's gain and shift, if it has them.
    behind: GainAndShift,
    /// Whether the store's epilogue changes values.
    pub(super) maps: bool,
    /// Elements of the output.
    elements: usize,
    channels: usize,
}

impl<'a, T: Storage> OutputEpilogue<'a, T> {
    #[inline(always)]
    pub(super) fn new(store: Store<'a, T>, behind: GainAndShift, g: &InterleaveGeometry) -> Self {
        Self {
            maps: store.epilogue.epilogue != Epilogue::NONE,
            store,
            behind,
            elements: g.elements() as usize,
            channels: g.channels as usize,
        }
    }

    /// The epilogue's gain and shift of a channel.
    ///
    /// # Safety
    /// The output has the channel, and the epilogue's tensors have an element for each channel.
    #[inline(always)]
    pub(super) unsafe fn of_channel(&self, channel: u32) -> [f32; 2] {
        self.store
            .epilogue
            .of_channel(channel as usize, self.channels)
    }

    /// Applies the epilogue to results, each with the gain and shift of its channel, and rounds them.
    #[inline(always)]
    pub(super) fn mapped<const N: usize>(
        &self,
        of_channels: [[f32; 2]; N],
        mut values: [T; N],
    ) -> [T; N] {
        unroll!(4, |i| {
            if i < N {
                let value = self.store.epilogue.map(of_channels[i], values[i].to_f32());
                values[i] = T::from_f32(value);
            }
        });
        values
    }

    /// The residual of output element `at`, if the list has one.
    ///
    /// # Safety
    /// If the list has a residual, it has as many elements as the output.
    #[inline(always)]
    pub(super) unsafe fn added(&self, at: usize) -> f32 {
        match self.store.list.has_residual() {
            true => self.residual().load(at).to_f32(),
            false => 0.0,
        }
    }

    /// The residual of the list.
    ///
    /// # Safety
    /// As for [`added`](Self::added).
    #[inline(always)]
    unsafe fn residual(&self) -> Global<T> {
        Global::new(self.store.residual, self.elements)
    }

    /// Whether the list is not empty.
    #[inline(always)]
    pub(super) fn lists(&self) -> bool {
        !self.store.list.is_empty()
    }

    /// Applies the list to values with their residuals; `channel_of` gives the channel of each.
    ///
    /// # Safety
    /// As for [`of_channel`](Self::of_channel).
    #[inline(always)]
    pub(super) unsafe fn listed<const N: usize>(
        &self,
        mut values: [T; N],
        added: [f32; N],
        channel_of: impl Fn(usize) -> u32 + Copy,
    ) -> [T; N] {
        if !self.lists() {
            return values;
        }
        let mut rounded = [0.0; N];
        unroll!(4, |i| {
            if i < N {
                rounded[i] = values[i].to_f32();
            }
        });
        let (behind, channels) = (self.behind, self.channels);
        let of_channels = move || {
            let mut of_channels = [[0.0; 2]; N];
            unroll!(4, |i| {
                if i < N {
                    let channel = channel_of(i) as usize;
                    of_channels[i] = behind.of_channel(channel, channels);
                }
            });
            of_channels
        };
        let list = self.store.list;
        let listed = apply_with::<T, N>(
            list,
            rounded,
            Some(added),
            Some(of_channels),
            InRegisters(rounded),
        );
        unroll!(4, |i| {
            if i < N {
                values[i] = T::from_f32(listed[i]);
            }
        });
        values
    }
}

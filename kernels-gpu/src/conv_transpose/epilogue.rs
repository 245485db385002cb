//! What results go through before they are written.

use cuda_std::Storage;
use cuda_std::global::Global;
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv_transpose::InterleaveGeometry;
use launch_config::implicit_gemm::Epilogue;

use crate::parts::pointwise::apply_and_add;
use crate::parts::store::Store;
use crate::parts::unroll::unroll;

/// What is applied to results, those without taps included, before they are written.
pub(super) struct OutputEpilogue<'a, T> {
    store: Store<'a, T>,
    /// Whether the store's epilogue changes values.
    pub(super) maps: bool,
    /// Elements of the output.
    elements: usize,
    channels: usize,
}

impl<'a, T: Storage> OutputEpilogue<'a, T> {
    #[inline(always)]
    pub(super) fn new(store: Store<'a, T>, g: &InterleaveGeometry) -> Self {
        Self {
            maps: store.epilogue.epilogue != Epilogue::NONE,
            store,
            elements: g.elements() as usize,
            channels: g.channels as usize,
        }
    }

    /// Gain and shift of a channel.
    ///
    /// # Safety
    /// The output has it, and the epilogue's tensors have an element for each.
    #[inline(always)]
    pub(super) unsafe fn of_channel(&self, channel: u32) -> [f32; 2] {
        self.store
            .epilogue
            .of_channel(channel as usize, self.channels)
    }

    /// What the epilogue makes of results, each with gain and shift of its channel, rounded.
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

    /// What the list makes of them, where they are output elements from `at` on: `N` or those that there are.
    ///
    /// # Safety
    /// The residual has an element for each of the output, if the list adds it. `N` is the length of a
    /// vector, at which `at` is, or 1.
    #[inline(always)]
    pub(super) unsafe fn listed<const N: usize>(&self, at: usize, mut values: [T; N]) -> [T; N] {
        let list = self.store.list;
        if list.is_empty() {
            return values;
        }
        let mut added = [0.0; N];
        if list.adds() {
            let residual = Global::new(self.store.residual, self.elements);
            if N == VECTOR_ELEMENTS && at + N <= self.elements {
                let vector = T::to_f32_vector(residual.load_vec(at));
                unroll!(4, |i| {
                    if i < N {
                        added[i] = vector[i];
                    }
                });
            } else {
                unroll!(4, |i| {
                    if i < N && at + i < self.elements {
                        added[i] = residual.load(at + i).to_f32();
                    }
                });
            }
        }
        let mut rounded = [0.0; N];
        unroll!(4, |i| {
            if i < N {
                rounded[i] = values[i].to_f32();
            }
        });
        let listed = apply_and_add::<T, N>(list, rounded, added);
        unroll!(4, |i| {
            if i < N {
                values[i] = T::from_f32(listed[i]);
            }
        });
        values
    }
}

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

    /// What the list adds to output element `at`, if it adds anything.
    ///
    /// # Safety
    /// The residual has an element for each of the output, if the list adds it.
    #[inline(always)]
    pub(super) unsafe fn added(&self, at: usize) -> f32 {
        match self.store.list.adds() {
            true => self.residual().load(at).to_f32(),
            false => 0.0,
        }
    }

    /// The same of the vector from element `at` on.
    ///
    /// # Safety
    /// As for [`added`](Self::added); `at` is a multiple of a vector's length.
    #[inline(always)]
    pub(super) unsafe fn added_vector(&self, at: usize) -> [f32; VECTOR_ELEMENTS] {
        match self.store.list.adds() {
            true => T::to_f32_vector(self.residual().load_vec(at)),
            false => [0.0; VECTOR_ELEMENTS],
        }
    }

    /// What the list adds.
    ///
    /// # Safety
    /// As for [`added`](Self::added).
    #[inline(always)]
    unsafe fn residual(&self) -> Global<T> {
        Global::new(self.store.residual, self.elements)
    }

    /// Whether there is a list.
    #[inline(always)]
    pub(super) fn lists(&self) -> bool {
        !self.store.list.is_empty()
    }

    /// What the list makes of values, with what it adds to each.
    #[inline(always)]
    pub(super) fn listed<const N: usize>(&self, mut values: [T; N], added: [f32; N]) -> [T; N] {
        if !self.lists() {
            return values;
        }
        let mut rounded = [0.0; N];
        unroll!(4, |i| {
            if i < N {
                rounded[i] = values[i].to_f32();
            }
        });
        let listed = apply_and_add::<T, N>(self.store.list, rounded, added);
        unroll!(4, |i| {
            if i < N {
                values[i] = T::from_f32(listed[i]);
            }
        });
        values
    }
}

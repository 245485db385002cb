//! A batch norm by its running statistics, as two constants of each channel.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::math::GpuFloat;
use launch_config::batch_norm::FoldGeometry;

/// Running statistics, weight and bias of each channel.
#[derive(Clone, Copy)]
pub(crate) struct BatchNorm<T> {
    pub(crate) running_mean: *const T,
    pub(crate) running_var: *const T,
    pub(crate) weight: *const T,
    pub(crate) bias: *const T,
}

impl<T: Storage> BatchNorm<T> {
    /// The gain and the shift of a channel, computed in f64 and rounded once.
    ///
    /// # Safety
    /// The tensors have `g.channels` elements, `weight` and `bias` only if they are said to exist.
    #[inline(always)]
    pub(crate) unsafe fn folded(&self, channel: usize, g: &FoldGeometry) -> [f32; 2] {
        let of_channel = |values| {
            let values = Global::<T>::new(values, g.channels as usize);
            f64::from(values.load_readonly(channel).to_f32())
        };
        let (mean, variance) = (of_channel(self.running_mean), of_channel(self.running_var));
        let weight = if g.weight.is_present() {
            of_channel(self.weight)
        } else {
            1.0
        };
        let bias = if g.bias.is_present() {
            of_channel(self.bias)
        } else {
            0.0
        };
        let exact = weight / GpuFloat::sqrt(variance + g.eps);
        [exact as f32, (bias - mean * exact) as f32]
    }
}

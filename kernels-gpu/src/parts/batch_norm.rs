//! Batch norm at inference, folded into a gain and a shift of each channel.

use core::ffi::c_void;

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::math::GpuFloat;
use launch_config::batch_norm::FoldGeometry;
use launch_config::{AffineType, Presence};

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
    /// The tensors have `g.channels` elements, `weight` and `bias` only if the geometry marks them as
    /// present.
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

/// A batch norm that another operator's kernel folds into its epilogue.
#[derive(Clone, Copy)]
pub(crate) struct Norm {
    /// Running mean and variance.
    pub(crate) running: [*const c_void; 2],
    /// Weight and bias.
    pub(crate) affine: [*const c_void; 2],
    pub(crate) geometry: FoldGeometry,
    /// The element type of all four tensors.
    pub(crate) ty: AffineType,
    /// Whether the operator has a batch norm.
    pub(crate) presence: Presence,
}

impl Norm {
    /// The gain and the shift of a channel, whose parameters are f32 or of type `T`.
    ///
    /// # Safety
    /// As for [`BatchNorm::folded`]; `presence` is present.
    #[inline(always)]
    pub(crate) unsafe fn folded<T: Storage>(&self, channel: usize) -> [f32; 2] {
        if self.ty.is_f32() {
            self.of::<f32>().folded(channel, &self.geometry)
        } else {
            self.of::<T>().folded(channel, &self.geometry)
        }
    }

    #[inline(always)]
    fn of<T>(&self) -> BatchNorm<T> {
        let ([running_mean, running_var], [weight, bias]) = (self.running, self.affine);
        BatchNorm {
            running_mean: running_mean.cast(),
            running_var: running_var.cast(),
            weight: weight.cast(),
            bias: bias.cast(),
        }
    }
}

//! What a kernel writes, and the parameters of its epilogue.

use core::marker::PhantomData;
use core::ptr;

use launch_config::implicit_gemm::ReducedResults;

use super::super::fixup::WithoutNorm;
use super::super::format::Format;
use super::scales::Scales;

/// The output tensors, and the reciprocal scale of each sample.
pub(super) struct Output<'a, F: Format, E> {
    pub(super) y: *mut F::Stored,
    pub(super) moments: *mut f32,
    pub(super) scales: Scales,
    /// Parameters of a convolution without a norm.
    pub(super) without_norm: WithoutNorm<'a, F::Stored>,
    /// The reduction of results, if there is one.
    pub(super) reduced: Option<ReducedResults>,
    pub(super) tile_epilogue: PhantomData<E>,
}

impl<'a, F: Format, E> Output<'a, F, E> {
    /// The output of a kernel without a norm.
    #[inline(always)]
    pub(super) fn without_norm(
        y: *mut F::Stored,
        scales: Scales,
        without_norm: WithoutNorm<'a, F::Stored>,
        reduced: Option<ReducedResults>,
    ) -> Self {
        Self {
            y,
            moments: ptr::null_mut(),
            scales,
            without_norm,
            reduced,
            tile_epilogue: PhantomData,
        }
    }
}

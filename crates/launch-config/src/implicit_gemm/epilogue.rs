//! The epilogue of a convolution without a norm on its accumulators: batch norm, and a clamp or leaky_relu. A
//! list of functions with a residual ([`crate::pointwise::ResidualList`]) may follow before results are
//! stored.
//!
//! With a norm, a value that is not finite makes its whole sample NaN, so it may meet the filters of 0 that
//! pad an MMA step. Without a norm, PyTorch's result is infinite or NaN only where a window has such a value.
//! So the implicit GEMM has a NaN/Inf fix-up pass, which recomputes results that are NaN; see `kernels_gpu`'s
//! `implicit_gemm::fixup`.

use super::{GemmConfig, GemmDevice, GemmTile, OperandFormat};
use crate::conv::ConvGeometry;
use crate::elementwise::Bounds;
use crate::mode::mode;
use crate::pointwise::{Function, Step};
use crate::{Presence, Refusal};

mode! {
    /// What the implicit GEMM does with its results.
    pub EpilogueKind {
        /// It stores them with their moments, for a norm of its own statistics.
        MOMENTS = 0,
        /// It stores them through an [`Epilogue`], after the NaN/Inf fix-up pass. There are no moments.
        STORE = 1,
    }
}

impl EpilogueKind {
    /// Whether results have no norm of their own statistics.
    #[must_use]
    #[inline(always)]
    pub const fn is_store(self) -> bool {
        self.0 != Self::MOMENTS.0
    }
}

/// The epilogue of a value without a norm: `fma(gain[c], y, shift[c])` if channels have gain and shift, then
/// `y > 0 ? y : slope * y`, then the bounds. A slope of 1 and infinite bounds change no value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epilogue {
    /// Gain and shift of each channel.
    pub gain_and_shift: Presence,
    /// Factor of values that are not above 0.
    pub slope: f32,
    /// Bounds of the clamp, which keeps NaN.
    pub bounds: Bounds,
}

impl Epilogue {
    /// Changes no value.
    pub const NONE: Self = Self {
        gain_and_shift: Presence::ABSENT,
        slope: 1.0,
        bounds: Bounds::NONE,
    };

    /// The epilogue for a pointwise function, if it can be one. Gain and shift are absent.
    #[must_use]
    pub const fn of(step: Step) -> Option<Self> {
        let [first, second, _] = step.attributes;
        match step.function {
            Function::Clamp => Some(Self {
                bounds: Bounds {
                    min: first,
                    max: second,
                },
                ..Self::NONE
            }),
            Function::LeakyRelu => Some(Self {
                slope: first,
                ..Self::NONE
            }),
            _ => None,
        }
    }
}

impl GemmConfig {
    /// The config of a convolution without a norm, in `format` on a device: as [`new`](Self::new) without a
    /// pool, of the tiles whose kernels have the fix-up pass ([`GemmTile::ends`]), and without moments.
    ///
    /// # Errors
    /// A format whose MMA steps multiply several parts; problems that [`new`](Self::new) refuses.
    pub fn new_without_norm(
        conv: &ConvGeometry,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        if format.step_parts() > 1 {
            return Err(Refusal::Needs(
                "one operand for each value in a step of a convolution without a norm",
            ));
        }
        let ends = |tile: GemmTile| tile.ends(format);
        let config = Self::of_tiles(conv, None, format, device, batch, ends)?;
        Ok(config.without_norm())
    }

    /// The same config for a convolution without a norm.
    #[must_use]
    pub const fn without_norm(mut self) -> Self {
        self.geometry.epilogue = EpilogueKind::STORE;
        self
    }

    /// The same config with a list of functions and a residual before results are stored.
    #[must_use]
    pub const fn with_list(mut self) -> Self {
        self.has_list = true;
        self
    }
}

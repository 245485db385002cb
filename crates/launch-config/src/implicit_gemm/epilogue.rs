//! The epilogue of a product without a norm behind: batch norm, and a clamp or leaky_relu, before the results
//! are stored.
//!
//! Behind a norm, a value that is not finite makes its whole sample NaN, so a product may multiply such a
//! value by the filters of 0 that pad an MMA step. Without a norm PyTorch has an infinity or NaN in the
//! windows that see it and in no other. Such a product therefore has a NaN/Inf fix-up pass, which computes
//! again what came out as NaN; see `kernels_gpu`'s `implicit_gemm::fixup`.

use super::{GemmConfig, GemmDevice, GemmTile, OperandFormat};
use crate::Refusal;
use crate::conv::ConvGeometry;
use crate::elementwise::Bounds;
use crate::pointwise::{Function, Step};

/// What a product that no norm follows does with a value before it writes it: `fma(gain[c], y, shift[c])`,
/// where there are gain and shift of its channel, then `y > 0 ? y : slope * y`, then the bounds. With a slope
/// of 1 and bounds that are infinite the last two leave every value as it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epilogue {
    /// 1 if there are gain and shift.
    pub is_mapped: u32,
    /// What values are multiplied by that are not above 0.
    pub slope: f32,
    /// What values are kept within; NaN is kept.
    pub bounds: Bounds,
}

impl Epilogue {
    /// Leaves every value as it is.
    pub const NONE: Self = Self {
        is_mapped: 0,
        slope: 1.0,
        bounds: Bounds::NONE,
    };

    /// That of a function, if it is one of those that it can be; gain and shift are still to be said.
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
    /// The config of a convolution that no norm follows, in `format` on a device: as [`new`](Self::new)
    /// without a pool, of the tiles whose kernels look at results again ([`GemmTile::ends`]), and without
    /// moments.
    ///
    /// # Errors
    /// A format of which steps multiply several parts; what [`new`](Self::new) refuses.
    pub fn new_without_norm(
        conv: &ConvGeometry,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        if format.step_parts() > 1 {
            return Err(Refusal::Needs(
                "one operand for each value in a step where no norm follows",
            ));
        }
        let ends = |tile: GemmTile| tile.ends(format);
        let config = Self::of_tiles(conv, None, format, device, batch, ends)?;
        Ok(config.without_norm())
    }

    /// The same for a convolution that no norm follows.
    #[must_use]
    pub const fn without_norm(mut self) -> Self {
        self.geometry.without_norm = 1;
        self
    }
}

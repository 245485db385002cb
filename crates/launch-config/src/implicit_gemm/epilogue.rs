//! The epilogue of a convolution without a norm: batch norm, and a clamp or leaky_relu, before results are
//! stored.
//!
//! With a norm, a value that is not finite makes its whole sample NaN, so it may meet the filters of 0 that
//! pad an MMA step. Without a norm, PyTorch's result is infinite or NaN only where a window has such a value.
//! So the implicit GEMM has a NaN/Inf fix-up pass, which recomputes results that are NaN; see `kernels_gpu`'s
//! `implicit_gemm::fixup`.

use op_spec::ArithmeticOp;

use super::{GemmConfig, GemmDevice, K_VECTOR_BYTES, OperandFormat};
use crate::conv::ConvGeometry;
use crate::elementwise::Bounds;
use crate::mode::mode;
use crate::pointwise::{Function, OperandList, Step};
use crate::{Presence, Refusal};

mode! {
    /// How the implicit GEMM stores its results.
    pub EpilogueKind {
        /// Results are stored with their moments, for a norm that takes its statistics from them.
        MOMENTS = 0,
        /// Results are stored through an [`Epilogue`], with the NaN/Inf fix-up pass. There are no moments.
        STORE = 1,
        /// As `STORE`, to an NHWC output.
        STORE_NHWC = 2,
        /// As `STORE`, to an NCHW output whose rows are whole vectors of 16 bytes, with a
        /// [`PixelShuffle`](super::PixelShuffle).
        STORE_SHUFFLED = 3,
        /// Results are reduced before they are stored, as [`ReducedResults`](super::ReducedResults) says.
        STORE_REDUCED = 4,
        /// As `STORE_SHUFFLED`, to rows that are not whole vectors.
        STORE_SHUFFLED_UNALIGNED = 5,
    }
}

impl EpilogueKind {
    /// Whether no norm takes its statistics from the results.
    #[must_use]
    #[inline(always)]
    pub const fn is_store(self) -> bool {
        self.0 != Self::MOMENTS.0
    }

    /// Whether results are shuffled.
    #[must_use]
    pub const fn is_shuffled(self) -> bool {
        self.is_shuffled_to_vectors() || self.0 == Self::STORE_SHUFFLED_UNALIGNED.0
    }

    /// Whether results are shuffled into rows of whole vectors.
    #[must_use]
    pub const fn is_shuffled_to_vectors(self) -> bool {
        self.0 == Self::STORE_SHUFFLED.0
    }

    /// Whether results are reduced.
    #[must_use]
    pub const fn is_reduced(self) -> bool {
        self.0 == Self::STORE_REDUCED.0
    }

    /// Whether tiles are written to NCHW as they are, row by row.
    #[must_use]
    pub const fn is_written_by_rows(self) -> bool {
        !self.is_nhwc() && !self.is_reduced() && !self.is_shuffled()
    }

    /// Whether the output is NHWC.
    #[must_use]
    pub const fn is_nhwc(self) -> bool {
        self.0 == Self::STORE_NHWC.0
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
    /// The epilogue that changes no value.
    pub const NONE: Self = Self {
        gain_and_shift: Presence::ABSENT,
        slope: 1.0,
        bounds: Bounds::NONE,
    };

    /// Returns the epilogue of a pointwise function, if there is one. Gain and shift are absent.
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

mode! {
    /// The function that a [`RoundedEpilogue`] applies to results in NHWC.
    pub RoundedFunction {
        /// None.
        NONE = 0,
        /// `x * sigmoid(x)`
        SILU = 1,
        /// `x * clamp(x + 3, 0, 6) / 6`
        HARDSWISH = 2,
    }
}

/// The epilogue of 16-bit results in NHWC while they are written: a function, the addition of a residual, and
/// a slope and bounds. Each may be absent, and nothing is rounded in between. Other lists add no residual and
/// are applied to accumulators.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedEpilogue {
    /// The function.
    pub function: RoundedFunction,
    /// The residual.
    pub residual: Presence,
    /// Slope and bounds after the residual. There are no gain and shift.
    pub after: Epilogue,
}

impl RoundedEpilogue {
    /// The epilogue that changes no value.
    pub const NONE: Self = Self {
        function: RoundedFunction::NONE,
        residual: Presence::ABSENT,
        after: Epilogue::NONE,
    };

    /// Returns the epilogue that is equal to a list, if there is one.
    #[must_use]
    pub fn of(list: &OperandList) -> Option<Self> {
        if list.is_affine() || list.residual_operation != ArithmeticOp::Add {
            return None;
        }
        let steps = &list.functions.steps()[..list.functions.len()];
        let (before, after) = match list.has_residual() {
            true => steps.split_at(list.residual_at as usize),
            false => (steps, &[][..]),
        };
        let function = match before {
            [] => RoundedFunction::NONE,
            [step] if step.function == Function::Silu => RoundedFunction::SILU,
            [step] if step.function == Function::Hardswish => RoundedFunction::HARDSWISH,
            _ => return None,
        };
        let after = match after {
            [] => Epilogue::NONE,
            [step] => Epilogue::of(*step)?,
            _ => return None,
        };
        Some(Self {
            function,
            residual: Presence::of(list.has_residual()),
            after,
        })
    }
}

impl GemmConfig {
    /// Chooses the config of a convolution without a norm, in `format` on a device. The choice is that of
    /// [`new`](Self::new) without a pool, among the tiles whose kernels have the fix-up pass. There are no
    /// moments. `epilogue` gives the layout of the output; there may be no kernel for it
    /// ([`writes_nhwc`](Self::writes_nhwc)).
    ///
    /// # Errors
    /// A format whose MMA steps multiply several parts; problems that [`new`](Self::new) refuses.
    pub fn new_without_norm(
        conv: &ConvGeometry,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
        epilogue: EpilogueKind,
    ) -> Result<Self, Refusal> {
        if format.step_parts() > 1 {
            return Err(Refusal::Needs(
                "one operand for each value in a step of a convolution without a norm",
            ));
        }
        let takes = |config: &Self| {
            config.tile.has_store_epilogue(format) && device.arch.suits(config, device)
        };
        Self::of_tiles(conv, (None, epilogue), format, device, batch, takes)
    }

    /// Chooses the config of a convolution without a norm from NHWC to NHWC of a 16-bit type, in
    /// warp-specialized tiles. A batch is one sample ([`ConvGeometry::as_one_sample`]), so results depend on
    /// the batch.
    ///
    /// # Errors
    /// Problems whose tile does not fit shared memory.
    pub fn new_in_nhwc(conv: &ConvGeometry, device: &GemmDevice) -> Result<Self, Refusal> {
        let takes = |config: &Self| config.tile.is_warp_specialized();
        let format = OperandFormat::STORED;
        let results = (None, EpilogueKind::STORE_NHWC);
        Self::of_tiles(conv, results, format, device, Some(conv.n), takes)
    }

    /// Checks whether a kernel writes an NHWC output with elements of `element_bytes` bytes. The convolution
    /// must have no norm, warp-specialized tiles, and groups of whole vectors of output channels. In f32
    /// warpgroups must share a tile: beside the accumulators of a whole tile the store would spill.
    #[must_use]
    pub fn writes_nhwc(&self, device: &GemmDevice, element_bytes: u32) -> bool {
        let Some(mainloop) = self.mainloop_config(device) else {
            return false;
        };
        let epilogue = self.geometry.epilogue;
        (epilogue.is_store() && !epilogue.is_shuffled() && !epilogue.is_reduced())
            && (self.geometry.conv.group_k * element_bytes).is_multiple_of(K_VECTOR_BYTES)
            && (element_bytes == 2 || mainloop.shares_tile())
    }
}

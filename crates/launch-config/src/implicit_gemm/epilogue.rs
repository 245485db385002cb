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
    /// What the implicit GEMM does with its results.
    pub EpilogueKind {
        /// It stores them with their moments, for a norm of its own statistics.
        MOMENTS = 0,
        /// It stores them through an [`Epilogue`], after the NaN/Inf fix-up pass. There are no moments.
        STORE = 1,
        /// The same, to an NHWC output.
        STORE_NHWC = 2,
        /// The same to an NCHW output whose rows are whole vectors of 16 bytes, with a
        /// [`PixelShuffle`](super::PixelShuffle).
        STORE_SHUFFLED = 3,
        /// It reduces them before it stores them, as [`ReducedResults`](super::ReducedResults) say.
        STORE_REDUCED = 4,
        /// As `STORE_SHUFFLED`, to other rows.
        STORE_SHUFFLED_UNALIGNED = 5,
    }
}

impl EpilogueKind {
    /// Whether results have no norm of their own statistics.
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

mode! {
    /// A function of results in NHWC.
    pub RoundedFunction {
        /// None.
        NONE = 0,
        /// `x * sigmoid(x)`
        SILU = 1,
        /// `x * clamp(x + 3, 0, 6) / 6`
        HARDSWISH = 2,
    }
}

/// What results of 16 bits in NHWC go through while they are written: a function, the addition of a residual,
/// and a slope and bounds. Each may be absent, and nothing is rounded in between. Other lists, which add no
/// residual, are applied to accumulators.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedEpilogue {
    /// The function.
    pub function: RoundedFunction,
    /// The residual.
    pub residual: Presence,
    /// Slope and bounds behind the residual. There are no gain and shift.
    pub after: Epilogue,
}

impl RoundedEpilogue {
    /// Changes no value.
    pub const NONE: Self = Self {
        function: RoundedFunction::NONE,
        residual: Presence::ABSENT,
        after: Epilogue::NONE,
    };

    /// The epilogue that a list is, if it is one.
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
    /// The config of a convolution without a norm, in `format` on a device: as [`new`](Self::new) without a
    /// pool, of the tiles whose kernels have the fix-up pass, and without moments. `epilogue` says in which
    /// layout results are stored; no kernel may be able to ([`writes_nhwc`](Self::writes_nhwc)).
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
        let ends = |config: &Self| config.tile.ends(format) && config.suits(device);
        Self::of_tiles(conv, (None, epilogue), format, device, batch, ends)
    }

    /// The config of a convolution without a norm from NHWC to NHWC of a 16-bit type, in warp-specialized
    /// tiles, where a batch is one sample ([`ConvGeometry::as_one_sample`]). Results depend on the batch.
    ///
    /// # Errors
    /// Problems whose tile does not fit shared memory.
    pub fn new_in_nhwc(conv: &ConvGeometry, device: &GemmDevice) -> Result<Self, Refusal> {
        let takes = |config: &Self| config.tile.is_warp_specialized();
        let format = OperandFormat::STORED;
        let results = (None, EpilogueKind::STORE_NHWC);
        Self::of_tiles(conv, results, format, device, Some(conv.n), takes)
    }

    /// Whether there is a kernel that writes an NHWC output of elements of so many bytes: a convolution
    /// without a norm in warp-specialized tiles, whose groups have whole vectors of output channels. In f32
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

//! A pixel shuffle along columns in the store of an implicit GEMM.
//!
//! A transposed convolution of stride 2 is a convolution with two filters for each output channel, one for
//! even and one for odd columns of the output (`conv_transpose::shuffled`). Its warp-specialized tiles store
//! results of neighbouring filters as neighbouring columns, so that memory is written once, in order.

use super::{
    EpilogueKind, GemmConfig, GemmDevice, ImplicitGemmGeometry, K_VECTOR_BYTES, OperandFormat,
};
use crate::Refusal;
use crate::conv::ConvGeometry;

/// The most pixels whose results share a vector of the output: two columns of each pixel, in 16 bits.
const VECTOR_PIXELS: u32 = K_VECTOR_BYTES / 2 / 2;

/// The places of results in an NCHW output, in which neighbouring filters make neighbouring columns. Filter
/// `(channel << shift) + phase` makes columns `(q << shift) + phase` of its channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PixelShuffle {
    /// The binary logarithm of the number of filters of a channel; 0 where nothing is shuffled.
    pub shift: u32,
    /// Elements of a plane (or volume) of the output.
    pub plane: u32,
    /// Elements from a slice of results to the next.
    pub slice: u32,
    /// Elements from a row of results to the next.
    pub row: u32,
    /// Columns of the output. Filters of the last pixel may make columns beyond them, which are not written.
    pub columns: u32,
    /// The first result's place in its plane.
    pub first: u32,
    /// The taps of phases along depth, rows and columns.
    pub taps: [PhaseTaps; 3],
}

/// The taps along an axis that are in the windows of each phase with filters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhaseTaps {
    /// The binary logarithm of the phases of the axis that have filters.
    pub shift: u32,
    /// Elements of the transposed filter. The taps of a phase are its elements `first + phase - tap *
    /// distance`. A tap without an element is 0 and belongs to no window.
    pub kernel: u32,
    /// The element of tap 0 in phase 0. It may be in front of the filter's elements, where it wraps, or
    /// behind them.
    pub first: u32,
    /// Distance between the elements of consecutive taps.
    pub distance: u32,
}

impl PhaseTaps {
    /// The taps of a single phase, which has every tap.
    pub const ALL: Self = Self {
        shift: 0,
        kernel: u32::MAX,
        first: 0,
        distance: 0,
    };

    /// Whether a phase has a tap.
    #[inline(always)]
    const fn has(&self, phase: u32, tap: u32) -> bool {
        let first = self.first.wrapping_add(phase);
        first.wrapping_sub(tap * self.distance) < self.kernel
    }
}

impl PixelShuffle {
    /// The absent shuffle.
    pub const NONE: Self = Self {
        shift: 0,
        plane: 0,
        slice: 0,
        row: 0,
        columns: u32::MAX,
        first: 0,
        taps: [PhaseTaps::ALL; 3],
    };

    /// Whether an output channel has several filters.
    #[must_use]
    #[inline(always)]
    pub const fn is_present(&self) -> bool {
        self.shift > 0
    }

    /// Returns the index of a filter among its channel's filters. Where filters become columns, it is the
    /// index of the column among its pixel's columns.
    #[must_use]
    #[inline(always)]
    pub const fn phase(&self, filter: u32) -> u32 {
        filter & ((1 << self.shift) - 1)
    }

    /// Checks whether the output has the column that a filter makes of a pixel in column `q`.
    #[must_use]
    #[inline(always)]
    pub const fn has_column(&self, filter: u32, q: u32) -> bool {
        (q << self.shift) + self.phase(filter) < self.columns
    }

    /// Returns the channel of a filter's result for a pixel, and the result's place in the channel's plane.
    #[must_use]
    #[inline(always)]
    pub const fn place(&self, filter: u32, [z, p, q]: [u32; 3]) -> [u32; 2] {
        let column = (q << self.shift) + self.phase(filter);
        let at = self.first + z * self.slice + p * self.row + column;
        [filter >> self.shift, at]
    }

    /// Whether a tap, of depth, rows and columns, is in a filter's windows.
    #[must_use]
    #[inline(always)]
    pub const fn has_tap(&self, filter: u32, [t, r, s]: [u32; 3]) -> bool {
        let [depth, rows, columns] = &self.taps;
        let phase = self.phase(filter);
        let (of_rows, of_columns) = (phase >> columns.shift, phase & ((1 << columns.shift) - 1));
        let (of_depth, of_rows) = (of_rows >> rows.shift, of_rows & ((1 << rows.shift) - 1));
        depth.has(of_depth, t) && rows.has(of_rows, r) && columns.has(of_columns, s)
    }
}

impl GemmConfig {
    /// The config of a convolution without a norm in warp-specialized tiles that shuffle their results, in
    /// `format` on a device.
    ///
    /// # Errors
    /// Problems that [`new_without_norm`](Self::new_without_norm) refuses, and those that do not suit
    /// warp-specialized tiles.
    pub fn new_shuffled(
        conv: &ConvGeometry,
        shuffle: PixelShuffle,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        let row_bytes = u64::from(shuffle.columns) * u64::from(format.value_bytes());
        let kind = match row_bytes.is_multiple_of(K_VECTOR_BYTES.into()) {
            true => EpilogueKind::STORE_SHUFFLED,
            false => EpilogueKind::STORE_SHUFFLED_UNALIGNED,
        };
        let results = (None, kind);
        Self::of_phases(conv, (shuffle, results), format, device, batch)
    }

    /// Chooses the config of a convolution without a norm in warp-specialized tiles, whose neighbouring
    /// filters are phases of a channel. `results` has the pool and the epilogue.
    ///
    /// # Errors
    /// Problems that [`new_shuffled`](Self::new_shuffled) refuses.
    pub(super) fn of_phases(
        conv: &ConvGeometry,
        (shuffle, results): (PixelShuffle, (Option<[u32; 2]>, EpilogueKind)),
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        if format.step_parts() > 1 {
            return Err(Refusal::Needs(
                "one operand for each value in a step of a convolution without a norm",
            ));
        }
        let takes =
            |config: &Self| config.tile.is_warp_specialized() && device.arch.suits(config, device);
        let config = Self::of_tiles(conv, results, format, device, batch, takes)?;
        let geometry = ImplicitGemmGeometry {
            shuffle,
            ..config.geometry
        };
        Ok(Self { geometry, ..config })
    }
}

impl ImplicitGemmGeometry {
    /// Checks whether the pixels of each vector of shuffled results, at most [`VECTOR_PIXELS`], are in one
    /// row of a tile. Rows of the output are whole vectors here.
    pub(super) const fn has_rows_of_vectors(&self) -> bool {
        let are_whole = self.tile_w >= self.conv.q || self.tile_w.is_multiple_of(VECTOR_PIXELS);
        let is_one_row = self.tile_h == 1 && self.tile_d == 1;
        let pitches = self.tile_pitch | self.slice_pitch;
        are_whole && (is_one_row || pitches.is_multiple_of(VECTOR_PIXELS))
    }
}

//! A reduction in the store of an implicit GEMM: of windows of pixels, and of neighbouring filters.
//!
//! A pool of windows that lie side by side, or a reduction over channels, need not read a convolution's whole
//! output from memory. Warp-specialized tiles of whole windows reduce their results instead of storing them.
//! A transposed convolution with a filter for each phase of an output channel (`conv_transpose::reduced`) has
//! a window of its stride's extents in neighbouring filters.

use super::tile::INSTRUCTION_PIXELS;
use super::{
    EpilogueKind, GemmConfig, GemmDevice, ImplicitGemmGeometry, OperandFormat, PixelShuffle,
};
use crate::Refusal;
use crate::conv::ConvGeometry;
use crate::mode::mode;

/// Pixels whose results a warp has in shared memory at a time. Windows do not reach beyond them.
pub const REDUCED_PIXELS: u32 = 64;

/// The most filters that are reduced to one result: the filters of a warp.
pub const MAX_REDUCED_FILTERS: u32 = 16;

/// The most rows and columns of a window: an octet has whole windows.
const MAX_EXTENT: u32 = INSTRUCTION_PIXELS;

mode! {
    /// The reduction of the results of a window.
    pub ResultReduction {
        /// The largest result, or NaN if there is one.
        MAX = 0,
        /// The smallest result, or NaN if there is one.
        MIN = 1,
        /// The sum, divided by [`ReducedResults::divisor`].
        SUM = 2,
    }
}

/// How results are reduced before they are written to `(n, filters / 2^log_filters, z, height, width)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReducedResults {
    /// The reduction.
    pub operation: ResultReduction,
    /// The factor of values before the reduction, and of the result after it. Minima are maxima of values
    /// with the other sign.
    pub sign: f32,
    /// The neutral element, with which the reduction begins.
    pub neutral: f32,
    /// The binary logarithm of the neighbouring filters that are reduced to one result.
    pub log_filters: u32,
    /// The binary logarithm of the rows of a window of pixels.
    pub log_rows: u32,
    /// The binary logarithm of the columns of a window of pixels.
    pub log_columns: u32,
    /// Rows of windows that are written.
    pub height: u32,
    /// Columns of windows that are written.
    pub width: u32,
    /// The divisor of sums.
    pub divisor: f32,
}

impl ReducedResults {
    /// Returns the reduction of `filters` neighbouring filters and of windows of `rows` by `columns` pixels.
    /// `height` rows and `width` columns of windows are written; windows at the end may be partial. Sums are
    /// divided by `divisor`.
    ///
    /// # Errors
    /// Extents that are not powers of two; more than [`MAX_REDUCED_FILTERS`] filters; more than eight rows or
    /// columns.
    pub fn new(
        operation: ResultReduction,
        filters: u32,
        [rows, columns]: [u32; 2],
        [height, width]: [u32; 2],
        divisor: f32,
    ) -> Result<Self, Refusal> {
        let log = |extent: u32, most: u32| {
            let fits = extent.is_power_of_two() && extent <= most;
            fits.then(|| extent.trailing_zeros())
        };
        let logs = (
            log(filters, MAX_REDUCED_FILTERS),
            log(rows, MAX_EXTENT),
            log(columns, MAX_EXTENT),
        );
        match logs {
            (Some(log_filters), Some(log_rows), Some(log_columns)) => Ok(Self {
                operation,
                sign: match operation {
                    ResultReduction::MIN => -1.0,
                    _ => 1.0,
                },
                neutral: match operation {
                    ResultReduction::SUM => 0.0,
                    _ => f32::NEG_INFINITY,
                },
                log_filters,
                log_rows,
                log_columns,
                height,
                width,
                divisor,
            }),
            _ => Err(Refusal::Needs(
                "windows of 1, 2, 4 or 8 rows and columns that lie side by side",
            )),
        }
    }

    /// Rows and columns of a window of pixels.
    #[must_use]
    pub const fn window(&self) -> [u32; 2] {
        [1 << self.log_rows, 1 << self.log_columns]
    }
}

impl GemmConfig {
    /// The config of a convolution without a norm in warp-specialized tiles that reduce their results, in
    /// `format` on a device. `shuffle` says which filters are phases of a channel.
    ///
    /// # Errors
    /// Problems that [`new_without_norm`](Self::new_without_norm) refuses, and those that do not suit
    /// warp-specialized tiles.
    pub fn new_reduced(
        conv: &ConvGeometry,
        (reduced, shuffle): (&ReducedResults, PixelShuffle),
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        if !conv.group_k.is_multiple_of(1 << reduced.log_filters) && conv.groups > 1 {
            return Err(Refusal::Needs("groups of whole sets of reduced filters"));
        }
        let results = (Some(reduced.window()), EpilogueKind::STORE_REDUCED);
        Self::of_phases(conv, (shuffle, results), format, device, batch)
    }
}

impl ImplicitGemmGeometry {
    /// Returns the largest power of two of slices, at most `deepest`, with which a row of windows in `strips`
    /// strips fits [`REDUCED_PIXELS`], if there is one.
    pub(super) fn slices_of_windows(&self, strips: u32, deepest: u32) -> Option<u32> {
        let row = strips * INSTRUCTION_PIXELS * self.pool_h;
        (REDUCED_PIXELS / row)
            .min(deepest)
            .checked_ilog2()
            .map(|log| 1 << log)
    }

    /// Whether windows are whole within the pixels that a warp has in shared memory at a time.
    pub(super) const fn has_whole_windows(&self) -> bool {
        REDUCED_PIXELS.is_multiple_of(self.tile_pitch * self.pool_h)
            && self.tile_w.is_multiple_of(INSTRUCTION_PIXELS)
    }
}

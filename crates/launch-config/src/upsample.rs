//! Upsampling of NCHW and channels-last tensors.
//!
//! Images are volumes of one slice, and sequences have one row as well. A *unit* is the data of one load or
//! store of a thread: one element of an NCHW tensor, or a vector of [`VECTOR_ELEMENTS`] channels of a
//! channels-last one. Units are counted along the output, so that a warp's stores are contiguous.
//! Neighbouring outputs read the same values, mostly from L1.
//! values, mostly from L1.

use op_spec::{SpecError, UpsampleAxis, UpsampleProblem};

use super::geometry::{check_plane, kernel_extent};
use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{KernelGeometry, LaunchShape, Refusal, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Output units of a thread.
pub const UNITS_PER_THREAD: usize = 4;

/// Consecutive units of a block.
pub const BLOCK_UNITS: u32 = BLOCK_THREADS * UNITS_PER_THREAD as u32;

/// An upsampling of planes (or volumes) with the extents `input` to planes with the extents `output`. Axes
/// are depth, height, width.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpsampleGeometry {
    /// Planes: samples times channels of NCHW tensors, samples of channels-last ones.
    pub planes: u64,
    /// Input extents.
    pub input: [u32; 3],
    /// Output extents.
    pub output: [u32; 3],
    /// Units of a pixel: 1, or the vectors of its channels.
    pub pixel_units: u32,
    /// Number of interpolated values along each axis: 2, or 1 for an absent axis or in nearest mode.
    pub taps: [u32; 3],
    /// The source positions of each axis.
    pub axes: [UpsampleAxis; 3],
    /// Reciprocal of the units of a pixel.
    pub pixel: Reciprocal,
    /// Reciprocal of the outputs of a row.
    pub columns: Reciprocal,
    /// Reciprocal of the rows of a slice.
    pub rows: Reciprocal,
    /// Reciprocal of the output's units of a plane, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl UpsampleGeometry {
    /// Returns the same upsampling for channels-last tensors with this number of channels.
    ///
    /// # Errors
    /// Channels that are not whole vectors; samples of 2^31 vectors or more.
    pub fn channels_last(self, channels: usize) -> Result<Self, Refusal> {
        let vectors = channels / VECTOR_ELEMENTS;
        if channels == 0 || !channels.is_multiple_of(VECTOR_ELEMENTS) {
            return Err(Refusal::Needs("a multiple of 4 channels"));
        }
        let fits = |extents: [u32; 3]| {
            let mut units = extents.iter().map(|&extent| u64::from(extent));
            let units = units.try_fold(vectors as u64, u64::checked_mul);
            units.is_some_and(|units| units < Reciprocal::LIMIT.into())
        };
        if !fits(self.input) || !fits(self.output) {
            return Err(Refusal::Needs("samples of less than 2^31 vectors"));
        }
        Ok(Self {
            planes: self.planes / channels as u64,
            pixel_units: vectors as u32,
            ..self
        }
        .planned())
    }

    /// Returns the same geometry with its derived fields.
    #[must_use]
    pub const fn planned(self) -> Self {
        let [_, p, q] = self.output;
        let units = self.plane_units();
        let near = if units < FAR as u64 {
            units as u32
        } else {
            FAR
        };
        Self {
            pixel: Reciprocal::of(self.pixel_units),
            columns: Reciprocal::of(q),
            rows: Reciprocal::of(p),
            near: Reciprocal::of(near),
            ..self
        }
    }

    /// Units of a plane of the input.
    #[must_use]
    #[inline(always)]
    pub const fn input_units(&self) -> u64 {
        let [d, h, w] = self.input;
        d as u64 * h as u64 * w as u64 * self.pixel_units as u64
    }

    /// Units of a plane of the output.
    #[must_use]
    #[inline(always)]
    pub const fn plane_units(&self) -> u64 {
        let [z, p, q] = self.output;
        z as u64 * p as u64 * q as u64 * self.pixel_units as u64
    }

    /// The kernel's launch; `None` if it exceeds a grid.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let units = self.planes * self.plane_units();
        LaunchShape::linear(units.div_ceil(BLOCK_UNITS as u64), BLOCK_THREADS)
    }
}

impl KernelGeometry for UpsampleProblem {
    type Geometry = UpsampleGeometry;

    /// Returns the geometry for NCHW tensors.
    fn geometry(&self) -> Result<UpsampleGeometry, SpecError> {
        let operator = "upsample";
        check_plane(operator, "input plane", &self.input, &[0; 3])?;
        check_plane(operator, "output plane", &self.output, &[0; 3])?;
        let extents = |values: [usize; 3]| {
            let mut extents = [1; 3];
            for (extent, value) in extents.iter_mut().zip(values) {
                *extent = kernel_extent(operator, op_spec::Quantity::scalar("extent"), value)?;
            }
            Ok(extents)
        };
        let taps = |axis: usize| match self.is_linear && axis + self.dimensions >= 3 {
            true => 2,
            false => 1,
        };
        let one = Reciprocal::of(1);
        Ok(UpsampleGeometry {
            planes: (self.n * self.c) as u64,
            input: extents(self.input)?,
            output: extents(self.output)?,
            pixel_units: 1,
            taps: [taps(0), taps(1), taps(2)],
            axes: self.axes,
            pixel: one,
            columns: one,
            rows: one,
            near: one,
        }
        .planned())
    }
}

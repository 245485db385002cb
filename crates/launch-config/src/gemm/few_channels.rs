//! Inputs of few channels, such as images of three colours, as operands of a matrix product.
//!
//! Lines of an operand are whole vectors of 16 bytes. Where channels are none, a launch copies the input
//! first, with zeros for the channels that are missing. Where it can, it puts the padding around the columns,
//! too: then all columns of a filter's row lie side by side in the copy, and a line has them all. Lines of
//! neighbouring windows overlap.

use super::super::conv::ConvGeometry;
use super::super::{LaunchShape, Refusal};
use super::LINE_VALUES;

/// 16-bit values of a vector of 16 bytes, which a thread writes.
pub const VECTOR_VALUES: u32 = 8;

/// Threads of a block of the copy.
pub const PAD_THREADS: u32 = 256;

/// A copy with more channels and columns: the kernel's by-value argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadChannelsGeometry {
    /// Rows of all samples.
    pub rows: u32,
    /// Rows of a sample.
    pub sample_rows: u32,
    /// Channels of the source.
    pub channels: u32,
    /// Its columns.
    pub columns: u32,
    /// Elements of the source from a sample, a channel, a row and a column to the next.
    pub strides: [u64; 4],
    /// Channels of the copy.
    pub padded_channels: u32,
    /// Its columns: whole vectors.
    pub padded_columns: u32,
    /// Columns in front of the source's first.
    pub lead: u32,
}

impl PadChannelsGeometry {
    /// A tensor of `[samples, channels, rows, columns]`, dense, channels last or before rows.
    fn new(
        [samples, channels, rows, columns]: [u32; 4],
        is_channels_last: bool,
        [padded_channels, padded_columns, lead]: [u32; 3],
    ) -> Option<Self> {
        let [c, r, w] = [channels, rows, columns].map(u64::from);
        let strides = match is_channels_last {
            true => [r * w * c, 1, w * c, c],
            false => [c * r * w, r * w, w, 1],
        };
        let geometry = Self {
            rows: samples.checked_mul(rows)?,
            sample_rows: rows,
            channels,
            columns,
            strides,
            padded_channels,
            padded_columns,
            lead,
        };
        geometry.shape().map(|_| geometry)
    }

    /// Elements of the source.
    #[must_use]
    pub const fn source_elements(&self) -> u64 {
        self.rows as u64 * self.columns as u64 * self.channels as u64
    }

    /// Elements of the copy.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.rows as u64 * self.padded_columns as u64 * self.padded_channels as u64
    }

    /// Vectors of a row of the copy.
    #[must_use]
    pub const fn row_vectors(&self) -> u32 {
        self.padded_columns * self.padded_channels / VECTOR_VALUES
    }

    /// Launch of the kernel, which counts vectors in 32 bits.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let row = self.padded_columns.checked_mul(self.padded_channels)?;
        let vectors = self.rows.checked_mul(row / VECTOR_VALUES)?;
        vectors.checked_add(PAD_THREADS)?;
        LaunchShape::linear(vectors.div_ceil(PAD_THREADS).into(), PAD_THREADS)
    }
}

/// What a convolution of few channels is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FewChannels {
    /// The convolution of the copies, whose channels are those of a line.
    pub conv: ConvGeometry,
    /// The copy of the input, which is channels last.
    pub input: PadChannelsGeometry,
    /// Elements of that copy from a window to the next in its row.
    pub window_step: u32,
    /// The copies of the filters, of either order.
    filters: [PadChannelsGeometry; 2],
}

impl FewChannels {
    /// Of a convolution whose channels are no whole vectors; none of others.
    ///
    /// # Errors
    /// Copies that have more vectors than 32 bits count.
    pub fn of(conv: &ConvGeometry) -> Result<Option<Self>, Refusal> {
        if conv.group_c.is_multiple_of(VECTOR_VALUES) || conv.groups != 1 {
            return Ok(None);
        }
        let few = Self::with_rows_in_lines(conv).or_else(|| Self::with_padded_channels(conv));
        few.map(Some)
            .ok_or(Refusal::Needs("less than 2^32 vectors of a copy"))
    }

    /// With a filter's row in a line.
    fn with_rows_in_lines(conv: &ConvGeometry) -> Option<Self> {
        let fits = |&channels: &u32| {
            let [line, step] = [conv.s, conv.stride_w].map(|columns| columns.checked_mul(channels));
            channels >= conv.group_c
                && line.is_some_and(|line| line <= LINE_VALUES)
                && step.is_some_and(|step| step.is_multiple_of(VECTOR_VALUES))
        };
        if conv.dilation_w != 1 {
            return None;
        }
        let channels = [1, 2, 4, 8].into_iter().find(fits)?;
        let line = (conv.s * channels).next_multiple_of(VECTOR_VALUES);
        let columns = (conv.q - 1).checked_mul(conv.stride_w)?;
        let columns = columns.checked_add(line / channels)?;
        let columns = columns.checked_next_multiple_of(VECTOR_VALUES / channels)?;
        let of_lines = ConvGeometry {
            group_c: line,
            w: conv.q,
            s: 1,
            stride_w: 1,
            pad_w: 0,
            ..*conv
        };
        let padded = [
            [channels, columns, conv.pad_w],
            [channels, line / channels, 0],
        ];
        Self::new(conv, of_lines, padded, channels * conv.stride_w)
    }

    /// With more channels alone.
    fn with_padded_channels(conv: &ConvGeometry) -> Option<Self> {
        let channels = conv.group_c.next_multiple_of(VECTOR_VALUES);
        let of_more = ConvGeometry {
            group_c: channels,
            ..*conv
        };
        Self::new(
            conv,
            of_more,
            [[channels, conv.w, 0], [channels, conv.s, 0]],
            channels,
        )
    }

    fn new(
        conv: &ConvGeometry,
        of_copies: ConvGeometry,
        [input, filters]: [[u32; 3]; 2],
        window_step: u32,
    ) -> Option<Self> {
        let samples = u32::try_from(conv.n).ok()?;
        let extents = [samples, conv.group_c, conv.d.checked_mul(conv.h)?, conv.w];
        let of_filters = [conv.group_k, conv.group_c, conv.t * conv.r, conv.s];
        let [last, first] =
            [true, false].map(|is_last| PadChannelsGeometry::new(of_filters, is_last, filters));
        Some(Self {
            conv: of_copies,
            input: PadChannelsGeometry::new(extents, true, input)?,
            window_step,
            filters: [last?, first?],
        })
    }

    /// Whether lines lie side by side, those of a row behind those of the row before.
    #[must_use]
    pub const fn is_dense(&self) -> bool {
        let line = self.conv.group_c;
        self.window_step == line && self.input.row_vectors() * VECTOR_VALUES == self.conv.w * line
    }

    /// The copy of the filters.
    #[must_use]
    pub fn filters(&self, is_channels_last: bool) -> PadChannelsGeometry {
        let [last, first] = self.filters;
        if is_channels_last { last } else { first }
    }
}

//! Inputs of few channels, such as images of three colours, as operands of a matrix product.
//!
//! Lines of an operand are whole vectors of 16 bytes. If the channels are no whole vectors, a launch first
//! copies the input, with zeros for the channels that are missing. If possible, the copy also has the padding
//! around rows and columns, and the channels of several rows side by side, row by row of the filter. A line
//! then has all columns of these rows of the filter, and lines of neighbouring windows overlap.
//!
//! The time of a tensor map for a line does not depend on the line's length, so few lines of a window are
//! fast.

use super::{LINE_BYTES, UNIT_BYTES};
use crate::conv::ConvGeometry;
use crate::{LaunchShape, Refusal};

/// Values that a thread of the copy writes side by side.
pub const VECTOR_VALUES: u32 = 8;

/// Threads of a block of the copy.
pub const PAD_THREADS: u32 = 128;

/// The values of the copy whose writing and reading takes as long as one line of a window.
const LINE_COPIED: u64 = 16;

/// A copy with more channels and columns: the kernel's by-value argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadChannelsGeometry {
    /// Slices of all samples.
    pub slices: u32,
    /// Slices of a sample.
    pub sample_slices: u32,
    /// Rows of a slice of the source.
    pub rows: u32,
    /// Columns of a slice of the source.
    pub columns: u32,
    /// Channels of the source.
    pub channels: u32,
    /// Elements of the source from a sample and a slice to the next.
    pub outer_strides: [u64; 2],
    /// Elements of the source from a channel, a row and a column to the next.
    pub strides: [u32; 3],
    /// Rows of a slice of the copy.
    pub padded_rows: u32,
    /// Columns of a slice of the copy. A row is whole vectors.
    pub padded_columns: u32,
    /// Values of a pixel of the copy: the channels of each of its rows, and zeros.
    pub padded_channels: u32,
    /// Rows and columns in front of the source's first.
    pub lead: [u32; 2],
    /// Rows of the source from a row of the copy to the next.
    pub row_step: u32,
    /// Rows of the source that a row of the copy has.
    pub joined_rows: u32,
    /// Rows of the source from one of these to the next.
    pub joined_step: u32,
}

/// The positions of a copy's rows and columns in its source.
#[derive(Clone, Copy)]
struct Copied {
    extents: [u32; 2],
    channels: u32,
    lead: [u32; 2],
    row_step: u32,
    joined: [u32; 2],
}

impl PadChannelsGeometry {
    /// Returns the copy of a dense tensor `[samples, channels, slices, rows, columns]`, channels last or
    /// before slices.
    fn new(
        [samples, channels, slices, rows, columns]: [u32; 5],
        is_channels_last: bool,
        copied: Copied,
    ) -> Option<Self> {
        // A thread's offsets in a sample have 32 bits.
        let row = channels.checked_mul(columns)?;
        let slice = row.checked_mul(rows)?;
        let sample = slice.checked_mul(slices)?;
        let (outer, strides) = match is_channels_last {
            true => (slice, [1, row, channels]),
            false => (rows * columns, [rows * columns * slices, columns, 1]),
        };
        let [padded_rows, padded_columns] = copied.extents;
        let [joined_rows, joined_step] = copied.joined;
        let geometry = Self {
            slices: samples.checked_mul(slices)?,
            sample_slices: slices,
            rows,
            columns,
            channels,
            outer_strides: [sample, outer].map(u64::from),
            strides,
            padded_rows,
            padded_columns,
            padded_channels: copied.channels,
            lead: copied.lead,
            row_step: copied.row_step,
            joined_rows,
            joined_step,
        };
        geometry.shape().map(|_| geometry)
    }

    /// Returns the copy of a source with the same extents and channels before slices.
    const fn of_channels_first(self) -> Self {
        let slice = self.rows * self.columns;
        Self {
            outer_strides: [self.outer_strides[0], slice as u64],
            strides: [slice * self.sample_slices, self.columns, 1],
            ..self
        }
    }

    /// Elements of the source.
    #[must_use]
    pub const fn source_elements(&self) -> u64 {
        self.slices as u64 * self.rows as u64 * self.columns as u64 * self.channels as u64
    }

    /// Elements of the copy.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        let row = self.padded_columns as u64 * self.padded_channels as u64;
        self.slices as u64 * self.padded_rows as u64 * row
    }

    /// Vectors of a row of the copy.
    #[must_use]
    pub const fn row_vectors(&self) -> u32 {
        self.padded_columns * self.padded_channels / VECTOR_VALUES
    }

    /// Blocks of a row of the copy.
    #[must_use]
    pub const fn row_blocks(&self) -> u32 {
        self.row_vectors().div_ceil(PAD_THREADS)
    }

    /// Launch of the kernel, which counts the vectors of a row and the blocks in 32 bits.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let row = self.padded_columns.checked_mul(self.padded_channels)?;
        row.checked_add(PAD_THREADS * VECTOR_VALUES)?;
        let rows = self.slices.checked_mul(self.padded_rows)?;
        let blocks = rows.checked_mul(self.row_blocks())?;
        LaunchShape::linear(blocks.into(), PAD_THREADS)
    }
}

/// The convolution of copies that replaces a convolution of few channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FewChannels {
    /// The convolution of the copies, whose channels are the values of a line.
    pub conv: ConvGeometry,
    /// The copy of the input.
    pub input: PadChannelsGeometry,
    /// Elements of the input's copy from a window to the next in its row.
    pub window_step: u32,
    /// The copies of the filters, from channels-last and from channels-first order.
    filters: [PadChannelsGeometry; 2],
}

impl FewChannels {
    /// Returns the replacement of a convolution whose channels are no whole vectors; `None` for other
    /// convolutions.
    ///
    /// # Errors
    /// Copies that have more vectors than 32 bits count.
    pub fn of(conv: &ConvGeometry, element_bytes: u32) -> Result<Option<Self>, Refusal> {
        let of_unit = UNIT_BYTES / element_bytes;
        if conv.group_c.is_multiple_of(of_unit) || conv.groups != 1 {
            return Ok(None);
        }
        let line_values = LINE_BYTES / element_bytes;
        let few = Self::with_rows_in_lines(conv, line_values);
        let few = few.or_else(|| Self::with_padded_channels(conv));
        few.map(Some)
            .ok_or(Refusal::Needs("less than 2^32 vectors of a copy"))
    }

    /// Puts as many rows of a filter in a line as take the least time.
    fn with_rows_in_lines(conv: &ConvGeometry, line_values: u32) -> Option<Self> {
        if conv.dilation_w != 1 {
            return None;
        }
        let rows = 1..=conv.r.min(line_values);
        let joined = rows.filter_map(|rows| Self::with_joined(conv, rows, line_values));
        // The time of one sample, so that the order of a sum does not depend on the number of samples.
        joined.min_by_key(|few| {
            let lines = u64::from(few.conv.taps()) * u64::from(conv.output_pixels());
            let copied = few.input.elements() / conv.n.max(1);
            lines.saturating_mul(LINE_COPIED).saturating_add(copied)
        })
    }

    /// Puts `joined` rows of a filter in a line.
    fn with_joined(conv: &ConvGeometry, joined: u32, line_values: u32) -> Option<Self> {
        let joined_channels = joined.checked_mul(conv.group_c)?;
        let fits = |&channels: &u32| {
            let step = conv.stride_w.checked_mul(channels);
            let line = (conv.s * channels).next_multiple_of(VECTOR_VALUES);
            // A line is whole pixels.
            line.is_multiple_of(channels)
                && step.is_some_and(|step| step.is_multiple_of(VECTOR_VALUES))
        };
        let most = (line_values / conv.s).min(joined_channels.saturating_add(VECTOR_VALUES));
        let channels = (joined_channels..=most).find(fits)?;
        let line = (conv.s * channels).next_multiple_of(VECTOR_VALUES);
        let columns = (conv.q - 1).checked_mul(conv.stride_w)?;
        let columns = columns.checked_add(line / channels)?;
        let whole = VECTOR_VALUES
            >> channels
                .trailing_zeros()
                .min(VECTOR_VALUES.trailing_zeros());
        let columns = columns.checked_next_multiple_of(whole)?;
        // Rows of the copy at which no window begins are left out, if no line begins there either.
        let groups = conv.r.div_ceil(joined);
        let group_step = joined.checked_mul(conv.dilation_h)?;
        let row_step = match groups == 1 || group_step.is_multiple_of(conv.stride_h) {
            true => conv.stride_h,
            false => 1,
        };
        let last = (conv.p - 1).checked_mul(conv.stride_h)?;
        let last = last.checked_add((groups - 1).checked_mul(group_step)?)?;
        let rows = last / row_step + 1;
        let of_lines = ConvGeometry {
            group_c: line,
            w: conv.q,
            h: rows,
            s: 1,
            r: groups,
            stride_w: 1,
            stride_h: conv.stride_h / row_step,
            dilation_h: (group_step / row_step).max(1),
            pad_w: 0,
            pad_h: 0,
            ..*conv
        };
        let input = Copied {
            extents: [rows, columns],
            channels,
            lead: [conv.pad_h, conv.pad_w],
            row_step,
            joined: [joined, conv.dilation_h],
        };
        let filters = Copied {
            extents: [groups, line / channels],
            channels,
            lead: [0; 2],
            row_step: joined,
            joined: [joined, 1],
        };
        Self::new(conv, of_lines, [input, filters], channels * conv.stride_w)
    }

    /// Pads channels only.
    fn with_padded_channels(conv: &ConvGeometry) -> Option<Self> {
        let channels = conv.group_c.next_multiple_of(VECTOR_VALUES);
        let of_more = ConvGeometry {
            group_c: channels,
            ..*conv
        };
        let copied = |extents| Copied {
            extents,
            channels,
            lead: [0; 2],
            row_step: 1,
            joined: [1; 2],
        };
        let copied = [copied([conv.h, conv.w]), copied([conv.r, conv.s])];
        Self::new(conv, of_more, copied, channels)
    }

    fn new(
        conv: &ConvGeometry,
        of_copies: ConvGeometry,
        [input, filters]: [Copied; 2],
        window_step: u32,
    ) -> Option<Self> {
        let samples = u32::try_from(conv.n).ok()?;
        let extents = [samples, conv.group_c, conv.d, conv.h, conv.w];
        let of_filters = [conv.group_k, conv.group_c, conv.t, conv.r, conv.s];
        let [last, first] =
            [true, false].map(|is_last| PadChannelsGeometry::new(of_filters, is_last, filters));
        Some(Self {
            conv: of_copies,
            input: PadChannelsGeometry::new(extents, true, input)?,
            window_step,
            filters: [last?, first?],
        })
    }

    /// Whether lines are contiguous, and the lines of each row follow those of the row before.
    #[must_use]
    pub const fn is_dense(&self) -> bool {
        let line = self.conv.group_c;
        self.window_step == line && self.input.row_vectors() * VECTOR_VALUES == self.conv.w * line
    }

    /// Returns the same convolution with the copy of an NCHW input.
    #[must_use]
    pub const fn of_channels_first(self) -> Self {
        Self {
            input: self.input.of_channels_first(),
            ..self
        }
    }

    /// The copy of the filters.
    #[must_use]
    pub fn filters(&self, is_channels_last: bool) -> PadChannelsGeometry {
        let [last, first] = self.filters;
        if is_channels_last { last } else { first }
    }
}

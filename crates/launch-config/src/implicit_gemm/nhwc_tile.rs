//! NHWC halo tiles, which tensor maps load.
//!
//! An NHWC halo tile has [`span_k_vectors`](KVectorStrides::span_k_vectors) K-vectors of a pixel side by
//! side, as a channels-last input has them: the *span* of a pixel, which is the swizzle span of the tensor
//! map. An input is read in place, or is reformatted to this layout. Pixels lie in boxes. A tensor map loads
//! each box, with zeros for the padding around the input:
//! ```text
//! halo tile[span of channels][slice of the filter][row stride phase][strip][column stride phase]
//!     box[row][slice][column]
//! ```
//! Strips lie apart here, whereas a halo tile of planes interleaves their rows. The reason is that a tensor
//! map fills in zeros along each axis by itself, and a pixel that is outside for one strip may be inside for
//! another. With two strips, every second octet of pixels belongs to the same strip, and even and odd octets
//! are multiplied by one instruction each. With more strips, boxes are single rows, in the order of a halo
//! tile of planes. In the flat layout the halo tile is one box.

use super::sm90::block::{MIN_FILTER_STAGES, TARGET_BYTES};
use super::tile::INSTRUCTION_PIXELS;
use super::{
    GemmConfig, GemmDevice, ImplicitGemmGeometry, K_VECTOR_BYTES, K_VECTOR_VALUES, KVectorStrides,
    MAX_HALO_K_VECTORS, MMA_STEP_K_VECTORS, OperandFormat, StagedTiles, WARP_SPECIALIZED,
};

/// The most pixels of a box along an axis, including those that a stride skips.
const MAX_BOX_PIXELS: u32 = 256;

/// The largest stride of a box along an axis.
const MAX_BOX_STRIDE: u32 = 8;

/// The most strips of a tile whose boxes have all rows: every second octet of pixels is of the same strip.
const MAX_WHOLE_STRIPS: u32 = 2;

/// The K-vectors of the longest span.
const LONG_SPAN: u32 = 4;

impl ImplicitGemmGeometry {
    /// Whether the halo tile is NHWC, loaded in boxes.
    #[must_use]
    #[inline(always)]
    pub const fn has_nhwc_tile(&self) -> bool {
        self.k_vectors.span_k_vectors != 0
    }

    /// The binary logarithm of a span's K-vectors; 0 for a halo tile of planes.
    #[must_use]
    #[inline(always)]
    pub const fn span_shift(&self) -> u32 {
        self.k_vectors.span_k_vectors >> 1
    }

    /// Columns, slices and rows of a box.
    #[must_use]
    #[inline(always)]
    pub const fn box_extents(&self) -> [u32; 3] {
        match self.strips {
            0 => [self.halo_columns, self.halo_d, self.halo_h],
            1..=MAX_WHOLE_STRIPS => [self.halo_columns, self.tile_d, self.stride_phase_rows],
            _ => [self.halo_columns, 1, 1],
        }
    }

    /// Extents of a box along its axes, innermost first: columns, slices, rows; in the flat layout columns,
    /// rows, slices.
    #[must_use]
    #[inline(always)]
    pub const fn box_axes(&self) -> [u32; 3] {
        let [columns, slices, rows] = self.box_extents();
        if self.strips == 0 {
            [columns, rows, slices]
        } else {
            [columns, slices, rows]
        }
    }

    /// Rows and slices of a tile's halo tile that have boxes of their own.
    #[must_use]
    #[inline(always)]
    pub const fn box_rows(&self) -> [u32; 2] {
        if self.strips > MAX_WHOLE_STRIPS {
            [self.stride_phase_rows, self.tile_d]
        } else {
            [1; 2]
        }
    }

    /// Strides of a box along columns, slices and rows of the padded input.
    #[must_use]
    pub const fn box_strides(&self) -> [u32; 3] {
        match self.strips {
            0 => [1; 3],
            _ => [self.conv.stride_w, self.slice_stride(), self.conv.stride_h],
        }
    }

    /// Pixels of a box.
    #[must_use]
    #[inline(always)]
    pub const fn box_used(&self) -> u32 {
        let [columns, slices, rows] = self.box_extents();
        columns * slices * rows
    }

    /// Distance of two boxes, in pixels.
    #[must_use]
    #[inline(always)]
    pub const fn box_pixels(&self) -> u32 {
        let aligned = if self.strips > MAX_WHOLE_STRIPS {
            (TARGET_BYTES / K_VECTOR_BYTES) >> self.span_shift()
        } else {
            INSTRUCTION_PIXELS
        };
        (self.box_used() + aligned - 1) & !(aligned - 1)
    }

    /// Boxes for each span of channels, the value of [`KVectorStrides::boxes`].
    const fn boxes(&self) -> u32 {
        let [rows, slices] = self.box_rows();
        match self.strips {
            0 => 1,
            strips => {
                self.filter_slices
                    * self.row_stride_phases
                    * rows
                    * slices
                    * strips
                    * self.stride_phases
            }
        }
    }

    /// Whether the halo tile can be NHWC.
    fn can_be_nhwc(&self, format: OperandFormat) -> bool {
        // Only formats without conversion multiply even and odd octets separately, as two strips require.
        // Separate MMAs cost small tiles some time.
        let are_interleaved = format.is_stored() || self.strips != MAX_WHOLE_STRIPS;
        format.parts == 1 && are_interleaved && self.k_vector_channels == K_VECTOR_VALUES
    }

    /// Planes of a span, as far as this is known before K blocks are chosen; none for a halo tile of planes.
    pub(super) fn span_planes(&self, format: OperandFormat) -> Option<u32> {
        let is_nhwc = self.can_be_nhwc(format) && self.pair_k_vectors == 0;
        is_nhwc.then_some(match self.planes.is_multiple_of(LONG_SPAN) {
            true => LONG_SPAN,
            false => MMA_STEP_K_VECTORS,
        })
    }

    /// Boxes of single rows for each span of channels.
    pub(super) const fn row_boxes(&self) -> u32 {
        match self.strips > MAX_WHOLE_STRIPS {
            true => self.depth_k_blocks * self.boxes(),
            false => 0,
        }
    }

    /// Distances, in pixels of the halo tile, from an even octet to the next odd one and on to the next even
    /// one.
    const fn octet_pixels(&self) -> [u32; 2] {
        let to_next = match self.strips {
            0 => INSTRUCTION_PIXELS,
            1 => self.halo_columns,
            _ => self.stride_phases * self.box_pixels(),
        };
        // With two strips, every second octet is of the same strip.
        let to_second = if self.strips == MAX_WHOLE_STRIPS {
            self.halo_columns
        } else {
            2 * to_next
        };
        [to_next, to_second]
    }

    /// Distance, in pixels, between consecutive rows of the halo in an NHWC halo tile of octets.
    #[must_use]
    #[inline(always)]
    pub const fn row_pixels(&self) -> u32 {
        if self.strips > MAX_WHOLE_STRIPS {
            self.tile_d * self.strips * self.stride_phases * self.box_pixels()
        } else {
            self.tile_d * self.halo_columns
        }
    }

    /// Pixels of the halo tile: the pixels of all boxes, and further ones that unused octets read.
    fn halo_pixels(&self) -> Option<u32> {
        let conv = &self.conv;
        let octets = WARP_SPECIALIZED.pixels() / INSTRUCTION_PIXELS;
        let brought = self.boxes().checked_mul(self.box_pixels())?;
        let [to_next, to_second] = self.octet_pixels();
        // The last tap's pixel in the first box of its rows, and the distance of the last octet from the
        // first.
        let (first_box, last_tap) = match self.strips {
            0 => {
                let slices = (self.filter_slices - 1) * conv.dilation_d * self.halo_h;
                let rows = (slices + (conv.r - 1) * conv.dilation_h) * self.halo_columns;
                (0, rows + self.halo_columns - self.tile_w)
            }
            _ => {
                let of_rows = brought / (self.filter_slices * self.row_stride_phases);
                let rows = (conv.r - 1) * conv.dilation_h / conv.stride_h * self.row_pixels();
                let columns = self.halo_columns - self.tile_w.min(INSTRUCTION_PIXELS);
                let stride_phases = (self.stride_phases - 1) * self.box_pixels();
                (brought - of_rows, stride_phases + rows + columns)
            }
        };
        let last_octet = to_next + (octets / 2 - 1) * to_second;
        let reached = first_box + last_tap + last_octet + INSTRUCTION_PIXELS;
        // The next stage starts at a multiple of a box's alignment, too.
        brought
            .max(reached)
            .checked_next_multiple_of(TARGET_BYTES / K_VECTOR_BYTES)
    }

    /// The same geometry with an NHWC halo tile of spans of `planes` K-vectors, if every K block has whole
    /// spans and a tensor map can load the boxes.
    fn with_nhwc_tile(&self, planes: u32) -> Option<Self> {
        let is_channels_last = self.k_vectors.loader.is_channels_last();
        // The K-vectors after the last channel block of a group are the next group's, which are not zero.
        let spans_end_with_groups =
            !is_channels_last || self.conv.groups == 1 || self.planes.is_multiple_of(planes);
        let mut nhwc = *self;
        nhwc.k_vectors.span_k_vectors = planes;
        if !is_channels_last {
            nhwc.planes = self.planes.checked_next_multiple_of(planes)?;
        }
        if planes > self.k_block_planes {
            nhwc.k_block_planes = planes;
            nhwc.k_blocks /= 2;
            nhwc.mma_steps *= 2;
            nhwc.offsets *= 2;
            nhwc.slice_planes = planes;
        }
        let reaches = (self.box_extents().into_iter()).zip(self.box_strides());
        let fit = reaches.into_iter().all(|(lines, step)| {
            let reached = (lines - 1).checked_mul(step);
            step <= MAX_BOX_STRIDE && reached.is_some_and(|reached| reached < MAX_BOX_PIXELS)
        });
        if !spans_end_with_groups || !fit {
            return None;
        }
        nhwc.k_vectors.boxes = nhwc.boxes();
        let halo_k_vectors = nhwc.halo_pixels()?;
        nhwc.interleaved_octets = nhwc.octet_pixels().map(|lines| lines << nhwc.span_shift());
        (halo_k_vectors <= MAX_HALO_K_VECTORS).then_some(Self {
            halo_k_vectors,
            ..nhwc
        })
    }

    /// Channels of a pixel in memory, including those that the reformat adds.
    #[must_use]
    pub const fn pixel_channels(&self) -> u32 {
        if self.k_vectors.loader.is_channels_last() {
            self.conv.input_channels()
        } else {
            self.conv.groups * self.planes * K_VECTOR_VALUES
        }
    }
}

impl GemmConfig {
    /// The config that reads an input in place, if it can. `strides` are those of samples, channels, slices,
    /// rows and columns in elements; the input is aligned to 16 bytes. Results are the same bits as from a
    /// reformatted input.
    #[must_use]
    pub fn channels_last(&self, strides: [i64; 5], device: &GemmDevice) -> Option<Self> {
        // Without a norm, the fix-up pass would recompute every result that overflows at the optimistic
        // scale.
        let may_convert = self.may_convert_in_producer() && !self.geometry.epilogue.is_store();
        if !self.format.is_stored() && !may_convert {
            return None;
        }
        let k_vectors = KVectorStrides::new(&self.geometry.conv, strides)?;
        let nhwc = self.as_nhwc_tile(device, |_| Some(k_vectors))?;
        (self.format.is_stored() || nhwc.can_convert_on(device)).then_some(nhwc)
    }

    /// The config for an input that is reformatted to NHWC, if it can be. Results are the same bits as from
    /// one that is reformatted to planes.
    #[must_use]
    pub fn reformatted_to_nhwc(&self, device: &GemmDevice) -> Option<Self> {
        let g = &self.geometry;
        // The NHWC reformat takes pixels two by two.
        if g.pair_k_vectors > 0 || !g.conv.input_pixels().is_multiple_of(2) {
            return None;
        }
        let nhwc = self.as_nhwc_tile(device, |planes| {
            let of_pixel = g.planes.checked_next_multiple_of(planes)?;
            KVectorStrides::reformatted(&g.conv, g.conv.groups.checked_mul(of_pixel)?)
        });
        nhwc.filter(|nhwc| {
            let g = &nhwc.geometry;
            g.reformat_shape().is_some() && g.rescale_shape().is_some()
        })
    }

    /// Returns the config with an NHWC halo tile. For a number of K-vectors in a span, `k_vectors` returns
    /// the strides of the input's K-vectors.
    fn as_nhwc_tile(
        &self,
        device: &GemmDevice,
        k_vectors: impl Fn(u32) -> Option<KVectorStrides>,
    ) -> Option<Self> {
        let g = &self.geometry;
        if !self.tile.is_warp_specialized() || !g.can_be_nhwc(self.format) {
            return None;
        }
        let with_nhwc_tile = |planes| {
            let k_vectors = ImplicitGemmGeometry {
                k_vectors: k_vectors(planes)?,
                ..*g
            };
            let mut geometry = k_vectors.with_nhwc_tile(planes)?;
            let is_converted =
                geometry.k_vectors.loader.is_channels_last() && !self.format.is_stored();
            geometry.staged_tiles = StagedTiles::of(&geometry, is_converted);
            let nhwc = Self { geometry, ..*self };
            nhwc.mainloop_config(device).map(|_| nhwc)
        };
        if g.pair_k_vectors > 0 {
            return with_nhwc_tile(1);
        }
        let short = with_nhwc_tile(MMA_STEP_K_VECTORS);
        let long = with_nhwc_tile(LONG_SPAN).filter(|long| self.suits_long_span(long));
        // Filters that are not resident, or too few filter stages, cost more than long spans gain.
        let has_resident_filters = |nhwc: &Self| {
            nhwc.mainloop_config(device)
                .is_some_and(|mainloop| mainloop.residency.is_resident())
        };
        let has_stages = |long: &Self| {
            let mainloop = long.mainloop_config(device);
            mainloop.is_some_and(|mainloop| mainloop.filters >= MIN_FILTER_STAGES)
        };
        let short_is_resident = short.as_ref().is_some_and(has_resident_filters);
        long.filter(|long| has_resident_filters(long) || has_stages(long) && !short_is_resident)
            .or(short)
    }

    /// Whether `long`, the same config with long spans, has the same MMAs in the same order.
    fn suits_long_span(&self, long: &Self) -> bool {
        let (g, k_blocks) = (&self.geometry, long.geometry.k_blocks);
        let are_joined = g.k_block_planes == MMA_STEP_K_VECTORS
            && g.planes.is_multiple_of(LONG_SPAN)
            && (g.depth_k_blocks == 1 || g.slice_planes == LONG_SPAN)
            && g.mma_steps == g.paired_mma_steps()
            && k_blocks.is_multiple_of(self.split_k);
        are_joined || g.k_block_planes.is_multiple_of(LONG_SPAN)
    }
}

//! Direct convolution, without an intermediate tensor.
//!
//! 1. A thread computes all output channels of the block's tile, `V` vectors of them, for four pixels. It
//!    uses each input value for every channel, and each filter value for every pixel, all from registers.
//! 2. The filter is in shared memory, with a row of the tile's channels for each pair of input channel and
//!    tap. A thread reads its values in `V` broadcast vectors. The copy from global memory transposes the
//!    filter from its own layout.
//! 3. Taps are the outer loop and input channels the inner one. The padding test runs once per tap, and the
//!    inner loop only loads and multiplies.
//! 4. Padding is multiplied as an input of 0, so an infinite filter value gives NaN there, as in
//!    PyTorch.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv::{
    BLOCK_THREADS, ChannelTile, ConvGeometry, NARROW_CHANNELS, PIXELS_PER_THREAD, STAGED_AT_ONCE,
    STAGED_ROWS, TILE_PIXELS, WIDE_CHANNELS, min_blocks,
};

use super::window::{Row, Window};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

shared_array! {
    /// Staged filter rows of the wide tile.
    static CONV_DIRECT_WIDE: [f32; ChannelTile::Wide.staged_elements()];
}

shared_array! {
    /// Staged filter rows of the narrow tile.
    static CONV_DIRECT_NARROW: [f32; ChannelTile::Narrow.staged_elements()];
}

/// Vectors of output channels in the wide and in the narrow tile.
const WIDE: usize = WIDE_CHANNELS as usize / VECTOR_ELEMENTS;
const NARROW: usize = NARROW_CHANNELS as usize / VECTOR_ELEMENTS;

/// The output tile of a block.
struct Tile {
    shape: ChannelTile,
    sample: usize,
    group: u32,
    /// First output channel of the tile, counted within the group.
    first_k: u32,
    first_pixel: u32,
}

impl Tile {
    /// The tile of block `block`.
    #[inline(always)]
    unsafe fn of(g: &ConvGeometry, shape: ChannelTile, block: u32) -> Self {
        let channels = shape.channels();
        let (rest, channel_tile) = div_rem(block, g.group_k.div_ceil(channels));
        let (rest, pixel_tile) = div_rem(rest, g.output_pixels().div_ceil(TILE_PIXELS));
        let (sample, group) = div_rem(rest, g.groups);
        Self {
            shape,
            sample: sample as usize,
            group,
            first_k: channel_tile * channels,
            first_pixel: pixel_tile * TILE_PIXELS,
        }
    }

    /// Index of the tile's first filter among all filters.
    #[inline(always)]
    fn first_filter(&self, g: &ConvGeometry) -> usize {
        (self.group * g.group_k + self.first_k) as usize
    }

    /// Pixel `i` of the calling thread; it may lie past the last pixel.
    #[inline(always)]
    fn pixel(&self, i: usize) -> u32 {
        self.first_pixel + thread::thread_idx_x() + i as u32 * BLOCK_THREADS
    }
}

/// Copies filter rows `start..end` of the tile's channels into shared memory, with zeros for
/// channels past the group's last. Row `channel * taps + tap` is that tap of that input channel.
///
/// # Safety
/// All threads of the block call it; `staged` has room for the rows, and `weight` is the whole filter.
#[inline(always)]
unsafe fn stage_filter<T: Storage>(
    weight: Global<T>,
    g: &ConvGeometry,
    tile: &Tile,
    start: u32,
    end: u32,
    staged: Shared<f32>,
) {
    let rows = end - start;
    let elements = rows * tile.shape.channels();
    let filters = tile.first_filter(g);
    let last_k = (g.group_k - tile.first_k).min(tile.shape.channels()) - 1;
    let mut first = thread::thread_idx_x();
    while first < elements {
        let mut values = [0.0; STAGED_AT_ONCE];
        unroll!(4, |i| {
            // Past the last channel or element, the load is clamped to an existing element and dropped.
            let (k, row) = div_rem(first + i as u32 * BLOCK_THREADS, rows);
            let filter = filters + k.min(last_k) as usize;
            let index = filter * g.reduction() as usize + (start + row) as usize;
            let value = weight.load_readonly(index).to_f32();
            values[i] = if k <= last_k { value } else { 0.0 };
        });
        unroll!(4, |i| {
            let element = first + i as u32 * BLOCK_THREADS;
            let (k, row) = div_rem(element, rows);
            if element < elements {
                staged.store(row * tile.shape.staged_pitch() + k, values[i]);
            }
        });
        first += STAGED_AT_ONCE as u32 * BLOCK_THREADS;
    }
}

/// The accumulators of a thread: `V` vectors of output channels for each pixel.
type Sums<const V: usize> = [[[f32; VECTOR_ELEMENTS]; V]; PIXELS_PER_THREAD];

/// Adds the products of the pixels' values and one filter row to the sums.
///
/// # Safety
/// `filters` has been written.
#[inline(always)]
unsafe fn multiply<const V: usize>(
    sums: &mut Sums<V>,
    values: [f32; PIXELS_PER_THREAD],
    filters: Shared<f32>,
) {
    unroll!(4, |v| {
        if v < V {
            let filter = filters.load_vec::<VECTOR_ELEMENTS>((v * VECTOR_ELEMENTS) as u32);
            unroll!(4, |i| {
                unroll!(4, |j| {
                    sums[i][v][j] = math::fma(values[i], filter[j], sums[i][v][j]);
                });
            });
        }
    });
}

/// A block computes `V` vectors of output channels of `TILE_PIXELS` consecutive output pixels of one
/// group of one sample, in `D` dimensions.
///
/// *Launch*: `g.direct_shape(tile)`.
/// *Mapping*: four pixels a thread, a block's width apart, and all channels of the tile.
/// *Barriers*: two for every `STAGED_ROWS` filter rows, met by all threads.
/// *Traffic*: an input value is read from cache once per tap and channel tile, the filter
/// once per block; each output is written once.
///
/// # Safety
/// The tensors are as large as the geometry says, and `y` does not overlap the others. `bias` is read only if
/// the geometry has one. Planes have less than 2^31 elements.
#[kernel(
    instances(D: [2, 3], V: [wide: WIDE, narrow: NARROW], T: [f32, f16, bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = min_blocks(D)
)]
pub unsafe fn conv_direct<T: Storage, const D: usize, const V: usize>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    y: *mut T,
    g: &ConvGeometry,
) {
    let (shape, staged) = if V == WIDE {
        (ChannelTile::Wide, CONV_DIRECT_WIDE.view())
    } else {
        (ChannelTile::Narrow, CONV_DIRECT_NARROW.view())
    };
    let input_pixels = g.input_pixels() as usize;
    let input_channels = g.input_channels() as usize;
    let filters = g.output_channels() as usize;
    let (rows, taps) = (g.reduction(), g.taps());
    let x = Global::new(x, g.n as usize * input_channels * input_pixels);
    let weight = Global::new(weight, filters * rows as usize);

    let tile = Tile::of(g, shape, thread::block_idx_x());
    let first_plane = tile.sample * input_channels + (tile.group * g.group_c) as usize;
    let mut windows = [Window::UNSET; PIXELS_PER_THREAD];
    unroll!(4, |i| {
        // Past the end, the last pixel is computed again and not stored.
        windows[i] = Window::of::<D>(g, tile.pixel(i).min(g.output_pixels() - 1));
    });

    let mut sums: Sums<V> = [[[0.0; VECTOR_ELEMENTS]; V]; PIXELS_PER_THREAD];
    let mut start = 0;
    while start < rows {
        let end = (start + STAGED_ROWS).min(rows);
        // The first barrier keeps the previous rows until all threads have used them.
        thread::sync_threads();
        stage_filter(weight, g, &tile, start, end, staged);
        thread::sync_threads();

        let mut row = 0;
        while row < g.t * g.r {
            let (t, r) = if D == 3 { div_rem(row, g.r) } else { (0, row) };
            let mut under_row = [Row::UNSET; PIXELS_PER_THREAD];
            unroll!(4, |i| {
                under_row[i] = windows[i].row::<D>(g, t, r);
            });
            let mut s = 0;
            while s < g.s {
                let mut inside = [false; PIXELS_PER_THREAD];
                let mut under = [0; PIXELS_PER_THREAD];
                unroll!(4, |i| {
                    let element = under_row[i].under(g, s);
                    inside[i] = element.is_some();
                    under[i] = element.unwrap_or(0);
                });
                // The channels whose filter rows of this tap are staged: all channels if all rows are staged.
                let tap = row * g.s + s;
                let (mut channel, channels_end) = if rows <= STAGED_ROWS {
                    (0, g.group_c)
                } else {
                    let first_at = |row: u32| div_rem(row + taps - 1 - tap, taps).0;
                    (first_at(start), first_at(end))
                };
                while channel < channels_end {
                    let plane = (first_plane + channel as usize) * input_pixels;
                    let mut values = [0.0; PIXELS_PER_THREAD];
                    unroll!(4, |i| {
                        let value = x.load(plane + under[i] as usize).to_f32();
                        values[i] = if inside[i] { value } else { 0.0 };
                    });
                    let filters = staged.slice(
                        (channel * taps + tap - start) * shape.staged_pitch(),
                        shape.channels(),
                    );
                    multiply(&mut sums, values, filters);
                    channel += 1;
                }
                s += 1;
            }
            row += 1;
        }
        start = end;
    }
    store(bias, y, g, &tile, &sums);
}

/// Adds the bias to the thread's sums and stores the sums of existing channels and pixels.
///
/// # Safety
/// As [`conv_direct`].
#[inline(always)]
unsafe fn store<T: Storage, const V: usize>(
    bias: *const T,
    y: *mut T,
    g: &ConvGeometry,
    tile: &Tile,
    sums: &Sums<V>,
) {
    let filters = g.output_channels() as usize;
    let output_pixels = g.output_pixels();
    let y = GlobalMut::new(y, g.n as usize * filters * output_pixels as usize);
    let bias = (g.bias.is_present()).then(|| Global::new(bias, filters));
    unroll!(4, |v| {
        if v < V {
            unroll!(4, |j| {
                let k = v * VECTOR_ELEMENTS + j;
                if tile.first_k + (k as u32) < g.group_k {
                    let filter = tile.first_filter(g) + k;
                    let added = match bias {
                        Some(bias) => bias.load_readonly(filter).to_f32(),
                        None => 0.0,
                    };
                    let plane = (tile.sample * filters + filter) * output_pixels as usize;
                    unroll!(4, |i| {
                        let pixel = tile.pixel(i);
                        if pixel < output_pixels {
                            y.store(plane + pixel as usize, T::from_f32(sums[i][v][j] + added));
                        }
                    });
                }
            });
        }
    });
}

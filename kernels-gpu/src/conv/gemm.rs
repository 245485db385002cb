//! The matrix product of a group's filters with the column matrix.
//!
//! 1. A block computes a tile of output channels times pixels; `launch_config::conv_gemm` has a
//!    tall and a flat one. Each thread keeps 8 x 8 (or 4 x 8) sums in registers, fed by vectors of
//!    both operands: 16 values from shared memory for 64 multiplications.
//! 2. Eight rows of the reduction are in shared memory at a time, in one of two buffers. The rows
//!    after them are already on their way to registers while these are used, and go to the other
//!    buffer then, so one barrier per eight rows is enough.
//! 3. A thread's rows and columns are single vectors a tile apart, not one long run: the vectors
//!    that a warp reads at the same time are then neighbours, and no bank is asked twice.
//! 4. The bias is added on the way out.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv::ConvGeometry;
use launch_config::conv_gemm::{
    COLUMN_VECTORS, Chunk, ColumnGemmTile, FLAT, GEMM_THREADS, TALL, TILE_REDUCTION,
};

use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

shared_array! {
    /// Both filter tiles of the tall tile.
    static CONV_GEMM_TALL_FILTERS: [f32; TALL.filter_elements()];
}
shared_array! {
    /// Both column tiles of the tall tile.
    static CONV_GEMM_TALL_COLUMNS: [f32; TALL.column_elements()];
}
shared_array! {
    /// Both filter tiles of the flat tile.
    static CONV_GEMM_FLAT_FILTERS: [f32; FLAT.filter_elements()];
}
shared_array! {
    /// Both column tiles of the flat tile.
    static CONV_GEMM_FLAT_COLUMNS: [f32; FLAT.column_elements()];
}

const VECTOR: u32 = VECTOR_ELEMENTS as u32;
const THREAD_COLUMNS: usize = COLUMN_VECTORS as usize;

/// A tile as a type.
trait Shape {
    const TILE: ColumnGemmTile;
    /// Filter elements that a thread brings for each tile.
    const FILTER_LOADS: usize = (Self::TILE.rows() * TILE_REDUCTION / GEMM_THREADS) as usize;
    /// Vectors of the column matrix that a thread brings for each tile.
    const COLUMN_LOADS: usize =
        (Self::TILE.columns() * TILE_REDUCTION / VECTOR / GEMM_THREADS) as usize;
    /// Vectors of output rows of a thread.
    const ROWS: usize = Self::TILE.row_vectors as usize;
    /// Both filter tiles.
    fn filters() -> Shared<f32>;
    /// Both column tiles.
    fn columns() -> Shared<f32>;
}

struct Tall;
impl Shape for Tall {
    const TILE: ColumnGemmTile = TALL;

    #[inline(always)]
    fn filters() -> Shared<f32> {
        CONV_GEMM_TALL_FILTERS.view()
    }

    #[inline(always)]
    fn columns() -> Shared<f32> {
        CONV_GEMM_TALL_COLUMNS.view()
    }
}

struct Flat;
impl Shape for Flat {
    const TILE: ColumnGemmTile = FLAT;

    #[inline(always)]
    fn filters() -> Shared<f32> {
        CONV_GEMM_FLAT_FILTERS.view()
    }

    #[inline(always)]
    fn columns() -> Shared<f32> {
        CONV_GEMM_FLAT_COLUMNS.view()
    }
}

/// The most that any tile has of each; what a tile does not use is never touched, and so takes no
/// registers.
const MAX_LOADS: usize = 4;
const MAX_ROWS: usize = 2;

/// What a block computes, and from what.
struct Problem<T: Storage> {
    weight: Global<T>,
    columns: Global<T>,
    /// Where the group's filters and columns begin.
    first_weight: usize,
    first_column: usize,
    /// First output channel, in the group.
    first_k: u32,
    /// First pixel, in the chunk.
    first_pixel: u32,
    group_k: u32,
    reduction: u32,
    pitch: u32,
}

/// What a thread brings for one tile of the reduction.
struct Staged<T> {
    filters: [T; MAX_LOADS],
    columns: [[T; VECTOR_ELEMENTS]; MAX_LOADS],
}

/// The column of a tile and the row of the reduction that a thread's load number `i` is for.
#[inline(always)]
fn column_place<S: Shape>(i: usize) -> (u32, u32) {
    let load = thread::thread_idx_x() + i as u32 * GEMM_THREADS;
    let vectors = S::TILE.columns() / VECTOR;
    (load % vectors * VECTOR, load / vectors)
}

/// The row of a tile and the row of the reduction that a thread's filter load number `i` is for.
#[inline(always)]
fn filter_place(i: usize) -> (u32, u32) {
    let load = thread::thread_idx_x() + i as u32 * GEMM_THREADS;
    (load / TILE_REDUCTION, load % TILE_REDUCTION)
}

impl<T: Storage> Problem<T> {
    /// Loads what the thread brings for the tile that begins with row `row` of the reduction;
    /// zeros for what lies outside of either matrix.
    #[inline(always)]
    unsafe fn load<S: Shape>(&self, row: u32) -> Staged<T> {
        let zero = T::from_f32(0.0);
        let mut staged = Staged {
            filters: [zero; MAX_LOADS],
            columns: [[zero; VECTOR_ELEMENTS]; MAX_LOADS],
        };
        unroll!(4, |i| {
            if i < S::COLUMN_LOADS {
                let (column, r) = column_place::<S>(i);
                if row + r < self.reduction && self.first_pixel + column < self.pitch {
                    let at = (row + r) as usize * self.pitch as usize;
                    let column = (self.first_pixel + column) as usize;
                    staged.columns[i] = self.columns.load_vec(self.first_column + at + column);
                }
            }
        });
        unroll!(4, |i| {
            if i < S::FILTER_LOADS {
                let (k, r) = filter_place(i);
                if row + r < self.reduction && self.first_k + k < self.group_k {
                    let at = (self.first_k + k) as usize * self.reduction as usize;
                    let at = self.first_weight + at + (row + r) as usize;
                    staged.filters[i] = self.weight.load_readonly(at);
                }
            }
        });
        staged
    }
}

/// Stores what a thread has brought into one buffer.
#[inline(always)]
unsafe fn store_staged<T: Storage, S: Shape>(
    staged: &Staged<T>,
    filters: Shared<f32>,
    columns: Shared<f32>,
) {
    unroll!(4, |i| {
        if i < S::COLUMN_LOADS {
            let (column, r) = column_place::<S>(i);
            let mut vector = [0.0; VECTOR_ELEMENTS];
            unroll!(4, |j| {
                vector[j] = staged.columns[i][j].to_f32();
            });
            columns.store_vec(r * S::TILE.columns() + column, vector);
        }
    });
    unroll!(4, |i| {
        if i < S::FILTER_LOADS {
            let (k, r) = filter_place(i);
            filters.store(r * S::TILE.filter_pitch() + k, staged.filters[i].to_f32());
        }
    });
}

/// The sums of a thread, by vector of rows, row, vector of columns, column.
type Sums = [[[[f32; VECTOR_ELEMENTS]; THREAD_COLUMNS]; VECTOR_ELEMENTS]; MAX_ROWS];

/// Adds the products of the rows in one buffer to the sums.
#[inline(always)]
unsafe fn multiply<S: Shape>(sums: &mut Sums, filters: Shared<f32>, columns: Shared<f32>) {
    let thread_row = thread::thread_idx_x() / S::TILE.thread_columns();
    let thread_column = thread::thread_idx_x() % S::TILE.thread_columns();
    unroll!(8, |r| {
        let filters_at = r as u32 * S::TILE.filter_pitch() + thread_row * VECTOR;
        let columns_at = r as u32 * S::TILE.columns() + thread_column * VECTOR;
        let mut filter = [[0.0; VECTOR_ELEMENTS]; MAX_ROWS];
        unroll!(2, |a| {
            if a < S::ROWS {
                let vector = a as u32 * S::TILE.thread_rows * VECTOR;
                filter[a] = filters.load_vec(filters_at + vector);
            }
        });
        let mut column = [[0.0; VECTOR_ELEMENTS]; THREAD_COLUMNS];
        unroll!(2, |b| {
            let vector = b as u32 * S::TILE.thread_columns() * VECTOR;
            column[b] = columns.load_vec(columns_at + vector);
        });
        unroll!(2, |a| {
            if a < S::ROWS {
                unroll!(4, |i| {
                    unroll!(2, |b| {
                        unroll!(4, |j| {
                            let sum = &mut sums[a][i][b][j];
                            *sum = math::fma(filter[a][i], column[b][j], *sum);
                        });
                    });
                });
            }
        });
    });
}

/// A block computes a tile of output channels times pixels.
///
/// *Launch*: `chunk.gemm_shape(g, tile)`.
/// *Mapping*: vectors of channels times vectors of pixels, each a tile's width apart.
/// *Barriers*: one for every `TILE_REDUCTION` rows of the reduction, and one before.
/// *Traffic*: the column matrix is read once per tile of output channels, the filter once
/// per tile of pixels (from cache); each output is written once.
///
/// # Safety
/// `weight`, `bias` and `y` are as large as the geometry says, `columns` as large as the
/// chunk says; `columns` and `y` start on 16 bytes; `y` is apart from the others.
#[kernel(instances(S: [tall: Tall, flat: Flat], T: [f32, f16, bf16]), max_threads = GEMM_THREADS)]
pub unsafe fn conv_gemm<T: Storage, S: Shape>(
    weight: *const T,
    bias: *const T,
    columns: *const T,
    y: *mut T,
    g: &ConvGeometry,
    chunk: Chunk,
) {
    let filter_tiles = S::filters();
    let column_tiles = S::columns();
    let (rest, row_tile) = div_rem(thread::block_idx_x(), g.group_k.div_ceil(S::TILE.rows()));
    let (rest, column_tile) = div_rem(rest, chunk.pixels.div_ceil(S::TILE.columns()));
    let (sample, group) = div_rem(rest, g.groups);

    let reduction = g.reduction() as usize;
    let group_columns = reduction * chunk.pitch as usize;
    let groups = sample as usize * g.groups as usize + group as usize;
    let problem = Problem {
        weight: Global::new(weight, g.output_channels() as usize * reduction),
        columns: Global::new(
            columns,
            chunk.samples as usize * g.groups as usize * group_columns,
        ),
        first_weight: (group * g.group_k) as usize * reduction,
        first_column: groups * group_columns,
        first_k: row_tile * S::TILE.rows(),
        first_pixel: column_tile * S::TILE.columns(),
        group_k: g.group_k,
        reduction: g.reduction(),
        pitch: chunk.pitch,
    };

    let filter_half = S::TILE.filter_elements() as u32 / 2;
    let column_half = S::TILE.column_elements() as u32 / 2;
    let mut sums: Sums = [[[[0.0; VECTOR_ELEMENTS]; THREAD_COLUMNS]; VECTOR_ELEMENTS]; MAX_ROWS];
    let mut buffer = 0;
    let mut row = 0;
    store_staged::<T, S>(
        &problem.load::<S>(0),
        filter_tiles.slice(0, filter_half),
        column_tiles.slice(0, column_half),
    );
    thread::sync_threads();
    while row < problem.reduction {
        // Past the last row this loads nothing.
        let next = problem.load::<S>(row + TILE_REDUCTION);
        multiply::<S>(
            &mut sums,
            filter_tiles.slice(buffer * filter_half, filter_half),
            column_tiles.slice(buffer * column_half, column_half),
        );
        buffer = 1 - buffer;
        // All threads left this buffer before the last barrier.
        store_staged::<T, S>(
            &next,
            filter_tiles.slice(buffer * filter_half, filter_half),
            column_tiles.slice(buffer * column_half, column_half),
        );
        thread::sync_threads();
        row += TILE_REDUCTION;
    }

    let filters = g.output_channels() as usize;
    let output_pixels = g.output_pixels() as usize;
    let y = GlobalMut::new(y, g.n as usize * filters * output_pixels);
    let bias = (g.has_bias != 0).then(|| Global::new(bias, filters));
    let sample = (chunk.first_sample + sample as u64) as usize;
    let thread_row = thread::thread_idx_x() / S::TILE.thread_columns();
    let thread_column = thread::thread_idx_x() % S::TILE.thread_columns();
    // A multiple in which every row of every plane starts on a vector.
    let vectors = output_pixels.is_multiple_of(VECTOR_ELEMENTS);
    unroll!(2, |a| {
        if a < S::ROWS {
            unroll!(4, |i| {
                let tile_row = (a as u32 * S::TILE.thread_rows + thread_row) * VECTOR + i as u32;
                let k = problem.first_k + tile_row;
                if k < g.group_k {
                    let filter = (group * g.group_k + k) as usize;
                    let added = match bias {
                        Some(bias) => bias.load_readonly(filter).to_f32(),
                        None => 0.0,
                    };
                    let plane = (sample * filters + filter) * output_pixels;
                    unroll!(2, |b| {
                        let tile_column =
                            (b as u32 * S::TILE.thread_columns() + thread_column) * VECTOR;
                        let pixel = problem.first_pixel + tile_column;
                        let at = plane + (chunk.first_pixel + pixel) as usize;
                        let mut stored = [T::from_f32(0.0); VECTOR_ELEMENTS];
                        unroll!(4, |j| {
                            stored[j] = T::from_f32(sums[a][i][b][j] + added);
                        });
                        if vectors {
                            if pixel < chunk.pixels {
                                y.store_vec(at, stored);
                            }
                        } else {
                            unroll!(4, |j| {
                                if pixel + (j as u32) < chunk.pixels {
                                    y.store(at + j, stored[j]);
                                }
                            });
                        }
                    });
                }
            });
        }
    });
}

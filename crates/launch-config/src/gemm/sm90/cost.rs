//! The estimated time of a product, by which tiles are chosen.

use super::{Gemm, LINE_BYTES, Rows, WARPGROUP_THREADS};
use crate::TensorRates;

/// Cycles of a launch until the first stage has arrived, and after the last store.
const START_CYCLES: u64 = 1_500;
/// Cycles of a warpgroup's tile that nothing hides.
const TILE_CYCLES: u64 = 200;
/// Cycles of a mainloop besides its products, and of an epilogue besides its values.
const MAINLOOP_CYCLES: u64 = 400;
const EPILOGUE_CYCLES: u64 = 400;
/// Cycles of an epilogue for each value of a thread, and more of them for a residual.
const VALUE_CYCLES: u64 = 5;
const RESIDUAL_CYCLES: u64 = 2;
/// Cycles from the end of a tile's results in the only buffer until the next tile's residual has arrived.
const RESIDUAL_LATENCY: u64 = 1_500;
/// Tenths of a cycle in which a tensor map copies a line of up to 128 bytes, whatever its length: of a
/// matrix, and of windows.
const MATRIX_LINE: u64 = 23;
const WINDOW_LINE: u64 = 39;
/// Cycles that a producer takes to start the copies of a stage, and until these arrive. The copies of all
/// stages may be in flight together.
const ISSUE_CYCLES: u64 = 350;
const LOAD_LATENCY: u64 = 2_000;
/// Bytes that all multiprocessors get from the level-2 cache in a cycle.
const CACHE_PER_CYCLE: u64 = 3_900;
/// Bytes of results that memory takes from a multiprocessor in a cycle, or gives for residuals.
const WRITTEN_PER_CYCLE: u64 = 13;

impl Gemm {
    /// The estimated cycles of a block. In the ping-pong schedule the epilogue of a tile runs beside the
    /// mainloop of the next.
    pub(super) fn estimate(&self, adds_residual: bool, rates: TensorRates) -> u64 {
        let (g, tile) = (&self.geometry, self.tile);
        let blocks = self.shape.grid[0].max(1);
        let tiles = u64::from(g.tiles.div_ceil(blocks));
        let results = u64::from(g.tile_pixels * tile.filters);
        let bytes = u64::from(g.k_blocks) * u64::from(LINE_BYTES);
        let rate = match g.element_bytes {
            4 => rates.tf32,
            _ => rates.f16,
        };
        let multiplied = results * bytes / u64::from(rate * g.element_bytes);
        let of_row = match g.rows {
            Rows::PIXELS => MATRIX_LINE,
            _ => WINDOW_LINE,
        };
        let of_pixels = of_row * u64::from(g.tile_pixels);
        let filters = u64::from(tile.filters) * u64::from(!g.residency.is_resident());
        let of_parts = of_pixels + MATRIX_LINE * filters;
        let of_stage = u64::from(g.stage_taps()) * of_parts / 10;
        let waited = ISSUE_CYCLES.max(LOAD_LATENCY / u64::from(g.stages));
        let loaded = u64::from(g.k_blocks) * of_stage.max(waited);
        let resident = u64::from(g.residency.is_resident()) * u64::from(tile.filters) * bytes;
        let first = u64::from(blocks) * resident / CACHE_PER_CYCLE;
        let of_tiles = u64::from(g.tiles) * (u64::from(g.tile_pixels) + filters) * bytes;
        let cached = of_tiles / CACHE_PER_CYCLE;
        let residual = u64::from(adds_residual);
        let of_result = (1 + residual) * u64::from(g.element_bytes);
        let written = of_result * results / WRITTEN_PER_CYCLE;
        let mainloop = multiplied.max(loaded) + MAINLOOP_CYCLES;
        let of_thread = u64::from(tile.pixels * tile.filters) / u64::from(WARPGROUP_THREADS);
        let latency = residual * RESIDUAL_LATENCY * u64::from(g.buffers == 1);
        let of_value = VALUE_CYCLES + residual * RESIDUAL_CYCLES;
        let epilogue = EPILOGUE_CYCLES + of_thread * of_value + latency;
        let of_tile = if g.schedule.is_ping_pong() {
            let of_two = mainloop + epilogue;
            written.max(multiplied).max(loaded).max(of_two / 2) + TILE_CYCLES
        } else {
            written.max(mainloop + epilogue) + 2 * TILE_CYCLES
        };
        let all = (tiles * of_tile).max(cached);
        START_CYCLES + first + all + MAINLOOP_CYCLES + epilogue
    }
}

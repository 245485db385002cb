//! Products whose results are wanted as they are, without a norm behind.
//!
//! Behind a norm a value that is not finite makes NaN of its whole sample, so a product may multiply such a value with filters
//! of 0 that fill up steps, and it may scale a sample by its largest magnitude. Without one neither may be: PyTorch has an infinity
//! in the windows that see it, and a sample's largest value does not cost its other windows their digits.

use super::{GemmConfig, GemmDevice, OperandFormat, STEP_CELLS, TILES};
use crate::launch::Refusal;
use crate::launch::conv::ConvGeometry;

impl GemmConfig {
    /// The config of a convolution that no norm follows, in `format` on a device: as [`new`](Self::new) without a pool, of the
    /// tiles in which every operand meets a value of its own window.
    ///
    /// # Errors
    /// A format that scales; channels and taps that fill up the steps of no tile; what [`new`](Self::new) refuses.
    pub fn alone(
        conv: &ConvGeometry,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        if format.scaled {
            return Err(Refusal::Needs(
                "16-bit elements where no norm follows, since f32 is multiplied at the scale of its sample",
            ));
        }
        // What no tile can do at all is refused in those words.
        let best = Self::new(conv, None, format, device, batch)?;
        if best.is_whole() {
            return Ok(best);
        }
        let samples = batch.unwrap_or(super::USUAL_BATCH);
        let tiles = TILES.into_iter();
        tiles
            .filter_map(|tile| Self::with_tile(conv, None, format, device, tile))
            .filter(|config| config.is_whole())
            .filter(|config| config.tile.warpgroups == 0 || config.suits_warpgroups(device))
            .map(|config| config.with_splits(device, batch))
            .filter_map(|config| Some((config.cost(device, samples)?, config)))
            .min_by_key(|(cost, _)| *cost)
            .and_then(|(_, config)| config.launched(device))
            .ok_or(Refusal::Needs(
                "channels and taps that fill the steps of products where no norm follows",
            ))
    }

    /// Whether no filter value of 0 that only fills up a cell, a step or a stage meets a value of the input. (Those of channels
    /// that do not exist meet zeros.)
    fn is_whole(&self) -> bool {
        let g = &self.geometry;
        let cells = match g.paired {
            0 => g.steps * STEP_CELLS == g.stage_cells(),
            _ => g.steps * STEP_CELLS == g.stage_planes * g.taps,
        };
        cells && g.conv.s.is_multiple_of(g.cell_columns) && g.planes.is_multiple_of(g.stage_planes)
    }

    /// The config if its launches can be made.
    pub(super) fn launched(self, device: &GemmDevice) -> Option<Self> {
        let launches = self.shape(device).is_some()
            && self.filters_shape().is_some()
            && self.geometry.pack_shape().is_some()
            && self.geometry.repack_shape().is_some();
        let counted = i32::try_from(self.geometry.items()).is_ok();
        (launches && counted).then_some(self)
    }
}

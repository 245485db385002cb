//! Normalisation as an [`ElementMap`], for the kernels that normalise on the way to something else.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::shared::{self, Shared};
use cuda_std::{math, thread};
use op_spec::launch::norm::{NormGeometry, PARTIAL_ELEMENTS};

use crate::parts::index::{Channels, Runs};
use crate::parts::map::ElementMap;
use crate::parts::moments;

/// `(x - mean) * (rstd * weight) + bias`, with the statistics of the block's rows in dynamic
/// shared memory.
#[derive(Clone, Copy)]
pub(crate) struct NormMap<T: Storage> {
    statistics: Shared<f32>,
    weight: Option<Global<T>>,
    bias: Option<Global<T>>,
    rows: Runs,
    channels: Channels,
}

/// What the elements of one channel of one row share.
#[derive(Clone, Copy)]
pub(crate) struct NormParams {
    mean: f32,
    factor: f32,
    bias: f32,
}

impl<T: Storage> NormMap<T> {
    /// Brings the statistics of the block's rows into shared memory. The block has the `span`
    /// elements from number `start` on of a tensor whose planes have `spatial` elements; a pool
    /// counts in outputs, so `spatial` need not be the `g.spatial` that the statistics were made of.
    ///
    /// # Safety
    /// All threads of the block call it together. `partials`, `weight` and `bias` are as the
    /// statistics kernel left them and as `g` says; `0 < span <= MAX_SPAN`, and the launch has
    /// dynamic shared memory for all rows that `span` elements can touch.
    #[inline(always)]
    pub(crate) unsafe fn stage(
        g: &NormGeometry,
        partials: *const f32,
        weight: *const T,
        bias: *const T,
        start: u64,
        span: u32,
        spatial: u64,
    ) -> Self {
        let partials = Global::new(partials, g.partial_elements() as usize);
        let rows = Runs::from(start, g.row_channels as u64 * spatial);
        let count = rows.steps(span - 1) + 1;
        let statistics = shared::dynamic::<f32>(0, count * PARTIAL_ELEMENTS as u32);
        moments::for_each_row(partials, g, rows.first, count, |row, moments| {
            let at = row * PARTIAL_ELEMENTS as u32;
            statistics.store_vec(at, [moments.mean, moments.rstd(g.eps)]);
        });
        thread::sync_threads();
        let per_channel = g.channels as usize;
        Self {
            statistics,
            weight: (g.has_weight != 0).then(|| Global::new(weight, per_channel)),
            bias: (g.has_bias != 0).then(|| Global::new(bias, per_channel)),
            rows,
            channels: Channels::from(start, spatial, g.channels),
        }
    }
}

impl<T: Storage> ElementMap for NormMap<T> {
    type Params = NormParams;

    #[inline(always)]
    unsafe fn params(&self, local: u32) -> NormParams {
        let at = self.rows.steps(local) * PARTIAL_ELEMENTS as u32;
        let [mean, rstd] = self.statistics.load_vec::<PARTIAL_ELEMENTS>(at);
        let channel = self.channels.channel(local) as usize;
        NormParams {
            mean,
            factor: match self.weight {
                Some(weight) => rstd * weight.load_readonly(channel).to_f32(),
                None => rstd,
            },
            bias: match self.bias {
                Some(bias) => bias.load_readonly(channel).to_f32(),
                None => 0.0,
            },
        }
    }

    #[inline(always)]
    unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        // A row is whole planes, so what lies in one plane lies in one row.
        self.channels.in_one(local, count)
    }

    #[inline(always)]
    fn apply(&self, params: NormParams, x: f32) -> f32 {
        math::fma(x - params.mean, params.factor, params.bias)
    }
}

//! Depthwise convolutions (one channel per group), with optional moments for a norm and optional pooling.
//!
//! A warp computes *items*: several rows by one column per lane. A block computes several items of one output
//! channel of one sample. `kernels_gpu::fused::depthwise` describes the kernel.

pub mod nhwc;
pub mod rolling;

use super::conv::ConvGeometry;
use super::norm::COUNTED_ELEMENTS;
use super::{LaunchShape, Refusal, WARP_THREADS};
use op_spec::Quantity;

/// The maximum number of warps of a block.
pub const MAX_WARPS: u32 = 8;

/// The maximum number of threads of a block.
pub const MAX_BLOCK_THREADS: u32 = MAX_WARPS * WARP_THREADS;

/// Minimum resident blocks of [`MAX_BLOCK_THREADS`] threads per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 3;

/// The maximum number of rows of an item. Each row has an accumulator in a register.
pub const ITEM_ROWS: u32 = 8;

/// Items of a block.
pub const BLOCK_ITEMS: u32 = 4 * MAX_WARPS;

/// Rows of shared memory behind the rows of the taps: bias, gain and shift.
pub const PARAMETER_ROWS: u32 = 3;

/// The maximum number of taps of a filter.
const MAX_TAPS: u32 = 1024;

/// The kernel's by-value argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthwiseGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// Rows of an item; a multiple of the window's rows with pooling.
    pub item_rows: u32,
    /// Columns of an item; a multiple of the window's columns with pooling.
    pub item_columns: u32,
    /// Items along a row of the output.
    pub items_w: u32,
    /// Items along the rows of an output slice.
    pub items_h: u32,
    /// Blocks of one output channel of one sample.
    pub plane_blocks: u32,
    /// Rows of a pooling window; 0 without pooling.
    pub pool_h: u32,
    /// Columns of a pooling window.
    pub pool_w: u32,
    /// Rows of the pooled output.
    pub pooled_h: u32,
    /// Columns of the pooled output.
    pub pooled_w: u32,
}

impl DepthwiseGeometry {
    /// Checks that the convolution is depthwise with one filter per channel, as the kernel requires.
    ///
    /// # Errors
    /// Any other convolution.
    pub fn check(conv: &ConvGeometry) -> Result<(), Refusal> {
        let number = Quantity::scalar;
        Refusal::unless_is(number("channels of a group"), conv.group_c as usize, 1)?;
        Refusal::unless_is(number("filters of a group"), conv.group_k as usize, 1)?;
        Refusal::unless_at_most(number("taps"), conv.taps() as usize, MAX_TAPS as usize)
    }

    /// Returns the geometry of a convolution. `pool` has the rows and columns of non-overlapping windows; the
    /// kernel then stores only the maximum (or minimum) of each whole window. The geometry of a sample
    /// depends on its shape alone.
    ///
    /// # Errors
    /// A convolution that is not depthwise or without output; windows larger than an item; more blocks than a
    /// grid has.
    pub fn new(conv: &ConvGeometry, pool: Option<[u32; 2]>) -> Result<Self, Refusal> {
        let [pool_h, pool_w] = pool.unwrap_or([0, 0]);
        let [window_h, window_w] = pool.unwrap_or([1, 1]);
        Self::check(conv)?;
        if conv.n == 0 || conv.output_pixels() == 0 {
            return Err(Refusal::Needs("an output with elements"));
        }
        let window = |axis| Quantity::entry("pool kernel_size", axis);
        Refusal::unless_at_most(window(0), window_h as usize, ITEM_ROWS as usize)?;
        Refusal::unless_at_most(window(1), window_w as usize, WARP_THREADS as usize)?;
        let item_rows = ITEM_ROWS - ITEM_ROWS % window_h;
        // All items have about the same number of columns.
        let most = WARP_THREADS - WARP_THREADS % window_w;
        let items_w = conv.q.div_ceil(most);
        let item_columns = conv.q.div_ceil(items_w).next_multiple_of(window_w);
        let items_h = conv.p.div_ceil(item_rows);
        let items = conv.z.checked_mul(items_h);
        let items = items.and_then(|items| items.checked_mul(items_w));
        let geometry = Self {
            conv: *conv,
            item_rows,
            item_columns,
            items_w,
            items_h,
            plane_blocks: items
                .ok_or(Refusal::Needs("items counted in 32 bits"))?
                .div_ceil(BLOCK_ITEMS),
            pool_h,
            pool_w,
            pooled_h: conv.p.checked_div(pool_h).unwrap_or(0),
            pooled_w: conv.q.checked_div(pool_w).unwrap_or(0),
        };
        match geometry.shape() {
            Some(_) => Ok(geometry),
            None => Err(Refusal::Needs("a grid of no more than 2^31 - 1 blocks")),
        }
    }

    /// Items of one output channel of one sample.
    #[must_use]
    pub const fn items(&self) -> u32 {
        self.conv.z * self.items_h * self.items_w
    }

    /// Number of f32 elements of the moments, `[n][k][block]`.
    #[must_use]
    pub fn moment_elements(&self) -> u64 {
        let planes = self.conv.n * u64::from(self.conv.output_channels());
        planes * u64::from(self.plane_blocks) * COUNTED_ELEMENTS as u64
    }

    /// The kernel's launch; `None` if it exceeds a grid. A block has no more warps than a plane has items.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let planes = self
            .conv
            .n
            .checked_mul(self.conv.output_channels().into())?;
        let blocks = planes.checked_mul(self.plane_blocks.into())?;
        let threads = WARP_THREADS * self.items().min(MAX_WARPS);
        Some(LaunchShape::linear(blocks, threads)?.with_shared(4 * self.conv.taps()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelGeometry;
    use op_spec::ConvSpec;

    fn geometry(x: [usize; 5], w: [usize; 5], spec: ConvSpec<3>) -> ConvGeometry {
        let problem = spec.problem(&x, &w, None).expect("a sound problem");
        problem.geometry().expect("a small problem")
    }

    fn depthwise(groups: usize) -> ConvSpec<3> {
        ConvSpec::default().padding([0, 1, 1]).groups(groups)
    }

    #[test]
    fn items_cover_the_output_in_whole_windows() {
        for (x, w, pool) in [
            ([32, 32, 1, 128, 128], [32, 1, 1, 3, 3], Some([2, 2])),
            ([8, 32, 16, 28, 28], [32, 1, 3, 3, 3], None),
            ([1, 1, 1, 5, 9000], [1, 1, 1, 3, 3], Some([3, 7])),
            ([1, 1, 1, 33, 1], [1, 1, 1, 3, 3], Some([8, 1])),
        ] {
            let conv = geometry(x, w, depthwise(x[1]));
            let g = DepthwiseGeometry::new(&conv, pool).expect("a geometry");
            assert!(g.item_rows <= ITEM_ROWS && g.item_columns <= WARP_THREADS);
            assert!(g.items_h * g.item_rows >= conv.p && g.items_w * g.item_columns >= conv.q);
            assert!(g.plane_blocks * BLOCK_ITEMS >= g.items());
            let [h, w] = pool.unwrap_or([1, 1]);
            assert_eq!((g.item_rows % h, g.item_columns % w), (0, 0));
            assert!(g.shape().is_some());
        }
    }

    #[test]
    fn other_convolutions_and_larger_windows_are_refused() {
        let dense = geometry([1, 2, 1, 9, 9], [2, 2, 1, 3, 3], depthwise(1));
        assert!(DepthwiseGeometry::new(&dense, None).is_err());
        let plain = geometry([1, 2, 1, 40, 40], [2, 1, 1, 3, 3], depthwise(2));
        assert!(DepthwiseGeometry::new(&plain, None).is_ok());
        assert!(DepthwiseGeometry::new(&plain, Some([9, 1])).is_err());
        assert!(DepthwiseGeometry::new(&plain, Some([1, 33])).is_err());
    }
}

//! Split-K over the blocks of a cluster: the number of blocks, their K blocks, and the launches.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{GemmConfig, GemmDevice, OperandFormat, WARP_SPECIALIZED};
use op_spec::Conv3dSpec;

use crate::HOPPER;

/// Returns a 3x3 convolution of an image, or a 3x3x3 one of a volume, of `c` channels to `k`. Padding
/// preserves the extents up to the stride.
fn conv(n: usize, [c, k]: [usize; 2], extents: [usize; 3], stride: usize) -> ConvGeometry {
    let depth = if extents[0] == 1 { 1 } else { 3 };
    let spec = Conv3dSpec::default()
        .stride([1.max(stride * (depth / 3)), stride, stride])
        .padding([depth / 2, 1, 1]);
    let [d, h, w] = extents;
    crate::conv([n, c, d, h, w], [k, c, depth, 3, 3], spec)
}

fn chosen(conv: &ConvGeometry, batch: Option<u64>) -> GemmConfig {
    let format = OperandFormat::STORED;
    GemmConfig::new(conv, None, format, &HOPPER, batch).expect("a config")
}

#[test]
fn few_pixels_with_long_sums_are_split_in_any_batch() {
    for ([c, k], extents, stride, split_k) in [
        ([320, 320], [8, 8, 8], 1, 4),
        ([256, 256], [1, 13, 19], 1, 2),
        ([512, 512], [1, 14, 14], 1, 2),
        ([256, 256], [1, 14, 14], 1, 2),
        ([256, 256], [1, 25, 38], 1, 2),
        ([256, 256], [1, 28, 28], 1, 1),
        ([128, 128], [32, 32, 32], 1, 1),
        ([512, 512], [1, 64, 64], 1, 1),
        ([256, 256], [1, 100, 152], 1, 1),
        ([512, 512], [1, 128, 128], 1, 1),
        ([16, 16], [1, 8, 8], 1, 1),
    ] {
        for n in [1, 2, 8, 100] {
            let config = chosen(&conv(n, [c, k], extents, stride), None);
            assert_eq!(config.split_k, split_k, "{n} x {c} of {extents:?}");
        }
    }
}

/// If the batch size may decide, a single sample is split into more parts than a sample of a large batch.
#[test]
fn batches_that_may_decide_split_sums_for_themselves() {
    let split_k = |n: usize| {
        let conv = conv(n, [256, 256], [1, 13, 19], 1);
        let config = chosen(&conv, Some(n as u64));
        assert_eq!(config.tile, WARP_SPECIALIZED);
        config.split_k
    };
    assert_eq!([1, 8, 100].map(split_k), [4, 2, 1]);
}

#[test]
fn blocks_share_all_k_blocks_in_order() {
    let conv = conv(1, [320, 320], [8, 8, 8], 1);
    let mut geometry = chosen(&conv, None).geometry;
    for k_blocks in 0..50 {
        geometry.k_blocks = k_blocks;
        for split_k in [1, 2, 4] {
            let mut next = 0;
            for rank in 0..split_k {
                let [first, end] = geometry.warp_specialized_k_blocks(rank, split_k);
                assert_eq!(first, next);
                assert!(end - first <= k_blocks.div_ceil(split_k));
                next = end;
            }
            assert_eq!(next, k_blocks);
        }
    }
}

#[test]
fn launches_are_of_whole_clusters() {
    for format in [
        OperandFormat::F16X2,
        OperandFormat::SCALED_F16,
        OperandFormat::STORED,
    ] {
        for n in [1, 2, 8, 100] {
            let conv = conv(n, [320, 320], [8, 8, 8], 1);
            let config = GemmConfig::with_tile(&conv, None, format, &HOPPER, WARP_SPECIALIZED);
            let config = config.expect("a wide tile");
            assert_eq!(config.split_k, 1);
            for split_k in [1, 2, 4] {
                let config = config.split_by(split_k, &HOPPER).expect("stages enough");
                let mainloop = config.mainloop_config(&HOPPER).expect("room");
                assert_eq!(mainloop.split_k, split_k);
                let shape = config.shape(&HOPPER).expect("a launch");
                assert_eq!(shape.cluster_blocks, split_k);
                let [blocks, ..] = shape.grid;
                let sets = config.geometry.warp_specialized_sets(mainloop.tiles);
                assert!(blocks.is_multiple_of(sets * split_k), "{config:?}");
                assert!(blocks <= HOPPER.multiprocessors, "{config:?}");
            }
            for split_k in [0, 3, 8, 1 << 31, u32::MAX] {
                assert_eq!(config.split_by(split_k, &HOPPER), None);
            }
            let small = GemmDevice {
                multiprocessors: 3,
                ..HOPPER
            };
            assert_eq!(config.split_by(4, &small), None);
        }
    }
    // Other tiles and short sums are not split.
    let conv = conv(1, [64, 64], [1, 8, 8], 1);
    for tile in launch_config::implicit_gemm::TILES {
        let config = GemmConfig::with_tile(&conv, None, OperandFormat::STORED, &HOPPER, tile);
        let split = config.and_then(|config| config.split_by(4, &HOPPER));
        assert_eq!(split, None, "{tile:?}");
    }
}

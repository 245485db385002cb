//! Configs of the implicit GEMM: the choice of tiles, and their coverage of the problem.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, M16N64, M16N256, M32N128, M64N32, M64N128, MMA_BATCH_STEPS,
    MMA_STEP_K_VECTORS, Mainloop, OperandFormat, PROMOTION_MMA_STEPS, W64N128, WARP_SPECIALIZED,
    combining,
};
use op_spec::Conv3dSpec;

use crate::{AMPERE as DEVICE, HOPPER, conv};

const F16X2: OperandFormat = OperandFormat::F16X2;
const SCALED_F16: OperandFormat = OperandFormat::SCALED_F16;
const STORED: OperandFormat = OperandFormat::STORED;

/// Problems of all kinds, each with its pool.
fn problems() -> Vec<(ConvGeometry, Option<[u32; 2]>)> {
    let plain = Conv3dSpec::default();
    let strided = |stride, padding: [usize; 3], dilation| {
        plain.stride(stride).padding(padding).dilation(dilation)
    };
    let stem = strided([1, 2, 2], [0, 3, 3], [1, 1, 1]);
    let gaps = strided([2, 3, 4], [1, 0, 2], [1, 2, 3]);
    let sparse = strided([5, 7, 9], [0, 0, 0], [1, 1, 1]);
    [
        ([64, 32, 1, 128, 128], [64, 32, 1, 3, 3], plain, [4, 4]),
        ([64, 8, 1, 96, 160], [64, 8, 1, 3, 3], plain, [4, 4]),
        ([32, 3, 1, 512, 512], [32, 3, 1, 3, 3], plain, [0, 0]),
        ([256, 1, 1, 28, 28], [32, 1, 1, 5, 5], plain, [2, 2]),
        ([128, 3, 16, 32, 32], [16, 3, 3, 3, 3], plain, [0, 0]),
        ([8, 1, 64, 64, 64], [16, 1, 3, 3, 3], plain, [0, 0]),
        ([2, 128, 8, 32, 32], [256, 128, 3, 3, 3], plain, [0, 0]),
        ([1, 256, 1, 15, 15], [256, 256, 1, 3, 3], plain, [3, 3]),
        ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1], plain, [1, 1]),
        ([3, 5, 1, 9, 31], [7, 5, 1, 1, 7], plain, [2, 5]),
        ([64, 3, 1, 224, 224], [64, 3, 1, 7, 7], stem, [0, 0]),
        ([2, 6, 9, 20, 40], [20, 6, 2, 3, 4], gaps, [0, 0]),
        ([2, 2, 11, 15, 19], [4, 2, 2, 2, 2], sparse, [0, 0]),
    ]
    .map(|(input, weight, spec, pool)| {
        (conv(input, weight, spec), (pool != [0, 0]).then_some(pool))
    })
    .to_vec()
}

fn configs() -> Vec<GemmConfig> {
    let mut all = Vec::new();
    for (conv, pool) in problems() {
        for format in [F16X2, SCALED_F16, STORED] {
            for device in [&DEVICE, &HOPPER] {
                let config = GemmConfig::new(&conv, pool, format, device, None);
                all.push(
                    config
                        .ok()
                        .unwrap_or_else(|| panic!("no config for {conv:?}")),
                );
            }
        }
    }
    all
}

#[test]
fn tiles_cover_every_output_once_and_no_more_shared_memory_than_there_is() {
    for config in configs() {
        let g = &config.geometry;
        let conv = &g.conv;
        for (tiles, tile, extent) in [
            (g.tiles_d, g.tile_d, conv.z),
            (g.tiles_h, g.tile_h, conv.p),
            (g.tiles_w, g.tile_w, conv.q),
        ] {
            assert!(tiles * tile >= extent, "{config:?}");
            assert!((tiles - 1) * tile < extent, "{config:?}");
        }
        assert!(g.tile_pixels() <= config.tile.pixels(), "{config:?}");
        assert!(g.filter_tiles * config.tile.filters() >= conv.group_k);
        assert!(g.k_blocks * g.k_block_planes >= g.planes);
        assert!(g.planes * g.k_vector_channels >= conv.group_c);
        assert!(g.mma_steps * MMA_STEP_K_VECTORS >= g.k_block_k_vectors());
        assert!(config.shared_bytes(&DEVICE) <= DEVICE.shared_bytes);
        assert!(config.shape(&DEVICE).is_some());
    }
}

#[test]
fn halos_hold_every_tap_of_every_pixel_and_reformatted_inputs_every_halo() {
    for config in configs() {
        let g = &config.geometry;
        let conv = &g.conv;
        let last = |tile: u32, stride: u32, taps: u32, dilation: u32| {
            (tile - 1) * stride + (taps - 1) * dilation
        };
        let d = last(g.tile_d, conv.stride_d, conv.t, conv.dilation_d);
        let h = last(g.tile_h, conv.stride_h, conv.r, conv.dilation_h);
        assert!(d < g.halo_d && h < g.halo_h, "{config:?}");
        for tap in 0..g.column_taps {
            let w = tap * g.k_vector_columns * conv.dilation_w;
            assert!(w % conv.stride_w < g.stride_phases, "{config:?}");
            let columns = g.tile_w / g.strips.max(1);
            assert!(columns - 1 + w / conv.stride_w < g.halo_columns);
        }
        let last_d = (g.tiles_d - 1) * g.tile_d * conv.stride_d + g.halo_d;
        let last_h = (g.tiles_h - 1) * g.tile_h * conv.stride_h + g.halo_h;
        assert!(last_d <= g.reformatted_d, "{config:?}");
        assert!(last_h <= g.reformatted_h, "{config:?}");
        // Strips are eight columns apart.
        let last_strip = g.strips.saturating_sub(1) * 8;
        let last_column = (g.tiles_w - 1) * g.tile_w + last_strip + g.halo_columns;
        assert!(last_column <= g.stride_phase_columns, "{config:?}");
    }
}

#[test]
fn eight_pixels_of_a_warpgroup_are_neighbours_in_the_halo_and_equally_far_from_the_next() {
    for tile in [W64N128, WARP_SPECIALIZED] {
        let mut layouts = [0; 2];
        for (conv, pool) in problems() {
            let pool = if tile == WARP_SPECIALIZED { None } else { pool };
            for format in [F16X2, SCALED_F16, OperandFormat::BF16X3] {
                let config = GemmConfig::with_tile(&conv, pool, format, &HOPPER, tile);
                if let Some(config) = config {
                    layouts[usize::from(config.geometry.octet_k_vectors == 8)] += 1;
                    octets_are_equally_far(&config);
                }
            }
        }
        assert!(layouts.iter().all(|&count| count > 0), "{layouts:?}");
    }
}

fn octets_are_equally_far(config: &GemmConfig) {
    let (g, pixels) = (&config.geometry, config.tile.pixels());
    let conv = &g.conv;
    assert!(g.mma_steps.is_multiple_of(MMA_BATCH_STEPS));
    assert!(g.mma_steps >= config.format.passes * g.paired_mma_steps());
    // The column of each tap in the halo tile; a step's second K-vector is `pair_k_vectors` behind its first.
    let column = |tap: u32| {
        let w = tap * g.k_vector_columns * conv.dilation_w;
        w % conv.stride_w * g.halo_columns + w / conv.stride_w
    };
    match g.pair_k_vectors {
        0 => assert!(g.k_block_planes.is_multiple_of(MMA_STEP_K_VECTORS)),
        k_vectors => {
            assert_eq!(g.planes, 1);
            let taps = 1..g.column_taps;
            taps.for_each(|tap| assert_eq!(column(tap) - column(tap - 1), k_vectors, "{config:?}"));
            // Each column belongs to a pair, and pairs have no other columns.
            let pairs = (0..g.row_pairs()).map(|pair| g.first_of_pair(pair));
            let mut of_pairs: Vec<u32> = pairs.flat_map(|first| [first, first + 1]).collect();
            of_pairs.sort_unstable();
            of_pairs.dedup();
            assert!(of_pairs.into_iter().eq(0..g.column_taps), "{config:?}");
        }
    }
    let filter_slices = g.filter_slices;
    assert_eq!(filter_slices * g.depth_k_blocks, conv.t);
    assert_eq!(g.taps, filter_slices * conv.r * g.column_taps);
    let first_k_vector = |pixel: u32| pixel / 8 * g.octet_k_vectors + pixel % 8;
    // The first K-vector of a pixel's window, and the distance of a filter row from it.
    let window = |[d, h, w]: [u32; 3]| match g.strips {
        0 => (d * conv.stride_d * g.halo_h + h * conv.stride_h) * g.halo_row() + w,
        strips => ((h * g.tile_d + d) * strips + w / 8) * g.halo_row() + w % 8,
    };
    let filter_row = |[t, r]: [u32; 2]| match g.strips {
        0 => (t * conv.dilation_d * g.halo_h + r * conv.dilation_h) * g.halo_row(),
        strips => {
            let row = r * conv.dilation_h;
            let (row, stride_phase) = (row / conv.stride_h, row % conv.stride_h);
            assert!(stride_phase < g.row_stride_phases && g.tile_h + row <= g.stride_phase_rows);
            let row = (t * g.row_stride_phases + stride_phase) * g.stride_phase_rows + row;
            row * g.tile_d * strips * g.halo_row()
        }
    };
    for d in 0..g.tile_d {
        for h in 0..g.tile_h {
            for w in 0..g.tile_w {
                let pixel = d * g.slice_pitch + h * g.tile_pitch + w;
                assert!(pixel < pixels, "{config:?}");
                assert_eq!(first_k_vector(pixel), window([d, h, w]), "{config:?}");
            }
        }
    }
    // The last tap of the last pixel, used or not.
    let rows = (0..filter_slices).flat_map(|t| (0..conv.r).map(move |r| [t, r]));
    let columns = (0..g.column_taps).map(column).max().unwrap_or(0);
    let farthest = rows.map(filter_row).max().unwrap_or(0) + columns;
    let reached = first_k_vector(pixels - 1) + farthest;
    assert!(reached < g.halo_k_vectors, "{config:?}");
}

#[test]
fn warpgroups_are_for_many_channels() {
    let mainloops = |c: usize, r: usize, device| {
        let conv = conv([8, c, 1, 56, 56], [64, c, 1, r, r], Conv3dSpec::default());
        let of = |pool| {
            let config = GemmConfig::new(&conv, pool, SCALED_F16, device, None).ok();
            config.expect("a config").tile.mainloop
        };
        // Warp-specialized tiles do not pool.
        [of(None), of(Some([2, 2]))]
    };
    assert_eq!(
        mainloops(64, 3, &HOPPER),
        [Mainloop::Sm90WarpSpecialized, Mainloop::Sm90CpAsync]
    );
    assert_eq!(mainloops(64, 3, &DEVICE), [Mainloop::Sm80CpAsync; 2]);
    assert_eq!(mainloops(8, 3, &HOPPER), [Mainloop::Sm80CpAsync; 2]);
    assert_eq!(mainloops(16, 1, &HOPPER), [Mainloop::Sm80CpAsync; 2]);
    // Many taps of one plane also use warpgroups if their columns fill pairs.
    assert!(mainloops(3, 7, &HOPPER)[0].is_warpgroup_mma());
    // With a norm, warp-specialized tiles need more than one MMA batch of single-part values.
    let cube = |format| {
        let shape = conv(
            [32, 8, 15, 15, 15],
            [128, 8, 3, 3, 3],
            Conv3dSpec::default(),
        );
        let config = GemmConfig::new(&shape, None, format, &HOPPER, None);
        config.expect("a config").tile.mainloop
    };
    assert_eq!(cube(STORED), Mainloop::Sm90WarpSpecialized);
    assert_eq!(cube(F16X2), Mainloop::Sm80CpAsync);
}

#[test]
fn long_sums_of_split_values_have_tiles_that_promote_accumulators() {
    for config in configs() {
        let mma_steps = config.geometry.k_blocks * config.geometry.mma_steps;
        if config.format == F16X2 && mma_steps > PROMOTION_MMA_STEPS {
            // Warpgroup MMA starts new accumulation chains.
            let kept_short = config.tile.mainloop.is_warpgroup_mma() || config.tile.promotes();
            assert!(kept_short, "{config:?}");
        }
    }
}

#[test]
fn pooled_tiles_are_whole_windows() {
    for config in configs() {
        let g = &config.geometry;
        if g.pool_h > 0 {
            assert_eq!(g.windows_h * g.pool_h, g.tile_h, "{config:?}");
            assert_eq!(g.windows_w * g.pool_w, g.tile_w, "{config:?}");
            assert!(g.windows() > 0);
        }
    }
}

/// Returns a 3x3 convolution of `n` square images, with 8 input channels, or with `k` channels if `k > 64`.
fn square(n: usize, k: usize, extent: usize) -> ConvGeometry {
    let c = if k > 64 { k } else { 8 };
    let (input, weight) = ([n, c, 1, extent, extent], [k, c, 1, 3, 3]);
    conv(input, weight, Conv3dSpec::default())
}

#[test]
fn tiles_follow_the_number_of_filters_and_of_pixels() {
    let tile = |k, extent| {
        let conv = square(3, k, extent);
        let config = GemmConfig::new(&conv, None, SCALED_F16, &DEVICE, None).ok();
        config.expect("a config").tile
    };
    assert_eq!(tile(64, 128), M64N128);
    assert_eq!(tile(256, 128), M64N128);
    assert_eq!(tile(32, 128), M32N128);
    assert_eq!(tile(16, 128), M16N256);
    assert_eq!(tile(3, 128), M16N256);
    assert_eq!(tile(16, 32), M16N64);
    assert_eq!(tile(256, 15), M64N32);
    // Tiles of half the size, because larger tiles would leave most of the device idle in the last round.
    assert_eq!(tile(64, 50), M32N128);
}

#[test]
fn the_batch_matters_only_where_it_is_given() {
    let config = |n, batch| {
        let conv = square(n, 64, 30);
        GemmConfig::new(&conv, None, F16X2, &DEVICE, batch).expect("a config")
    };
    let same = |a: GemmConfig, b: GemmConfig| {
        let of = |config: GemmConfig| {
            let mut geometry = config.geometry;
            geometry.conv.n = 0;
            (config.tile, geometry)
        };
        of(a) == of(b)
    };
    for n in [2, 8, 256] {
        assert!(same(config(1, None), config(n, None)));
    }
    assert!(!same(config(1, Some(1)), config(256, Some(256))));
}

#[test]
fn tensor_cores_are_for_many_products() {
    let grouped = |c: usize, k: usize, r: usize, groups: usize, stride: usize| {
        let spec = Conv3dSpec::default()
            .stride([1, stride, stride])
            .groups(groups);
        let conv = conv([4, c, 1, 64, 64], [k, c / groups, 1, r, r], spec);
        GemmConfig::pays(&conv)
    };
    // channels, filters, extent, groups, stride
    for (c, k, r, groups, stride, expected) in [
        (8, 64, 3, 1, 1, true),
        (32, 64, 3, 4, 1, true),
        (16, 16, 1, 1, 1, true),
        (64, 128, 3, 1, 2, true),
        (32, 32, 3, 32, 1, false),
        (16, 1, 3, 1, 1, false),
        (1, 8, 3, 1, 1, false),
        (4, 16, 3, 1, 4, false),
    ] {
        let what = format!("{c} to {k}, {r}x{r}, {groups} groups, stride {stride}");
        assert_eq!(grouped(c, k, r, groups, stride), expected, "{what}");
    }
}

#[test]
fn what_shared_memory_cannot_hold_has_no_plan() {
    let far = Conv3dSpec::default().dilation([1, 400, 400]);
    let config = |conv: &ConvGeometry, pool, shared_bytes| {
        let device = GemmDevice {
            shared_bytes,
            ..DEVICE
        };
        GemmConfig::new(conv, pool, F16X2, &device, None).ok()
    };
    let conv = conv([1, 4, 1, 1000, 1000], [4, 4, 1, 3, 3], far);
    assert_eq!(config(&conv, None, DEVICE.shared_bytes), None);
    let conv = square(1, 4, 100);
    assert!(config(&conv, None, DEVICE.shared_bytes).is_some());
    assert_eq!(config(&conv, None, 4096), None);
    // A window larger than any tile.
    assert_eq!(config(&conv, Some([40, 40]), DEVICE.shared_bytes), None);
}

#[test]
fn many_moments_are_combined_in_two_steps() {
    for config in configs() {
        let tiles = config.geometry.pixel_tiles();
        for channels in [1u32, 4, 64] {
            let mut left = u64::from(tiles) * u64::from(channels);
            for launch in combining(left, 1).into_iter().flatten() {
                assert_eq!(launch.count, left);
                left = launch.chunks.into();
                let blocks = launch.shape(3).map(|shape| u64::from(shape.grid[0]));
                assert_eq!(blocks, Some(3 * left));
            }
            assert_eq!(left, 1);
        }
    }
    let mma_steps = |count| combining(count, 8).map(|step| step.map(|s| s.chunks));
    assert_eq!(mma_steps(8), [None, None]);
    assert_eq!(mma_steps(9), [Some(1), None]);
    assert_eq!(mma_steps(2048), [Some(1), None]);
    assert_eq!(mma_steps(16_384), [Some(16), Some(1)]);
    assert_eq!(mma_steps(2049), [Some(3), Some(1)]);
}

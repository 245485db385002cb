//! The problems that use warp-specialized tiles, and the extents of these tiles.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{GemmConfig, GemmDevice, OperandFormat, WARP_SPECIALIZED};
use op_spec::{Conv3dSpec, ConvSpec};

use crate::warp_specialized_tiles::{FORMATS, conv, problems};
use crate::{AMPERE, HOPPER};

/// Returns the chosen config for a square image of `c` channels, with `c` filters.
fn chosen(c: usize, extent: usize, pool: Option<[u32; 2]>, device: &GemmDevice) -> GemmConfig {
    let plain = Conv3dSpec::default();
    let conv = conv([8, c, c], [1, extent, extent], [1, 3, 3], plain);
    GemmConfig::new(&conv, pool, OperandFormat::STORED, device, None).expect("a config")
}

#[test]
fn warp_specialized_tiles_are_for_many_channels_and_pixels() {
    let is_warp_specialized =
        |c, extent, pool, device| chosen(c, extent, pool, device).tile == WARP_SPECIALIZED;
    let pool = Some([2, 2]);
    for (c, extent, is_wide) in [
        (128, 128, true),
        (256, 64, true),
        (512, 128, true),
        (8, 128, false),
        (16, 64, false),
        (32, 8, false),
    ] {
        let of = |pool, device| is_warp_specialized(c, extent, pool, device);
        assert_eq!(of(None, &HOPPER), is_wide, "{c} channels");
        assert!(!of(None, &AMPERE) && !of(pool, &HOPPER), "{c} channels");
    }
    for (pool, device) in [(pool, HOPPER), (None, AMPERE)] {
        for (conv, format) in problems(2).iter().flat_map(|c| FORMATS.map(|f| (c, f))) {
            let config = GemmConfig::with_tile(conv, pool, format, &device, WARP_SPECIALIZED);
            assert_eq!(config, None);
        }
    }
}

/// Returns the chosen config for these channels and filters, input extents and stride. Filters have extent 3
/// along each axis longer than 1, and padding preserves the extents up to the stride.
fn padded(
    [c, k]: [usize; 2],
    extents: [usize; 3],
    stride: usize,
    format: OperandFormat,
) -> GemmConfig {
    let of = |inside: usize| extents.map(|extent| if extent > 1 { inside } else { 1 });
    let spec = ConvSpec::default()
        .stride(of(stride))
        .padding(extents.map(|extent| usize::from(extent > 1)));
    let conv = conv([2, c, k], extents, of(3), spec);
    GemmConfig::new(&conv, None, format, &HOPPER, None).expect("a config")
}

/// With the ping-pong schedule, two tiles take the time of one. Few MMA steps therefore pay for many pixels,
/// but not if a tile's only halo tile is large, or if a block has two or three tiles.
#[test]
fn warp_specialized_tiles_are_for_first_layers_of_many_pixels() {
    let of = |[c, k]: [usize; 2], input, filter: [usize; 3], stride: [usize; 3]| {
        let spec = ConvSpec::default()
            .stride(stride)
            .padding(filter.map(|extent| extent / 2));
        conv([1, c, k], input, filter, spec)
    };
    let is_warp_specialized = |conv: &ConvGeometry, format, batch| {
        let config = GemmConfig::new(conv, None, format, &HOPPER, batch).expect("a config");
        config.tile == WARP_SPECIALIZED
    };
    let [image, volume] = [[1, 224, 224], [48; 3]];
    let stem = of([3, 64], image, [1, 7, 7], [1, 2, 2]);
    let first = of([4, 64], volume, [3; 3], [1; 3]);
    let narrow = of([16, 192], [1, 112, 112], [1, 3, 3], [1; 3]);
    for format in [OperandFormat::SCALED_F16, OperandFormat::STORED] {
        for conv in [&stem, &first, &narrow] {
            assert!(is_warp_specialized(conv, format, None), "{conv:?}");
        }
        // One sample has fewer tiles than the device has multiprocessors.
        assert!(!is_warp_specialized(&stem, format, Some(1)));
    }
    // The last of a block's tiles takes its whole time, but no more.
    let last = of([24, 192], [1, 118, 118], [1, 7, 7], [1, 3, 3]);
    assert!(is_warp_specialized(&last, OperandFormat::STORED, None));
    // Tiles with a single halo tile of 55 KB, of which shared memory holds two; blocks have two or three
    // tiles.
    for k in [64, 96] {
        let strided = of([2, k], [24; 3], [5; 3], [2; 3]);
        let is_wide = is_warp_specialized(&strided, OperandFormat::STORED, None);
        assert!(!is_wide, "{k}");
    }
}

#[test]
fn volumes_and_planes_of_even_extents_fill_warp_specialized_tiles() {
    for (channels, extents, stride) in [
        ([32, 64], [128; 3], 2),
        ([64, 64], [64; 3], 1),
        ([64, 128], [64; 3], 2),
        ([128, 128], [32; 3], 1),
        ([128, 256], [32; 3], 2),
        ([256, 256], [16; 3], 1),
        ([256, 320], [16; 3], 2),
        ([320, 320], [8; 3], 1),
        ([512, 512], [1, 128, 128], 1),
        ([512, 512], [1, 16, 16], 1),
    ] {
        let config = padded(channels, extents, stride, OperandFormat::STORED);
        assert_eq!(config.tile, WARP_SPECIALIZED, "{channels:?}");
        let pixels = config.geometry.tile_pixels();
        assert_eq!(pixels, WARP_SPECIALIZED.pixels(), "{config:?}");
        // Two pipeline stages for halo tiles are the minimum. With three, one can arrive while another waits.
        // With split-K, the partial sums of other blocks may take the third one's room.
        let mainloop = config.mainloop_config(&HOPPER).expect("a wide tile");
        let halos = if mainloop.split_k == 1 { 3 } else { 2 };
        assert!(
            mainloop.halos >= halos && mainloop.filters >= 4,
            "{mainloop:?}"
        );
        let split = padded(channels, extents, stride, OperandFormat::F16X2);
        assert_eq!(split.tile, WARP_SPECIALIZED, "{channels:?}");
    }
}

#[test]
fn extents_of_warp_specialized_tiles_are_chosen_by_whole_rounds() {
    let config = padded([256, 256], [1, 100, 152], 1, OperandFormat::STORED);
    assert_eq!(config.tile, WARP_SPECIALIZED);
    assert!(config.geometry.pixel_tiles() <= 66, "{config:?}");
}

#[test]
fn results_of_16_bits_fill_sectors_where_rows_are_long_enough() {
    let extents = |channels, [d, w]: [usize; 2], stride, format| {
        let g = padded(channels, [d, w, w], stride, format).geometry;
        [g.tile_d, g.tile_h, g.tile_w]
    };
    for (channels, input, stride) in [
        ([128, 128], [1, 512], 1),
        ([512, 512], [1, 64], 1),
        ([128, 128], [32, 32], 1),
        ([32, 64], [128, 128], 2),
    ] {
        let stored = extents(channels, input, stride, OperandFormat::STORED);
        assert_eq!(stored, [1, 16, 16], "{channels:?}, {input:?}");
        // Eight neighbours of f32 suffice, and their halo tile is smaller.
        let rounded = extents(channels, input, stride, OperandFormat::SCALED_F16);
        assert_eq!(rounded, [1, 32, 8], "{channels:?}, {input:?}");
    }
    // With rows of 24, no tile has 16 neighbours throughout.
    let short = extents([256, 256], [1, 24], 1, OperandFormat::STORED);
    let rounded = extents([256, 256], [1, 24], 1, OperandFormat::SCALED_F16);
    assert_eq!(short, rounded);
}

#[test]
fn whether_tiles_are_warp_specialized_does_not_depend_on_the_batch() {
    for format in FORMATS {
        let chosen = |n| -> Vec<_> {
            let tile = |conv: &ConvGeometry| {
                let config = GemmConfig::new(conv, None, format, &HOPPER, None).ok()?;
                Some((config.tile, config.moment_parts()))
            };
            problems(n).iter().map(tile).collect()
        };
        let without_norm = chosen(1);
        assert!(
            without_norm
                .iter()
                .flatten()
                .any(|(tile, _)| *tile == WARP_SPECIALIZED)
        );
        for n in [2, 8, 31, 1000] {
            assert_eq!(chosen(n), without_norm);
        }
    }
}

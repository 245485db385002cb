//! Configs of wide tiles: where all lies in shared memory, and what depends on the number of a block's tiles.

use op_spec::launch::conv::ConvGeometry;
use op_spec::launch::implicit_gemm::wide::{
    BLOCK_THREADS, HALVES, PATCH_WARPS, WARPS, WRITTEN_WORDS, WideRings, chain_bytes, filter_word,
};
use op_spec::launch::implicit_gemm::{
    CHAIN_STEPS, GemmConfig, GemmDevice, OperandFormat, STEP_CELLS, W64N128, WIDE,
};
use op_spec::{Conv3dSpec, ConvSpec};

pub(crate) const HOPPER: GemmDevice = GemmDevice {
    multiprocessors: 132,
    shared_bytes: 227 * 1024,
    warpgroups: true,
};

pub(crate) const FORMATS: [OperandFormat; 4] = [
    OperandFormat::PARTS,
    OperandFormat::SPLIT,
    OperandFormat::ROUNDED,
    OperandFormat::STORED,
];

/// Samples, channels, filters; extents of input and filter.
pub(crate) fn conv(
    [n, c, k]: [usize; 3],
    [d, h, w]: [usize; 3],
    [t, r, s]: [usize; 3],
    spec: Conv3dSpec,
) -> ConvGeometry {
    let (input, weight) = ([n, c, d, h, w], [k, c / spec.groups, t, r, s]);
    let problem = spec.problem(&input, &weight, None);
    problem
        .expect("the tests' problems are sound")
        .geometry()
        .expect("the tests' problems are small")
}

/// Problems of all kinds, for `n` samples.
pub(crate) fn problems(n: usize) -> Vec<ConvGeometry> {
    let plain = Conv3dSpec::default();
    let spec = |stride, dilation, groups| ConvSpec {
        stride,
        padding: [0; 3].into(),
        dilation,
        groups,
        ..ConvSpec::default()
    };
    vec![
        conv([n, 256, 256], [1, 64, 64], [1, 3, 3], plain),
        conv([n, 128, 320], [8, 32, 32], [3, 3, 3], plain),
        conv([n, 512, 512], [1, 128, 128], [1, 3, 3], plain),
        conv([n, 64, 64], [1, 56, 56], [1, 1, 1], plain),
        conv([n, 20, 140], [1, 9, 18], [1, 3, 3], plain),
        conv([n, 3, 16], [1, 224, 224], [1, 7, 7], plain),
        conv([n, 1, 1], [1, 1, 1], [1, 1, 1], plain),
        conv(
            [n, 96, 192],
            [1, 40, 40],
            [1, 3, 3],
            spec([1, 2, 2], [1; 3], 3),
        ),
        conv(
            [n, 96, 9],
            [1, 60, 40],
            [1, 2, 2],
            spec([1; 3], [1, 40, 20], 1),
        ),
        conv(
            [n, 8, 70],
            [9, 20, 40],
            [2, 3, 4],
            spec([2, 3, 4], [1, 2, 3], 1),
        ),
    ]
}

fn wide(conv: &ConvGeometry, format: OperandFormat, device: &GemmDevice) -> Option<GemmConfig> {
    GemmConfig::with_tile(conv, None, format, device, WIDE)
}

/// Devices of different sizes and shared memories.
fn devices() -> impl Iterator<Item = GemmDevice> {
    let sizes = [1, 2, 3, 16, 78, 132, 148, 1000];
    let memories = [100 * 1024, 163 * 1024, 227 * 1024];
    sizes.into_iter().flat_map(move |multiprocessors| {
        memories.map(|shared_bytes| GemmDevice {
            multiprocessors,
            shared_bytes,
            warpgroups: true,
        })
    })
}

/// That parts of shared memory for these rings are aligned, follow one another without overlapping, and end where they must.
fn lies_apart(config: &GemmConfig, rings: WideRings, shared_bytes: u32) {
    let (g, parts) = (&config.geometry, config.format.parts);
    let at = g.wide_layout(config.format, rings);
    let filters = WIDE.filters();
    let all = [
        ("offsets", at.offsets, 4 * g.offsets, 4),
        ("pixels", at.pixels, 4 * WIDE.pixels(), 8),
        ("positions", at.positions, 4 * WIDE.pixels(), 4),
        ("sources", at.sources, 4 * g.patch_cells, 4),
        ("channels", at.channels, 16 * rings.tiles * filters, 16),
        ("barriers", at.barriers, 8 * rings.barriers(), 8),
        ("results", at.results, 4 * WARPS * WRITTEN_WORDS, 128),
        ("exchange", at.exchange, 4 * rings.exchanged(), 128),
        (
            "filters",
            at.filters,
            rings.filters * rings.tiles * chain_bytes(config.format.step_parts()),
            128,
        ),
        (
            "patches",
            at.patches,
            rings.patches * g.stage_bytes(parts),
            128,
        ),
    ];
    let mut end = 0;
    for (name, start, bytes, alignment) in all {
        assert!(start >= end, "{name} of {rings:?}, {config:?}");
        assert!(start.is_multiple_of(alignment), "{name}, {config:?}");
        end = start + bytes;
    }
    assert_eq!(at.end, end, "{rings:?}, {config:?}");
    assert!(at.end <= shared_bytes, "{rings:?}, {config:?}");
}

#[test]
fn shared_memory_holds_all_parts_side_by_side_and_two_slots_of_each_ring() {
    let (mut fewest, mut stay) = ([u32::MAX; 2], [false; 2]);
    for conv in problems(3) {
        for (config, device) in FORMATS
            .into_iter()
            .flat_map(|f| devices().map(move |d| (f, d)))
            .flat_map(|(format, device)| {
                let one = wide(&conv, format, &device);
                let two = GemmConfig::with_two_outputs(&conv, format, &device);
                one.into_iter()
                    .chain(two)
                    .map(move |config| (config, device))
            })
        {
            let format = config.format;
            let g = &config.geometry;
            for blocks in [[1, 1], [2, 1], [1, 2], [2, 2], [1, 4], [2, 4]] {
                if let Some(rings) = g.wide_rings(format, blocks, device.shared_bytes) {
                    assert_eq!([rings.tiles, rings.splits], blocks);
                    let chains = (g.stages * g.steps).div_ceil(CHAIN_STEPS);
                    if rings.stay == 1 {
                        assert_eq!((rings.filters, rings.splits), (chains, 1));
                        assert!(rings.patches >= PATCH_WARPS, "{rings:?}");
                    } else {
                        assert!(rings.patches >= 2 && rings.filters >= 2, "{rings:?}");
                    }
                    stay[rings.stay as usize] = true;
                    assert!(rings.patches <= PATCH_WARPS + 1, "{rings:?}");
                    lies_apart(&config, rings, device.shared_bytes);
                    fewest[0] = fewest[0].min(rings.patches);
                    fewest[1] = fewest[1].min(rings.filters);
                }
            }
            let rings = config.wide_rings(&device).expect("a config has rings");
            let layout = g.wide_layout(format, rings);
            assert_eq!(config.shared_bytes(&device), layout.end);
        }
    }
    // The rows have some for which memory is short, and some whose filters stay.
    assert_eq!(fewest[0], 2);
    assert_eq!(stay, [true; 2]);
}

#[test]
fn no_further_slot_fits_shared_memory() {
    const MOST_FILTERS: u32 = 8;
    let mut full = 0;
    for (conv, format) in problems(1).iter().flat_map(|c| FORMATS.map(|f| (c, f))) {
        let Some(config) = wide(conv, format, &HOPPER) else {
            continue;
        };
        let g = &config.geometry;
        let bytes = |rings| g.wide_layout(format, rings).end;
        for (tiles, kib) in [1, 2]
            .into_iter()
            .flat_map(|t| (64..=227).map(move |k| (t, k)))
        {
            let shared_bytes = kib * 1024;
            let fewest = WideRings {
                tiles,
                splits: 1,
                patches: 2,
                filters: 2,
                stay: 0,
                alternate: 0,
                staged: 0,
                staged_barrier: 0,
                staged_at: 0,
                staged_bytes: 0,
            };
            let Some(rings) = g.wide_rings(format, [tiles, 1], shared_bytes) else {
                assert!(bytes(fewest) > shared_bytes, "{config:?}");
                continue;
            };
            full += 1;
            let one_more = [
                (rings.patches <= PATCH_WARPS, [1, 0]),
                (rings.filters < MOST_FILTERS && rings.stay == 0, [0, 1]),
            ];
            for (_, [patches, filters]) in one_more.into_iter().filter(|(may, _)| *may) {
                let more = WideRings {
                    tiles,
                    splits: 1,
                    patches: rings.patches + patches,
                    filters: rings.filters + filters,
                    stay: rings.stay,
                    alternate: rings.alternate,
                    staged: 0,
                    staged_barrier: 0,
                    staged_at: 0,
                    staged_bytes: 0,
                };
                assert!(bytes(more) > shared_bytes, "{rings:?}, {config:?}");
            }
        }
    }
    assert!(full > 0);
}

#[test]
fn warpgroups_alternate_where_filters_stay_or_little_is_brought() {
    let volume = |n, [c, k]: [usize; 2], extent, stride| {
        let spec = ConvSpec {
            padding: [1; 3].into(),
            stride: [stride; 3],
            ..ConvSpec::default()
        };
        conv([n, c, k], [extent; 3], [3; 3], spec)
    };
    let [_, split, rounded, stored] = FORMATS;
    for (what, conv, format, wanted) in [
        ("filters stay", volume(2, [32, 32], 64, 1), rounded, [1, 1]),
        ("they do not", volume(2, [64, 64], 64, 1), rounded, [0, 0]),
        ("16 bits", volume(2, [64, 64], 64, 1), stored, [0, 1]),
        ("large patches", volume(2, [32, 64], 64, 2), stored, [0, 0]),
        ("few tiles", volume(1, [32, 32], 16, 1), stored, [1, 0]),
        ("one adds", volume(2, [16, 32], 64, 1), split, [0, 0]),
    ] {
        let config = GemmConfig::new(&conv, None, format, &HOPPER, None).expect("a product");
        let rings = config.wide_rings(&HOPPER).expect("a wide tile");
        assert_eq!([rings.stay, rings.alternate], wanted, "{what}: {config:?}");
        assert_eq!(rings.label(), ["halves", "whole"][wanted[1] as usize]);
        assert_eq!(rings.readers() * (1 + rings.alternate), WARPS, "{what}");
    }
}

#[test]
fn blocks_of_one_tile_and_of_two_have_the_same_geometry_and_moments() {
    let mut seen = [false; 2];
    for format in FORMATS {
        let of_one = problems(1);
        for n in [1, 2, 7, 64] {
            for (alone, conv) in of_one.iter().zip(problems(n)) {
                for device in devices() {
                    let first = wide(alone, format, &device);
                    let config = wide(&conv, format, &device);
                    assert_eq!(config.is_some(), first.is_some());
                    let (Some(config), Some(first)) = (config, first) else {
                        continue;
                    };
                    let mut geometry = config.geometry;
                    geometry.conv.n = 1;
                    assert_eq!(geometry, first.geometry);
                    assert_eq!(config.moment_parts(), first.moment_parts());
                    let parts = HALVES * geometry.pixel_tiles();
                    assert_eq!(config.moment_parts(), parts);
                    assert_eq!(config.filter_words(), first.filter_words());
                    let rings = config.wide_rings(&device).expect("a config has rings");
                    seen[rings.tiles as usize - 1] = true;
                    if format.parts > 1 {
                        assert_eq!(rings.tiles, 1, "split sums leave registers for one");
                    }
                }
            }
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn blocks_are_of_whole_sets_and_do_every_tile() {
    for (conv, format) in problems(5).iter().flat_map(|c| FORMATS.map(|f| (c, f))) {
        for device in devices() {
            let Some(config) = wide(conv, format, &device) else {
                continue;
            };
            let g = &config.geometry;
            let rings = config.wide_rings(&device).expect("a config has rings");
            let sets = g.wide_sets(rings.tiles);
            assert!(sets * rings.tiles >= g.conv.groups * g.filter_tiles);
            let shape = config.shape(&device).expect("a launch");
            assert_eq!(shape.block, [BLOCK_THREADS, 1, 1]);
            let [blocks, ..] = shape.grid;
            assert!(blocks.is_multiple_of(sets), "{config:?}");
            assert!(blocks <= device.multiprocessors.max(sets), "{config:?}");
            assert!(u64::from(blocks / sets) <= g.items());
        }
    }
}

#[test]
fn neighbouring_channels_of_a_row_and_a_group_share_moments() {
    // Of images of this extent, which tiles of 16 by 16 leave two moments each.
    let of = |[groups, k]: [usize; 2], extent, tile, row_channels| {
        let spec = ConvSpec {
            groups,
            padding: [0, 1, 1].into(),
            ..Conv3dSpec::default()
        };
        let conv = conv([3, 16 * groups, k], [1, extent, extent], [1, 3, 3], spec);
        let config = GemmConfig::with_tile(&conv, None, OperandFormat::STORED, &HOPPER, tile);
        let alone = config.expect("a config");
        let together = alone.for_rows_of(row_channels);
        let channels = together.geometry.moment_channels;
        let elements = together.moment_elements() * u64::from(channels);
        assert_eq!(alone.moment_elements(), elements);
        channels
    };
    // 32 moments of each channel: as many become one as leave a row 64, up to those of a warp; of longer rows none.
    let alone = [1, 256];
    for (row_channels, together) in [(1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 1)] {
        assert_eq!(of(alone, 64, WIDE, row_channels), together);
    }
    // Two of each: of few channels none is one with others.
    assert_eq!(of(alone, 16, WIDE, 32), 1);
    assert_eq!(of(alone, 16, WIDE, 64), 2);
    // A warp has no filters of two groups, and rows are of whole ones. Eight of each.
    assert_eq!(of([2, 48], 32, WIDE, 24), 4);
    assert_eq!(of([2, 20], 32, WIDE, 10), 2);
    assert_eq!(of([2, 18], 32, WIDE, 9), 1);
    // Fifty of each, of which those of eight channels would be one: the third row has channels of both groups.
    assert_eq!(of([2, 48], 80, WIDE, 8), 8);
    assert_eq!(of([2, 40], 80, WIDE, 8), 1);
    // Other tiles are combined filter by filter.
    assert_eq!(of(alone, 32, W64N128, 16), 1);
}

#[test]
fn filters_fill_a_step() {
    let words = 4;
    let cells = (0..STEP_CELLS).flat_map(|cell| (0..WIDE.filters()).map(move |k| (cell, k)));
    let places = cells.flat_map(|(cell, k)| (0..words).map(move |word| filter_word(k, cell, word)));
    // Filters of a cell follow one another, and cells do.
    assert!(places.eq(0..STEP_CELLS * WIDE.filters() * words));
}

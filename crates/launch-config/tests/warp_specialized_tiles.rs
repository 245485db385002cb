//! Configs of warp-specialized tiles: the layout of shared memory, and the effects of a block's number of
//! tiles.

use launch_config::Arch;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::sm90::{
    BLOCK_THREADS, HALO_WARPS, HALVES, MainloopConfig, Residency, Schedule, WARPS, WRITTEN_WORDS,
    filter_word, mma_batch_bytes,
};
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS, OperandFormat, W64N128,
    WARP_SPECIALIZED,
};
use launch_config::pipeline::Skip;
use op_spec::{Conv3dSpec, ConvSpec};

use crate::HOPPER;

pub(crate) const FORMATS: [OperandFormat; 4] = [
    OperandFormat::BF16X3,
    OperandFormat::F16X2,
    OperandFormat::SCALED_F16,
    OperandFormat::STORED,
];

/// Returns a convolution from samples, channels and filters, and the extents of input and filter.
pub(crate) fn conv(
    [n, c, k]: [usize; 3],
    [d, h, w]: [usize; 3],
    [t, r, s]: [usize; 3],
    spec: Conv3dSpec,
) -> ConvGeometry {
    crate::conv([n, c, d, h, w], [k, c / spec.groups, t, r, s], spec)
}

/// Problems of all kinds, for `n` samples.
pub(crate) fn problems(n: usize) -> Vec<ConvGeometry> {
    let plain = Conv3dSpec::default();
    let spec = |stride, dilation, groups| plain.stride(stride).dilation(dilation).groups(groups);
    let grouped = spec([1, 2, 2], [1; 3], 3);
    [
        ([n, 256, 256], [1, 64, 64], [1, 3, 3], plain),
        ([n, 128, 320], [8, 32, 32], [3, 3, 3], plain),
        ([n, 512, 512], [1, 128, 128], [1, 3, 3], plain),
        ([n, 64, 64], [1, 56, 56], [1, 1, 1], plain),
        ([n, 20, 140], [1, 9, 18], [1, 3, 3], plain),
        ([n, 3, 16], [1, 224, 224], [1, 7, 7], plain),
        ([n, 1, 1], [1, 1, 1], [1, 1, 1], plain),
        ([n, 96, 192], [1, 40, 40], [1, 3, 3], grouped),
        (
            [n, 96, 9],
            [1, 60, 40],
            [1, 2, 2],
            spec([1; 3], [1, 40, 20], 1),
        ),
        (
            [n, 8, 70],
            [9, 20, 40],
            [2, 3, 4],
            spec([2, 3, 4], [1, 2, 3], 1),
        ),
    ]
    .map(|(channels, input, filter, spec)| conv(channels, input, filter, spec))
    .to_vec()
}

fn warp_specialized(
    conv: &ConvGeometry,
    format: OperandFormat,
    device: &GemmDevice,
) -> Option<GemmConfig> {
    GemmConfig::with_tile(conv, None, format, device, WARP_SPECIALIZED)
}

/// Devices of different sizes and shared memory capacities.
fn devices() -> impl Iterator<Item = GemmDevice> {
    let sizes = [1, 2, 3, 16, 78, 132, 148, 1000];
    let memories = [100 * 1024, 163 * 1024, 227 * 1024];
    sizes.into_iter().flat_map(move |multiprocessors| {
        memories.map(|shared_bytes| GemmDevice {
            multiprocessors,
            shared_bytes,
            arch: Arch::Sm90,
            tensor_rates: None,
        })
    })
}

/// Checks that the parts of shared memory for this mainloop are aligned, do not overlap, and end within the
/// capacity.
fn lies_apart(config: &GemmConfig, mainloop: MainloopConfig, shared_bytes: u32) {
    let (g, parts) = (&config.geometry, config.format.parts);
    let at = g.warp_specialized_layout(config.format, mainloop);
    let filters = WARP_SPECIALIZED.filters();
    let all = [
        ("offsets", at.offsets, 4 * g.offsets, 4),
        ("pixels", at.pixels, 4 * WARP_SPECIALIZED.pixels(), 8),
        ("positions", at.positions, 4 * WARP_SPECIALIZED.pixels(), 4),
        ("sources", at.sources, 4 * g.halo_k_vectors, 4),
        ("channels", at.channels, 16 * mainloop.tiles * filters, 16),
        ("barriers", at.barriers, 8 * mainloop.barriers(), 8),
        ("results", at.results, 4 * WARPS * WRITTEN_WORDS, 128),
        ("exchange", at.exchange, 4 * mainloop.exchanged(), 128),
        (
            "filters",
            at.filters,
            mainloop.filters * mainloop.tiles * mma_batch_bytes(config.format.step_parts()),
            128,
        ),
        (
            "halo tiles",
            at.halos,
            mainloop.halos * g.k_block_bytes(parts),
            128,
        ),
    ];
    let mut end = 0;
    for (name, start, bytes, alignment) in all {
        assert!(start >= end, "{name} of {mainloop:?}, {config:?}");
        assert!(start.is_multiple_of(alignment), "{name}, {config:?}");
        end = start + bytes;
    }
    assert_eq!(at.end, end, "{mainloop:?}, {config:?}");
    assert!(at.end <= shared_bytes, "{mainloop:?}, {config:?}");
}

#[test]
fn shared_memory_holds_all_parts_side_by_side_and_two_stages_of_each_pipeline() {
    let (mut min, mut stay) = ([u32::MAX; 2], [false; 2]);
    for conv in problems(3) {
        for (config, device) in FORMATS
            .into_iter()
            .flat_map(|f| devices().map(move |d| (f, d)))
            .flat_map(|(format, device)| {
                let one = warp_specialized(&conv, format, &device);
                let two = GemmConfig::with_two_outputs(&conv, format, &device);
                one.into_iter()
                    .chain(two)
                    .map(move |config| (config, device))
            })
        {
            let format = config.format;
            let g = &config.geometry;
            for blocks in [[1, 1], [2, 1], [1, 2], [2, 2], [1, 4], [2, 4]] {
                if let Some(mainloop) = g.mainloop_config(format, blocks, device.shared_bytes) {
                    assert_eq!([mainloop.tiles, mainloop.split_k], blocks);
                    let mma_batches = (g.k_blocks * g.mma_steps).div_ceil(MMA_BATCH_STEPS);
                    if mainloop.residency.is_resident() {
                        assert_eq!((mainloop.filters, mainloop.split_k), (mma_batches, 1));
                        assert!(mainloop.halos >= HALO_WARPS, "{mainloop:?}");
                    } else {
                        assert!(mainloop.halos >= 2 && mainloop.filters >= 2, "{mainloop:?}");
                    }
                    stay[mainloop.residency.code() as usize] = true;
                    assert!(mainloop.halos <= HALO_WARPS + 1, "{mainloop:?}");
                    lies_apart(&config, mainloop, device.shared_bytes);
                    min[0] = min[0].min(mainloop.halos);
                    min[1] = min[1].min(mainloop.filters);
                }
            }
            let mainloop = config
                .mainloop_config(&device)
                .expect("a config has pipelines");
            let layout = g.warp_specialized_layout(format, mainloop);
            assert_eq!(config.shared_bytes(&device), layout.end);
        }
    }
    // The cases include short memory, and resident as well as streamed filters.
    assert_eq!(min[0], 2);
    assert_eq!(stay, [true; 2]);
}

#[test]
fn no_further_stage_fits_shared_memory() {
    const MAX_FILTERS: u32 = 8;
    let mut full = 0;
    for (conv, format) in problems(1).iter().flat_map(|c| FORMATS.map(|f| (c, f))) {
        let Some(config) = warp_specialized(conv, format, &HOPPER) else {
            continue;
        };
        let g = &config.geometry;
        let bytes = |mainloop| g.warp_specialized_layout(format, mainloop).end;
        for (tiles, kib) in [1, 2]
            .into_iter()
            .flat_map(|t| (64..=227).map(move |k| (t, k)))
        {
            let shared_bytes = kib * 1024;
            let with = |halos, filters, residency| MainloopConfig {
                tiles,
                split_k: 1,
                halos,
                filters,
                residency,
                schedule: Schedule::COOPERATIVE,
                staged: 0,
                staged_barrier: 0,
                staged_at: 0,
                staged_bytes: 0,
                halo_skip: Skip::NONE,
                filter_skip: Skip::NONE,
            };
            let Some(mainloop) = g.mainloop_config(format, [tiles, 1], shared_bytes) else {
                assert!(
                    bytes(with(2, 2, Residency::STREAMED)) > shared_bytes,
                    "{config:?}"
                );
                continue;
            };
            full += 1;
            let one_more = [
                (mainloop.halos <= HALO_WARPS, [1, 0]),
                (
                    mainloop.filters < MAX_FILTERS && !mainloop.residency.is_resident(),
                    [0, 1],
                ),
            ];
            for (_, [halos, filters]) in one_more.into_iter().filter(|(may, _)| *may) {
                let (halos, filters) = (mainloop.halos + halos, mainloop.filters + filters);
                let more = MainloopConfig {
                    schedule: mainloop.schedule,
                    ..with(halos, filters, mainloop.residency)
                };
                assert!(bytes(more) > shared_bytes, "{mainloop:?}, {config:?}");
            }
        }
    }
    assert!(full > 0);
}

#[test]
fn warpgroups_ping_pong_with_resident_filters_or_few_loads() {
    let volume = |n, [c, k]: [usize; 2], extent, stride| {
        let spec = ConvSpec::default().padding(1).stride([stride; 3]);
        conv([n, c, k], [extent; 3], [3; 3], spec)
    };
    let [_, split, rounded, stored] = FORMATS;
    let [streamed, resident] = [Residency::STREAMED, Residency::RESIDENT];
    let [cooperative, ping_pong] = [Schedule::COOPERATIVE, Schedule::PING_PONG];
    for (what, conv, format, wanted) in [
        (
            "filters stay",
            volume(2, [32, 32], 64, 1),
            rounded,
            (resident, ping_pong),
        ),
        (
            "they do not",
            volume(2, [64, 64], 64, 1),
            rounded,
            (streamed, cooperative),
        ),
        (
            "16 bits",
            volume(2, [64, 64], 64, 1),
            stored,
            (streamed, ping_pong),
        ),
        (
            "large halo tiles",
            volume(2, [32, 64], 64, 2),
            stored,
            (streamed, cooperative),
        ),
        (
            "few tiles",
            volume(1, [32, 32], 16, 1),
            stored,
            (resident, cooperative),
        ),
        (
            "one adds",
            volume(2, [16, 32], 64, 1),
            split,
            (streamed, cooperative),
        ),
    ] {
        let config = GemmConfig::new(&conv, None, format, &HOPPER, None).expect("a product");
        let mainloop = config.mainloop_config(&HOPPER).expect("a wide tile");
        assert_eq!(
            (mainloop.residency, mainloop.schedule),
            wanted,
            "{what}: {config:?}"
        );
        assert_eq!(
            mainloop.label(),
            ["halves", "whole"][wanted.1.code() as usize]
        );
        assert_eq!(
            mainloop.consumer_warps() * (1 << mainloop.schedule.shift()),
            WARPS,
            "{what}"
        );
    }
}

#[test]
fn blocks_of_one_tile_and_of_two_have_the_same_geometry_and_moments() {
    let mut seen = [false; 2];
    for format in FORMATS {
        let of_one = problems(1);
        for n in [1, 2, 7, 64] {
            for (without_norm, conv) in of_one.iter().zip(problems(n)) {
                for device in devices() {
                    let first = warp_specialized(without_norm, format, &device);
                    let config = warp_specialized(&conv, format, &device);
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
                    let mainloop = config
                        .mainloop_config(&device)
                        .expect("a config has pipelines");
                    seen[mainloop.tiles as usize - 1] = true;
                    if format.parts > 1 {
                        assert_eq!(mainloop.tiles, 1, "split sums leave registers for one");
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
            let Some(config) = warp_specialized(conv, format, &device) else {
                continue;
            };
            let g = &config.geometry;
            let mainloop = config
                .mainloop_config(&device)
                .expect("a config has pipelines");
            let sets = g.warp_specialized_sets(mainloop.tiles);
            assert!(sets * mainloop.tiles >= g.conv.groups * g.filter_tiles);
            let shape = config.shape(&device).expect("a launch");
            assert_eq!(shape.block, [BLOCK_THREADS, 1, 1]);
            let [blocks, ..] = shape.grid;
            assert!(blocks.is_multiple_of(sets), "{config:?}");
            assert!(blocks <= device.multiprocessors.max(sets), "{config:?}");
            assert!(u64::from(blocks / sets) <= g.work_tiles());
        }
    }
}

#[test]
fn neighbouring_channels_of_a_row_and_a_group_share_moments() {
    // Images of this extent; tiles of 16 by 16 pixels leave two moments each.
    let of = |[groups, k]: [usize; 2], extent, tile, row_channels| {
        let spec = Conv3dSpec::default().groups(groups).padding([0, 1, 1]);
        let conv = conv([3, 16 * groups, k], [1, extent, extent], [1, 3, 3], spec);
        let config = GemmConfig::with_tile(&conv, None, OperandFormat::STORED, &HOPPER, tile);
        let without_norm = config.expect("a config");
        let together = without_norm.for_rows_of(row_channels);
        let channels = together.geometry.moment_channels;
        let elements = together.moment_elements() * u64::from(channels);
        assert_eq!(without_norm.moment_elements(), elements);
        channels
    };
    // Each channel has 32 moments. As many channels share moments as leave a row 64 moments, up to the number
    // that a warp combines. Channels of longer rows share none.
    let without_norm = [1, 256];
    for (row_channels, together) in [(1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 1)] {
        assert_eq!(
            of(without_norm, 64, WARP_SPECIALIZED, row_channels),
            together
        );
    }
    // Each channel has two moments. Channels of short rows share none.
    assert_eq!(of(without_norm, 16, WARP_SPECIALIZED, 32), 1);
    assert_eq!(of(without_norm, 16, WARP_SPECIALIZED, 64), 2);
    // A warp has no filters of two groups, and rows consist of whole shares. Each channel has eight moments.
    assert_eq!(of([2, 48], 32, WARP_SPECIALIZED, 24), 4);
    assert_eq!(of([2, 20], 32, WARP_SPECIALIZED, 10), 2);
    assert_eq!(of([2, 18], 32, WARP_SPECIALIZED, 9), 1);
    // Each channel has fifty moments, and eight channels would share them. In the second case, the third row
    // has channels of both groups.
    assert_eq!(of([2, 48], 80, WARP_SPECIALIZED, 8), 8);
    assert_eq!(of([2, 40], 80, WARP_SPECIALIZED, 8), 1);
    // Other tiles have separate moments for each filter.
    assert_eq!(of(without_norm, 32, W64N128, 16), 1);
}

#[test]
fn filters_fill_a_step() {
    let words = 4;
    let filter = |k: u32| {
        let k_vectors = (0..MMA_STEP_K_VECTORS).map(move |k_vector| (k, k_vector));
        k_vectors
            .flat_map(|(k, k_vector)| (0..words).map(move |word| filter_word(k, k_vector, word)))
    };
    for k in 0..WARP_SPECIALIZED.filters() {
        // A filter's K-vectors; their halves are exchanged in every second set of four filters.
        let first = MMA_STEP_K_VECTORS * words * k;
        let [one, other] = [first..first + words, first + words..first + 2 * words];
        match k / 4 % 2 {
            0 => assert!(filter(k).eq(one.chain(other)), "{k}"),
            _ => assert!(filter(k).eq(other.chain(one)), "{k}"),
        }
    }
}

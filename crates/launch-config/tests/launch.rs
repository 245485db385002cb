//! Launch shapes cover all work exactly once and fit the limits of devices.

use launch_config::KernelGeometry;
use launch_config::channel_reduction::{self, ChannelReductionGeometry};
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{GemmConfig, OperandFormat};
use launch_config::max_pool2d::{PoolGeometry, PoolTask};
use launch_config::norm::{MAX_SPLITS, NormGeometry, SPLIT_ELEMENTS, WARP_ROW_ELEMENTS};
use launch_config::{LaunchShape, MAX_BLOCKS, WARP_THREADS, elementwise, max_pool2d};
use op_spec::{Conv2dSpec, Conv3dSpec, ConvSpec, MaxPool2dSpec};

fn conv(n: usize, c: usize, k: usize, image: [usize; 2], spec: Conv2dSpec) -> ConvGeometry {
    let weight = [k, c / spec.groups, 3, 3];
    let problem = spec.problem(&[n, c, image[0], image[1]], &weight, None);
    let problem = problem.expect("a valid case");
    problem.geometry().expect("a small case")
}

#[test]
fn splits_of_a_row_depend_on_its_length_alone_and_none_is_empty() {
    let around = [SPLIT_ELEMENTS, SPLIT_ELEMENTS + 1];
    for row in [1, 1000, 63_504, 5_000_000, 1 << 33]
        .into_iter()
        .chain(around)
    {
        let one = NormGeometry::new(1, 1, 1, row, 0.0);
        let many = NormGeometry::new(77, 6, 6, row, 0.0);
        assert_eq!(one.splits, many.splits);
        assert_eq!(one.split_elements, many.split_elements);
        assert!(u64::from(one.splits) <= MAX_SPLITS);
        assert!(u64::from(one.splits - 1) * one.split_elements < row);
        assert!(u64::from(one.splits) * one.split_elements >= row);
        if row <= WARP_ROW_ELEMENTS {
            assert_eq!(one.splits, 1, "a warp takes whole rows");
        }
    }
}

#[test]
fn groups_of_no_channels_have_no_rows() {
    for groups in [1, 3, u32::MAX] {
        let g = NormGeometry::new(1 << 40, 0, groups, 9, 0.0);
        assert_eq!((g.rows, g.elements(), g.partial_elements()), (0, 0, 0));
    }
}

#[test]
fn staged_parameters_have_room_for_every_plane_and_row_that_a_block_touches() {
    // The number of segments of `length` that `span` elements touch, for each start within a segment.
    let most = |span: u64, length: u64| {
        let starts = (0..length.min(span)).map(|back| (length - 1 - back + span - 1) / length + 1);
        starts.max().expect("a start")
    };
    for spatial in [1, 2, 3, 4, 5, 7, 8, 25, 961, 4095, 8192, 8193, 100_000] {
        for (n, row_channels) in [(3, 1), (3, 8), (100_000, 1), (100_000, 2)] {
            for bytes in [2, 4] {
                let g = NormGeometry::new(n, 8, 8 / row_channels, spatial, 0.0);
                let apply = g.apply(bytes);
                let planes = most(apply.block_elements.into(), spatial);
                let shape = apply.shape().expect("few blocks");
                let staged = u64::from(shape.shared_bytes);
                assert!(staged >= 16 * planes, "planes of {spatial}");
                assert!(staged <= 25 * 1024, "several blocks a multiprocessor");
                let split = g.counted(2).apply(bytes);
                assert_eq!(split.block_elements, apply.block_elements);
                let staged = u64::from(split.shape().expect("few blocks").shared_bytes);
                let rows = most(planes, row_channels.into());
                assert!(staged >= 16 * planes + 8 * rows, "planes of {spatial}");
                assert!(staged <= 25 * 1024, "several blocks a multiprocessor");
            }
        }
    }
}

#[test]
fn passes_over_few_elements_have_many_blocks_and_cover_each_element_once() {
    let sizes = [
        (0, 7),
        (1, 1),
        (1, 1023),
        (128, 25),
        (128, 961),
        (128, 3969),
    ];
    for (n, spatial) in sizes.into_iter().chain([(1 << 20, 5)]) {
        for bytes in [2, 4] {
            let apply = NormGeometry::new(n, 128, 8, spatial, 0.0).apply(bytes);
            let shape = apply.shape().expect("few blocks");
            let block = u64::from(apply.block_elements);
            let blocks = u64::from(shape.grid[0]);
            assert_eq!(blocks, apply.elements.div_ceil(block.max(1)));
            assert_eq!(block % elementwise::ROUND_ELEMENTS as u64, 0);
            let rounds = (apply.elements * u64::from(bytes)).div_ceil(4096);
            assert!(blocks >= rounds.min(256), "{blocks} of {rounds}");
        }
    }
}

#[test]
fn blocks_combine_the_moments_of_few_rows_themselves() {
    let of = |n, channels, groups, spatial| {
        let norm = NormGeometry::new(n, channels, groups, spatial, 0.0);
        norm.apply(2).combined_moments()
    };
    // Blocks of 4,096 elements touch one row of 4,096, at most three of 1,976, eight of 640, nine of 512, and
    // 17 of 256.
    assert_eq!(of(2, 256, 256, 4096), 64);
    assert_eq!(of(2, 256, 32, 247), 64);
    assert_eq!(of(4, 512, 512, 640), 64);
    assert_eq!(of(8, 512, 512, 512), 32);
    assert_eq!(of(16, 512, 512, 256), 1);
    // Rows of four elements.
    assert_eq!(of(2, 256, 256, 4), 1);
    // Without samples, no row is too many.
    assert_eq!(of(0, 256, 32, 1), 64);
}

#[test]
fn overlapping_windows_two_rows_apart_are_stacked_and_all_others_are_not() {
    let geometry = |shape: [usize; 4], stride: [usize; 2], padding: [usize; 2], dilation: usize| {
        let mut spec = MaxPool2dSpec::new(3);
        (spec.stride, spec.padding) = (Some(stride), padding);
        spec.dilation = [dilation; 2];
        let problem = spec.problem(&shape).expect("a valid case");
        PoolGeometry::of(&problem.pool).expect("a small case")
    };
    let stem = geometry([64, 64, 112, 112], [2, 2], [1, 1], 1);
    assert_eq!((stem.task, stem.plane_tasks()), (PoolTask::STACK, 14 * 56));
    assert_eq!(stem.block_tasks, max_pool2d::BLOCK_THREADS * 4);
    let blocks = stem.shape().expect("few blocks").grid[0];
    assert_eq!(u64::from(blocks), (64 * 64 * 14 * 56u64).div_ceil(1024));

    let small = geometry([1, 64, 15, 15], [2, 3], [1, 0], 1);
    // The last row of stacks is incomplete; there are enough blocks for all multiprocessors.
    assert_eq!((small.task, small.plane_tasks()), (PoolTask::STACK, 2 * 5));
    assert_eq!(small.block_tasks, max_pool2d::BLOCK_THREADS);
    for other in [
        geometry([1, 64, 15, 15], [1, 2], [1, 1], 1),
        geometry([1, 64, 15, 15], [2, 2], [1, 1], 2),
        geometry([1, 64, 7, 15], [2, 2], [0, 0], 1),
    ] {
        let outputs = u64::from(other.p * other.q);
        assert_eq!(
            (other.task, other.plane_tasks()),
            (PoolTask::OUTPUT, outputs)
        );
        assert_eq!(other.block_tasks, max_pool2d::BLOCK_OUTPUTS as u32);
    }
    let norm = NormGeometry::new(64, 64, 16, 112 * 112, 0.0);
    let shared = stem.norm_shape(&norm).expect("few blocks").shared_bytes;
    // 1024 stacks touch three planes and, with splits, two rows.
    assert_eq!(shared, 3 * 16 + 2 * 8);
}

#[test]
fn channels_are_divided_only_where_positions_are_few() {
    let few = ChannelReductionGeometry::new(1, 64, 49, true);
    assert_eq!((few.slices, few.lanes), (8, WARP_THREADS));
    let many = ChannelReductionGeometry::new(128, 16, 12_600, true);
    assert_eq!(
        (many.slices, many.lanes),
        (1, channel_reduction::BLOCK_THREADS)
    );
    let narrow = ChannelReductionGeometry::new(1, 3, 49, true);
    assert_eq!(narrow.slices, 1, "a slice has enough channels to pay");
    // A result that depends on the order of the channels has the same order in any batch.
    let slices = |n, in_any_order| ChannelReductionGeometry::new(n, 64, 49, in_any_order).slices;
    assert_eq!((slices(100_000, true), slices(100_000, false)), (1, 8));
    // A sample that occupies half of a GPU has slices of many channels.
    let slices = |channels| ChannelReductionGeometry::new(9, channels, 1 << 16, false).slices;
    assert_eq!((slices(16), slices(32), slices(256)), (1, 2, 8));
}

#[test]
fn more_blocks_than_a_grid_has_are_refused_and_none_are_no_launch() {
    assert!(LaunchShape::linear(MAX_BLOCKS, 32).is_some());
    assert!(LaunchShape::linear(MAX_BLOCKS + 1, 32).is_none());
    assert!(elementwise::shape(0).expect("a shape").is_empty());
    let empty = conv(0, 3, 4, [9, 9], ConvSpec::default());
    let tile = empty.direct_tile();
    assert!(empty.direct_shape(tile).expect("a shape").is_empty());
}

mod conv3d_multiply_instance_norm_clamp_multiply_max {
    use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::*;
    use op_spec::{ClampSpec, Conv3dSpec, InstanceNormSpec};

    /// The input of the benchmark problem.
    const INPUT: [usize; 5] = [128, 3, 16, 32, 32];

    /// Returns the geometry of the benchmark problem with this convolution and input. The norm has a weight
    /// and a bias if `affine`.
    fn geometry_of(
        spec: Conv3dSpec,
        affine: bool,
        input: [usize; 5],
    ) -> Option<OneLaunch3dGeometry> {
        let channels = [16];
        let conv = spec.problem(&input, &[16, 3, 3, 3, 3], Some(&channels));
        let conv = conv.expect("a valid problem");
        let affine = affine.then_some(&channels[..]);
        let norm = InstanceNormSpec::default().problem(&conv.output_shape(), affine, affine);
        let norm = norm.expect("a valid problem").as_group_norm();
        let clamp = ClampSpec::new(-1.0, 1.0).problem(&conv.output_shape());
        OneLaunch3dGeometry::new(&conv, &norm, &clamp.expect("a valid problem")).ok()
    }

    fn geometry(input: [usize; 5]) -> Option<OneLaunch3dGeometry> {
        geometry_of(Conv3dSpec::default(), false, input)
    }

    #[test]
    fn takes_the_kernelbench_problem_and_its_rows_arrive_in_time() {
        let g = geometry(INPUT).expect("its own problem");
        assert_eq!(g.items(), 81);
        let (mut round, mut ready) = (0, PEEK_ROWS);
        while round < g.items() {
            let needed = g.rows_needed((round + WARPS).min(g.items()));
            assert!(needed <= ready, "{needed} rows of {ready}");
            round += WARPS;
            ready += STAGING_ROWS;
        }
        assert_eq!(g.rows_needed(g.items()), g.rows);
    }

    #[test]
    fn fits_the_shared_memory_of_a_hopper_multiprocessor() {
        assert!(4 * shared_words(SPLIT_PLANES) <= 227 * 1024);
    }

    /// Returns the number of blocks that share a sample of a batch of `n`, with `mma.sync` and with `wgmma`.
    fn blocks(n: usize) -> (u32, u32) {
        let [_, sample @ ..] = INPUT;
        let [c, d, h, w] = sample;
        let g = geometry([n, c, d, h, w]).expect("its own problem");
        (g.cluster_blocks(132), warpgroup::blocks(&g, 132))
    }

    #[test]
    fn small_batches_take_as_many_multiprocessors_as_there_are() {
        let few = [
            (1, (8, 5)),
            (15, (8, 5)),
            (16, (4, 5)),
            (30, (4, 5)),
            (31, (2, 5)),
        ];
        let many = [
            (44, (2, 5)),
            (45, (2, 1)),
            (66, (2, 1)),
            (67, (1, 1)),
            (128, (1, 1)),
        ];
        for (n, wanted) in few.into_iter().chain(many) {
            assert_eq!(blocks(n), wanted, "batch of {n}");
        }
    }

    #[test]
    fn samples_with_work_for_one_block_are_not_shared() {
        let g = geometry([1, 3, 5, 8, 32]).expect("a small problem");
        assert_eq!((g.cluster_blocks(132), warpgroup::blocks(&g, 132)), (1, 1));
    }

    /// Returns a sample of this height with the largest depth that fits.
    fn deepest(height: usize) -> Option<OneLaunch3dGeometry> {
        let mut depths = (3..=160).rev();
        depths.find_map(|depth| geometry([1, 3, depth, height, 32]))
    }

    #[test]
    fn blocks_of_a_cluster_share_all_items_and_have_the_rows_that_these_touch() {
        for g in (3..=173).map(|height| deepest(height).expect("some depth fits")) {
            let touched = |item: u32, beside: u32, rows: u32| {
                let out = item / beside * rows..(item / beside * rows + rows).min(g.out_rows);
                let first = |row: u32| row / g.out_height * g.height + row % g.out_height;
                let last = first(out.end - 1) + 2 * g.height + 3;
                first(out.start)..last
            };
            let check = |shares: Vec<Share>, items: u32, beside: u32, rows: u32, most: u32| {
                let mut next = 0;
                for share in shares {
                    assert_eq!(share.first, next);
                    assert!(share.end - share.first <= most);
                    for item in share.first..share.end {
                        let touched = touched(item, beside, rows);
                        assert!(share.first_row <= touched.start && touched.end <= share.end_row);
                    }
                    assert!(share.end_row <= g.rows);
                    next = share.end;
                }
                assert_eq!(next, items, "height {}", g.height);
            };
            for blocks in CLUSTERS {
                let shares = (0..blocks).map(|rank| g.share(rank, blocks)).collect();
                let most = SHARE_WORDS / POWER_SUM_WORDS;
                check(shares, g.items(), STRIPS, TILE_ROWS, most);
            }
            let shares = (0..warpgroup::WARPGROUPS).map(|rank| warpgroup::share(&g, rank));
            let [strips, rows] = [warpgroup::STRIPS, warpgroup::TILE_ROWS];
            let items = g.out_rows.div_ceil(rows) * strips;
            let most = warpgroup::MOST_WARPGROUP_ITEMS;
            check(shares.collect(), items, strips, rows, most);
        }
    }

    #[test]
    fn reciprocals_divide_exactly() {
        for g in (3..=200).filter_map(deepest) {
            for row in 0..g.rows {
                let d = (row * g.height_reciprocal) >> RECIPROCAL_SHIFT;
                assert_eq!(d, row / g.height);
            }
            for row in 0..g.out_rows {
                let z = (row * g.out_height_reciprocal) >> RECIPROCAL_SHIFT;
                assert_eq!(z, row / g.out_height);
            }
        }
    }

    #[test]
    fn refuses_what_it_is_not_made_for() {
        assert_eq!(geometry([1, 3, 16, 32, 31]), None);
        assert_eq!(geometry([1, 3, 17, 32, 32]), None);
        assert!(geometry([1, 3, 16, 31, 32]).is_some());
        let padded = Conv3dSpec::default().padding(1);
        assert_eq!(geometry_of(padded, false, [1, 3, 8, 8, 32]), None);
        assert_eq!(
            geometry_of(Conv3dSpec::default(), true, [1, 3, 8, 8, 32]),
            None
        );
    }
}

#[test]
fn planes_of_more_cells_than_32_bits_address_have_no_plan() {
    let config = |input: [usize; 3], spec: Conv3dSpec| {
        let [d, h, w] = input;
        let filter = if spec == Conv3dSpec::default() { 1 } else { 2 };
        let conv = crate::conv([1, 8, d, h, w], [8, 8, 1, filter, filter], spec);
        GemmConfig::new(&conv, None, OperandFormat::F16X2, &crate::AMPERE, None)
    };
    let strided = Conv3dSpec::default().stride([1, 1, 3]);
    // A K-vector has four words. The limit is checked along each extent, and for stride phases.
    for (extents, spec) in [
        ([1, 8192, 131_008], Conv3dSpec::default()),
        ([131_008, 8192, 1], Conv3dSpec::default()),
        ([131_008, 1, 8192], Conv3dSpec::default()),
        ([1, 8192, 131_008], strided),
    ] {
        assert!(config(extents, spec).is_ok(), "{extents:?}, {spec:?}");
        let beyond = extents.map(|extent| if extent == 131_008 { 131_328 } else { extent });
        assert!(config(beyond, spec).is_err(), "{beyond:?}, {spec:?}");
    }
}

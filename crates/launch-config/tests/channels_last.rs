//! Channels-last inputs of warp-specialized tiles: which ones they read in place, which ones they reformat to
//! NHWC, and the changes to the config.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::sm90::Residency;
use launch_config::implicit_gemm::{
    EpilogueKind, GemmConfig, ImplicitGemmGeometry, KVectorStrides, Loader, OperandFormat, W64N128,
    WARP_SPECIALIZED,
};
use op_spec::{Conv3dSpec, ConvSpec};

use crate::HOPPER;

/// Returns a convolution to 128 channels. The filter has one slice if the input has one.
fn conv(c: usize, [d, h, w]: [usize; 3], filter: usize, spec: Conv3dSpec) -> ConvGeometry {
    let slices = 1.max(filter * (d.min(2) - 1));
    let weight = [128, c / spec.groups, slices, filter, filter];
    crate::conv([2, c, d, h, w], weight, spec)
}

fn config(conv: &ConvGeometry) -> GemmConfig {
    GemmConfig::with_tile(conv, None, OperandFormat::STORED, &HOPPER, WARP_SPECIALIZED)
        .expect("a config")
}

/// Returns the strides of samples, channels, slices, rows and columns, with `pixel` elements between pixels.
fn nhwc_strides(conv: &ConvGeometry, pixel: i64) -> [i64; 5] {
    let row = pixel * i64::from(conv.w);
    let slice = row * i64::from(conv.h);
    [slice * i64::from(conv.d), 1, slice, row, pixel]
}

fn plain() -> ConvGeometry {
    conv(64, [1, 20, 30], 3, Conv3dSpec::default())
}

#[test]
fn strides_are_counted_in_k_vectors() {
    let conv = plain();
    let channels_last = config(&conv).channels_last(nhwc_strides(&conv, 64), &HOPPER);
    let k_vectors = channels_last.expect("an NHWC halo tile").geometry.k_vectors;
    let expected = KVectorStrides {
        sample: 20 * 30 * 8,
        slice: 0,
        row: 30 * 8,
        column: 8,
        loader: Loader::CHANNELS_LAST,
        span_k_vectors: 4,
        boxes: k_vectors.boxes,
    };
    assert_eq!(k_vectors, expected);
    assert_eq!(k_vectors.sample_k_vectors(&conv), 20 * 30 * 8);
    assert_eq!(k_vectors.all_k_vectors(&conv), 2 * 20 * 30 * 8);
    // Pixels with a gap behind each but the last one.
    let channels_last = config(&conv).channels_last(nhwc_strides(&conv, 80), &HOPPER);
    let k_vectors = channels_last.expect("an NHWC halo tile").geometry.k_vectors;
    assert_eq!(k_vectors.all_k_vectors(&conv), 2 * 20 * 30 * 10 - 2);
}

#[test]
fn what_is_no_k_vector_is_reformatted() {
    let conv = plain();
    let last = nhwc_strides(&conv, 64);
    let is_taken = |strides| config(&conv).channels_last(strides, &HOPPER).is_some();
    let with = |axis: usize, stride: i64| {
        let mut strides = last;
        strides[axis] = stride;
        strides
    };
    // The K-vectors of a sample overflow 32 bits and leave a small remainder.
    let many = |mma_steps| 8 * (1i64 << 32).div_euclid(mma_steps) + 8;
    assert!(is_taken(last));
    // The stride of an axis with one slice is irrelevant.
    assert!(is_taken(with(2, -3)));
    assert!(!is_taken([64 * 600, 600, 600, 30, 1]));
    for (axis, stride) in [
        (0, 1),
        (0, 0),
        (0, -8),
        (1, 2),
        (3, 30 * 64 + 4),
        (4, 68),
        (4, -64),
        // A sample has more words than 32 bits count.
        (3, 1 << 33),
        (3, i64::MAX - 7),
        (3, many(19)),
        (4, many(29)),
    ] {
        assert!(!is_taken(with(axis, stride)), "{axis}: {stride}");
    }
}

#[test]
fn other_formats_tiles_and_groups_are_reformatted() {
    let conv = plain();
    let last = nhwc_strides(&conv, 64);
    for format in [OperandFormat::F16X2, OperandFormat::BF16X3] {
        let config = GemmConfig::with_tile(&conv, None, format, &HOPPER, WARP_SPECIALIZED)
            .expect("a config");
        assert_eq!(config.channels_last(last, &HOPPER), None, "{format:?}");
    }
    let format = OperandFormat::STORED;
    let narrow = GemmConfig::with_tile(&conv, None, format, &HOPPER, W64N128).expect("a config");
    assert_eq!(narrow.channels_last(last, &HOPPER), None);
    let spec = Conv3dSpec::default().groups(4);
    // Groups of 16, 12 and 24 channels. In groups of 24, a span of K-vectors would reach into the next group.
    for (channels, are_k_vectors) in [(64, true), (48, false), (96, false)] {
        let conv = self::conv(channels, [1, 20, 30], 3, spec);
        let config = config(&conv);
        let channels_last = config.channels_last(nhwc_strides(&conv, channels as i64), &HOPPER);
        assert_eq!(channels_last.is_some(), are_k_vectors, "{channels}");
        // The reformat pads channels to whole spans of K-vectors.
        let as_nhwc = config.reformatted_to_nhwc(&HOPPER).expect("lines");
        let g = as_nhwc.geometry;
        assert!(
            g.planes.is_multiple_of(g.k_vectors.span_k_vectors)
                && g.k_vectors.column == 4 * g.planes
        );
    }
}

#[test]
fn boxes_reach_no_further_than_a_tensor_map_lets_them() {
    // The extent of a box along the columns, and its column stride.
    for (columns, dilation, stride, has_nhwc_tile) in [
        (100, 20, 1, true),
        (600, 260, 1, false),
        (400, 1, 8, true),
        (400, 1, 9, false),
    ] {
        let spec = Conv3dSpec::default()
            .dilation([1, 1, dilation])
            .stride([1, 1, stride]);
        let conv = conv(16, [1, 4, columns], 3, spec);
        let config = config(&conv);
        let channels_last = config.channels_last(nhwc_strides(&conv, 16), &HOPPER);
        let lined = config.reformatted_to_nhwc(&HOPPER);
        let are_taken = [channels_last.is_some(), lined.is_some()];
        assert_eq!(are_taken, [has_nhwc_tile; 2], "{dilation} {stride}");
    }
}

fn spec(stride: usize, padding: usize) -> Conv3dSpec {
    ConvSpec::default()
        .stride([stride; 3])
        .padding([padding; 3])
}

#[test]
fn lines_are_long_where_they_leave_filters_enough_stages() {
    let of = |c: usize, extents: [usize; 3], stride: usize, filters: u32| {
        let conv = ConvGeometry {
            group_k: filters,
            ..conv(c, extents, 3, spec(stride, usize::from(extents[0] > 1)))
        };
        let config = GemmConfig::new(&conv, None, OperandFormat::STORED, &HOPPER, None);
        let config = config.expect("a config");
        let channels_last = config.channels_last(nhwc_strides(&conv, c as i64), &HOPPER);
        let channels_last = channels_last.expect("an NHWC halo tile");
        let mainloop = channels_last
            .mainloop_config(&HOPPER)
            .expect("pipeline stages");
        (
            channels_last.geometry.k_vectors.span_k_vectors,
            mainloop.residency,
        )
    };
    let [streamed, resident] = [Residency::STREAMED, Residency::RESIDENT];
    assert_eq!(of(32, [128; 3], 2, 64), (4, streamed));
    assert_eq!(of(512, [1, 64, 64], 1, 512), (4, streamed));
    // Two tiles of filters in a block leave too few pipeline stages beside strided halo tiles of long spans.
    assert_eq!(of(64, [64; 3], 2, 128), (2, streamed));
    // Short spans leave memory for resident filters.
    assert_eq!(of(32, [128; 3], 1, 32), (2, resident));
    // With split-K each block has an odd number of K blocks.
    assert_eq!(of(320, [8; 3], 1, 320), (2, streamed));
}

#[test]
fn nothing_that_decides_about_bits_changes() {
    // The last has one plane, of which two columns make a step.
    let one_plane = conv(8, [1, 60, 60], 3, Conv3dSpec::default());
    for (conv, planes) in [
        (conv(64, [1, 20, 34], 3, Conv3dSpec::default()), 4),
        (conv(24, [1, 20, 30], 3, Conv3dSpec::default()), 2),
        (conv(512, [1, 64, 64], 3, Conv3dSpec::default()), 4),
        (conv(32, [32, 32, 32], 3, spec(2, 1)), 4),
        (conv(64, [16, 16, 16], 3, spec(1, 1)), 4),
        (conv(256, [1, 25, 38], 1, Conv3dSpec::default()), 4),
        // Four strips.
        (conv(256, [1, 102, 154], 3, Conv3dSpec::default()), 4),
        (one_plane, 1),
    ] {
        let reformatted = config(&conv);
        let strides = nhwc_strides(&conv, conv.input_channels().into());
        let channels_last = reformatted
            .channels_last(strides, &HOPPER)
            .expect("an NHWC halo tile");
        let as_nhwc = reformatted.reformatted_to_nhwc(&HOPPER);
        assert_eq!(as_nhwc.is_some(), planes > 1);
        for with_nhwc_tile in [Some(channels_last), as_nhwc].into_iter().flatten() {
            let (from, to) = (reformatted.geometry, with_nhwc_tile.geometry);
            assert_eq!(to.k_vectors.span_k_vectors, planes);
            assert_eq!(with_nhwc_tile.split_k, reformatted.split_k);
            // The MMA steps and their order are the same: the slices of the filter change after the same
            // number of planes.
            let slice_planes = |g: &ImplicitGemmGeometry| match g.depth_k_blocks {
                0..=1 => 0,
                _ => g.slice_planes,
            };
            assert_eq!(slice_planes(&to), slice_planes(&from));
            assert_eq!(to.k_blocks * to.mma_steps, from.k_blocks * from.mma_steps);
            assert_eq!(
                to.k_blocks * to.k_block_planes,
                from.k_blocks * from.k_block_planes
            );
            let same = ImplicitGemmGeometry {
                k_vectors: from.k_vectors,
                planes: from.planes,
                k_block_planes: from.k_block_planes,
                slice_planes: from.slice_planes,
                k_blocks: from.k_blocks,
                mma_steps: from.mma_steps,
                offsets: from.offsets,
                interleaved_octets: from.interleaved_octets,
                halo_k_vectors: from.halo_k_vectors,
                staged_tiles: from.staged_tiles,
                ..to
            };
            assert_eq!(same, from);
        }
    }
}

/// Conversion in the producer pays if few blocks convert each value. It does not pay if many blocks share the
/// pixels, or if boxes are single rows.
#[test]
fn f32_is_rounded_on_its_way_where_that_pays() {
    let spec = |stride| spec(stride, 1);
    let flat = Conv3dSpec::default().padding([0, 1, 1]);
    for (conv, pays) in [
        (conv(32, [128; 3], 3, spec(2)), true),
        (conv(64, [64; 3], 3, spec(2)), true),
        (conv(128, [32; 3], 3, spec(1)), true),
        (conv(128, [1, 128, 128], 3, flat), true),
        (conv(1024, [16; 3], 3, spec(2)), false),
        // Four strips.
        (conv(256, [1, 104, 152], 3, flat), false),
    ] {
        let format = OperandFormat::SCALED_F16;
        let config = GemmConfig::with_tile(&conv, None, format, &HOPPER, WARP_SPECIALIZED)
            .expect("a config");
        let strides = nhwc_strides(&conv, conv.input_channels().into());
        let channels_last = config
            .channels_last(strides, &HOPPER)
            .expect("an NHWC halo tile");
        assert_eq!(channels_last.pays_channels_last(&HOPPER), pays, "{conv:?}");
        let g = &channels_last.geometry;
        // Staged tiles divide a box into whole rows.
        let [_, second, third] = g.box_axes();
        let [along_second, along_third] = g.staged_tiles.extents;
        assert!(along_second == second || along_third == 1);
        let counts = [second.div_ceil(along_second), third.div_ceil(along_third)];
        assert_eq!(g.staged_tiles.counts, counts);
        let mainloop = channels_last.mainloop_config(&HOPPER).expect("pipelines");
        assert!([2, 3].contains(&mainloop.staged) && (mainloop.staged == 2 || mainloop.halos == 2));
        let layout = g.warp_specialized_layout(format, mainloop);
        assert_eq!(mainloop.staged_at, layout.staged);
        assert!(layout.end <= HOPPER.shared_bytes);
    }
    // A small image with a norm, and a large volume without one.
    let small = conv(64, [1, 12, 12], 3, Conv3dSpec::default());
    let format = OperandFormat::SCALED_F16;
    let config =
        GemmConfig::with_tile(&small, None, format, &HOPPER, WARP_SPECIALIZED).expect("a config");
    let strides = nhwc_strides(&small, 64);
    assert_eq!(config.channels_last(strides, &HOPPER), None);
    let large = conv(64, [64; 3], 3, spec(2));
    let config = GemmConfig::new_without_norm(&large, format, &HOPPER, None, EpilogueKind::STORE)
        .expect("a config");
    assert_eq!(
        config.channels_last(nhwc_strides(&large, 64), &HOPPER),
        None
    );
}

/// Tensor maps take boxes of up to 256 pixels along an axis, with strides of up to 8.
#[test]
fn boxes_are_as_long_as_tensor_maps_take() {
    let mut longest = 0;
    for (stride, dilation) in (1..=9).flat_map(|stride| (1..=260).map(move |gap| (stride, gap))) {
        let spec = Conv3dSpec::default();
        let spec = spec.stride([1, 1, stride]).dilation([1, 1, dilation]);
        let conv = crate::conv([1, 16, 1, 1, 2000], [64, 16, 1, 1, 2], spec);
        let tile = WARP_SPECIALIZED;
        let config = GemmConfig::with_tile(&conv, None, OperandFormat::STORED, &HOPPER, tile);
        let nhwc = config.and_then(|of| of.channels_last(nhwc_strides(&conv, 16), &HOPPER));
        let Some(nhwc) = nhwc else { continue };
        let g = &nhwc.geometry;
        for (pixels, stride) in g.box_extents().into_iter().zip(g.box_strides()) {
            assert!(stride <= 8, "{conv:?}");
            longest = longest.max((pixels - 1) * stride + 1);
        }
    }
    assert_eq!(longest, 256);
}

//! Which inputs a product of wide tiles reads as they lie, and what changes where it does.

use op_spec::launch::conv::ConvGeometry;
use op_spec::launch::implicit_gemm::{
    CellStrides, GemmConfig, GemmDevice, OperandFormat, W64N128, WIDE,
};
use op_spec::{Conv3dSpec, ConvSpec};

const HOPPER: GemmDevice = GemmDevice {
    multiprocessors: 132,
    shared_bytes: 227 * 1024,
    warpgroups: true,
};

/// A convolution to 128 channels, of filters with one slice where the input has one.
fn conv(c: usize, [d, h, w]: [usize; 3], filter: usize, spec: Conv3dSpec) -> ConvGeometry {
    let (input, weight) = (
        [2, c, d, h, w],
        [
            128,
            c / spec.groups,
            1.max(filter * (d.min(2) - 1)),
            filter,
            filter,
        ],
    );
    let problem = spec.problem(&input, &weight, None);
    problem
        .expect("the tests' problems are sound")
        .geometry()
        .expect("the tests' problems are small")
}

fn config(conv: &ConvGeometry) -> GemmConfig {
    GemmConfig::with_tile(conv, None, OperandFormat::STORED, &HOPPER, WIDE).expect("a config")
}

/// The strides of samples, channels, slices, rows and columns, with so many elements from pixel to pixel.
fn channels_last(conv: &ConvGeometry, pixel: i64) -> [i64; 5] {
    let row = pixel * i64::from(conv.w);
    let slice = row * i64::from(conv.h);
    [slice * i64::from(conv.d), 1, slice, row, pixel]
}

fn plain() -> ConvGeometry {
    conv(64, [1, 20, 30], 3, Conv3dSpec::default())
}

#[test]
fn strides_are_counted_in_cells() {
    let conv = plain();
    let unpacked = config(&conv).unpacked(channels_last(&conv, 64));
    let cells = unpacked.expect("cells").geometry.cells;
    let expected = CellStrides {
        sample: 20 * 30 * 8,
        slice: 0,
        row: 30 * 8,
        column: 8,
        is_unpacked: 1,
    };
    assert_eq!(cells, expected);
    assert_eq!(cells.sample_cells(&conv), 20 * 30 * 8);
    assert_eq!(cells.all_cells(&conv), 2 * 20 * 30 * 8);
    // With gaps, the last of which is not there.
    let unpacked = config(&conv).unpacked(channels_last(&conv, 80));
    let cells = unpacked.expect("cells").geometry.cells;
    assert_eq!(cells.all_cells(&conv), 2 * 20 * 30 * 10 - 2);
}

#[test]
fn what_is_no_cell_is_packed() {
    let conv = plain();
    let wide = config(&conv);
    let last = channels_last(&conv, 64);
    assert!(wide.unpacked(last).is_some());
    let contiguous = [64 * 600, 600, 600, 30, 1];
    assert_eq!(wide.unpacked(contiguous), None);
    for (axis, stride) in [(0, 1), (0, -8), (1, 2), (3, 30 * 64 + 4), (4, 68), (4, -64)] {
        let mut strides = last;
        strides[axis] = stride;
        assert_eq!(wide.unpacked(strides), None, "{strides:?}");
    }
    // The one slice lies anywhere.
    let mut strides = last;
    strides[2] = -3;
    assert!(wide.unpacked(strides).is_some());
    // More words of a sample than 32 bits count.
    strides[3] = 1 << 33;
    assert_eq!(wide.unpacked(strides), None);
    strides[3] = i64::MAX - 7;
    assert_eq!(wide.unpacked(strides), None);
    // As many cells that in 32 bits hardly any are left of them, along the rows and the columns.
    for (axis, steps) in [(3, 19), (4, 29)] {
        let mut strides = last;
        strides[axis] = 8 * (1i64 << 32).div_euclid(steps) + 8;
        assert_eq!(wide.unpacked(strides), None, "{strides:?}");
    }
}

#[test]
fn other_formats_tiles_and_groups_are_packed() {
    let conv = plain();
    let last = channels_last(&conv, 64);
    for format in [
        OperandFormat::ROUNDED,
        OperandFormat::SPLIT,
        OperandFormat::PARTS,
    ] {
        let config = GemmConfig::with_tile(&conv, None, format, &HOPPER, WIDE).expect("a config");
        assert_eq!(config.unpacked(last), None, "{format:?}");
    }
    let format = OperandFormat::STORED;
    let narrow = GemmConfig::with_tile(&conv, None, format, &HOPPER, W64N128).expect("a config");
    assert_eq!(narrow.unpacked(last), None);
    let spec = ConvSpec {
        groups: 4,
        ..Conv3dSpec::default()
    };
    // Of 16 channels, and of 12.
    for (channels, are_cells) in [(64, true), (48, false)] {
        let conv = self::conv(channels, [1, 20, 30], 3, spec);
        let unpacked = config(&conv).unpacked(channels_last(&conv, channels as i64));
        assert_eq!(unpacked.is_some(), are_cells, "{channels}");
    }
}

#[test]
fn patches_that_reach_further_than_their_coordinates_are_packed() {
    for (dilation, are_cells) in [(200, true), (260, false)] {
        let spec = ConvSpec {
            dilation: [1, 1, dilation],
            ..Conv3dSpec::default()
        };
        let conv = conv(16, [1, 4, 2 * dilation + 8], 3, spec);
        let unpacked = config(&conv).unpacked(channels_last(&conv, 16));
        assert_eq!(unpacked.is_some(), are_cells, "{dilation}");
    }
}

#[test]
fn what_every_tile_would_bring_anew_is_packed_once() {
    // With a stride patches are so large that there are slots for two of them, of which one warp at a time fills one.
    for (extent, stride, channels, filters, is_read) in [
        (16, 2, 256, 320, false),
        (16, 1, 256, 256, true),
        (8, 1, 320, 320, true),
    ] {
        let spec = ConvSpec {
            padding: [1; 3].into(),
            stride: [stride; 3],
            ..Conv3dSpec::default()
        };
        let conv = ConvGeometry {
            group_k: filters,
            ..conv(channels, [extent; 3], 3, spec)
        };
        let packed = GemmConfig::new(&conv, None, OperandFormat::STORED, &HOPPER, None);
        let unpacked = packed.expect("a config");
        let unpacked = unpacked.unpacked(channels_last(&conv, channels as i64));
        let saves = unpacked.expect("cells").saves_packing(&HOPPER);
        assert_eq!(saves, is_read, "{channels} of {extent}^3 by {stride}");
    }
}

#[test]
fn nothing_that_decides_about_bits_changes() {
    let spec = |stride: usize, padding: usize| ConvSpec {
        stride: [stride; 3],
        padding: [padding; 3].into(),
        ..Conv3dSpec::default()
    };
    // The last has one plane, of which two columns make a step.
    let one_plane = conv(8, [1, 60, 60], 3, Conv3dSpec::default());
    for (conv, joined) in [
        (plain(), 1),
        (conv(512, [1, 64, 64], 3, Conv3dSpec::default()), 1),
        (conv(32, [32, 32, 32], 3, spec(2, 1)), 1),
        (conv(64, [16, 16, 16], 3, spec(1, 1)), 1),
        (conv(256, [1, 25, 38], 1, Conv3dSpec::default()), 1),
        (one_plane, 0),
    ] {
        let packed = config(&conv);
        let strides = channels_last(&conv, conv.input_channels().into());
        let unpacked = packed.unpacked(strides).expect("cells");
        let (from, to) = (packed.geometry, unpacked.geometry);
        let same = op_spec::launch::implicit_gemm::GemmGeometry {
            cells: from.cells,
            ..to
        };
        assert_eq!(same, from);
        assert_eq!(unpacked.splits, packed.splits);
        assert_eq!(unpacked.wide_rings(&HOPPER), packed.wide_rings(&HOPPER));
        assert_eq!(to.joined(), joined);
        assert!(to.stage_planes.is_multiple_of(to.planes_together()));
        assert!(joined == 0 || to.planes_together().is_multiple_of(2));
    }
}

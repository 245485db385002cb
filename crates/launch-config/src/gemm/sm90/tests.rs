use super::*;
use crate::{Arch, KernelGeometry};
use op_spec::ConvSpec;

const H200: GemmDevice = GemmDevice {
    multiprocessors: 132,
    shared_bytes: 227 << 10,
    arch: Arch::Sm90,
    tensor_rates: None,
};

fn conv(x: [usize; 4], k: usize, filter: usize) -> ConvGeometry {
    let weight = [k, x[1], filter, filter];
    let problem = ConvSpec::<2>::default().problem(&x, &weight, None);
    let problem = problem.expect("a sound problem");
    problem.geometry().expect("a small problem")
}

fn gemm(x: [usize; 4], k: usize) -> Result<Gemm, Refusal> {
    Gemm::new((&conv(x, k, 1), 2), (false, false), &H200)
}

#[test]
fn tiles_cover_all_results_and_fit_shared_memory() {
    for x in [
        [32, 64, 56, 56],
        [1, 8, 1, 1],
        [64, 960, 1, 1],
        [3, 72, 7, 9],
    ] {
        for k in [8, 64, 72, 256, 2048] {
            let gemm = gemm(x, k).expect("a product");
            let g = gemm.geometry;
            assert_eq!(g.pixels as usize, x[0] * x[2] * x[3]);
            assert!(g.filter_tiles * gemm.tile.filters >= g.filters());
            assert!(g.tiles / g.filter_tiles * g.tile_pixels >= g.pixels);
            assert!(g.k_blocks * g.line_values() >= g.channels() * g.conv.taps());
            assert!(g.stages >= MIN_STAGES && gemm.shape.shared_bytes <= 227 << 10);
            assert!(gemm.shape.grid[0] <= g.tiles.min(132));
        }
    }
}

#[test]
fn few_tiles_are_small_ones() {
    let tile = |x, k| gemm(x, k).expect("a product").tile;
    assert_eq!(tile([1, 512, 7, 7], 512).pixels, 64);
    assert_eq!(tile([64, 512, 56, 56], 512).filters, 128);
}

#[test]
fn windows_are_those_that_a_tensor_map_describes() {
    let good = conv([2, 16, 20, 20], 24, 3);
    let corners = |conv: &ConvGeometry| AxisWindows::of(conv).map(|[w, ..]| w.corners);
    assert_eq!(corners(&good), Ok([0, -2]));
    // At each limit, and one beyond.
    let padded = |pad_w: u32| ConvGeometry {
        pad_w,
        q: 18 + 2 * pad_w,
        ..good
    };
    assert_eq!(corners(&padded(16)), Ok([-16, 14]));
    assert!(corners(&padded(17)).is_err());
    let strided = |stride_w| ConvGeometry {
        stride_w,
        q: 2,
        ..good
    };
    assert_eq!(corners(&strided(8)), Ok([0, -11]));
    assert!(corners(&strided(9)).is_err());
    let wide = |s, q, pad_w| ConvGeometry {
        s,
        q,
        pad_w,
        ..good
    };
    assert!(corners(&wide(32, 21, 16)).is_ok());
    assert!(corners(&wide(33, 20, 16)).is_err());
    // The last window begins at most 16 in front of the last element, and 15 behind it.
    assert!(corners(&wide(17, 4, 0)).is_ok());
    assert!(corners(&wide(18, 3, 0)).is_err());
    assert!(corners(&wide(1, 35, 0)).is_ok());
    assert!(corners(&wide(1, 36, 0)).is_err());
}

#[test]
fn stages_have_taps_of_few_channels() {
    let stages = |channels, filter| {
        let conv = conv([2, channels, 20, 20], 24, filter);
        let gemm = Gemm::new((&conv, 2), (false, false), &H200).expect("a product");
        [gemm.geometry.stage_channels(), gemm.geometry.k_blocks]
    };
    assert_eq!(stages(64, 3), [64, 9]);
    assert_eq!(stages(32, 3), [32, 5]);
    assert_eq!(stages(16, 3), [16, 3]);
    assert_eq!(stages(96, 3), [32, 14]);
    assert_eq!(stages(128, 3), [64, 18]);
    assert_eq!(stages(16, 1), [64, 1]);
}

#[test]
fn stages_and_results_of_f32_have_half_as_many_values() {
    let gemm = |channels, filter| {
        let conv = conv([2, channels, 20, 20], 24, filter);
        let gemm = Gemm::new((&conv, 4), (false, false), &H200);
        gemm.expect("a product").geometry
    };
    let stages = |channels, filter| {
        let g = gemm(channels, filter);
        [g.stage_channels(), g.k_blocks]
    };
    assert_eq!(stages(64, 3), [32, 18]);
    assert_eq!(stages(16, 3), [16, 5]);
    assert_eq!(stages(8, 3), [8, 3]);
    assert_eq!(stages(48, 1), [32, 2]);
    let bytes = |g: &GemmGeometry| {
        let layout = g.layout([64, 64]);
        layout.of_channels - layout.results
    };
    let g = gemm(64, 3);
    let halves = GemmGeometry {
        element_bytes: 2,
        ..g
    };
    assert_eq!(bytes(&g), 2 * bytes(&halves));
    assert!(
        tiles(4)
            .iter()
            .all(|tile| tile.pixels * tile.filters < 128 * 128)
    );
}

#[test]
fn few_channels_become_lines_of_whole_vectors() {
    let lines_of = |bytes, channels, filter, stride_w: u32| {
        let of = conv([2, channels, 20, 40], 24, filter);
        let q = (40 - filter as u32) / stride_w + 1;
        let of = ConvGeometry { stride_w, q, ..of };
        let few = FewChannels::of(&of, bytes).expect("few vectors");
        let few = few.expect("channels that are no whole vectors");
        let input = few.input;
        // The last window's line is within its row, and rows are whole vectors.
        let row = input.row_vectors() * VECTOR_VALUES;
        assert!((q - 1) * few.window_step + few.conv.group_c <= row);
        assert_eq!(row, input.padded_columns * input.padded_channels);
        assert!(few.window_step.is_multiple_of(VECTOR_VALUES));
        // A row of the filters is whole vectors, too: a line.
        assert_eq!(
            few.filters(true).row_vectors() * VECTOR_VALUES,
            few.conv.s * few.conv.group_c
        );
        (
            input.padded_channels,
            few.conv.group_c,
            [few.conv.r, few.conv.s],
        )
    };
    let few = |channels, filter, stride_w| lines_of(2, channels, filter, stride_w);
    assert_eq!(few(3, 7, 2), (8, 56, [4, 1]));
    assert_eq!(few(3, 3, 1), (16, 48, [1, 1]));
    assert_eq!(few(3, 4, 4), (6, 24, [2, 1]));
    assert_eq!(few(1, 8, 8), (4, 32, [2, 1]));
    // Rows of more than a line, and channels of more than a vector.
    assert_eq!(few(3, 9, 1), (8, 8, [9, 9]));
    assert_eq!(few(12, 3, 1), (16, 48, [3, 1]));
    // Of f32, a line has half as many values.
    assert_eq!(lines_of(4, 3, 7, 2), (4, 32, [7, 1]));
    assert_eq!(lines_of(4, 3, 3, 1), (8, 24, [2, 1]));
    // Steps of less than 2^32 elements, and of more.
    let of = conv([2, 3, 20, 40], 24, 3);
    let filters = |stride_w| {
        let of = ConvGeometry {
            stride_w,
            q: 1,
            ..of
        };
        let few = FewChannels::of(&of, 2);
        let few = few.expect("few vectors").expect("3 channels");
        (few.conv.group_c, few.conv.s)
    };
    assert_eq!(filters(1 << 29), (24, 1));
    assert_eq!(filters((1 << 29) + 1), (8, 3));
    assert_eq!(filters(u32::MAX), (8, 3));
    let whole = conv([2, 16, 20, 40], 24, 3);
    assert_eq!(FewChannels::of(&whole, 2), Ok(None));
    // Four f32 are a whole vector.
    let whole = conv([2, 4, 20, 40], 24, 3);
    assert_eq!(FewChannels::of(&whole, 4), Ok(None));
}

/// The order of a sum does not depend on how many samples there are.
#[test]
fn rows_in_a_line_are_as_many_for_any_batch() {
    for (channels, r, s, stride_w) in [(2, 5, 3, 1), (2, 5, 3, 2), (3, 3, 3, 1), (3, 7, 7, 2)] {
        for p in 1..20 {
            let lines = |n| {
                let of = ConvGeometry {
                    n,
                    r,
                    s,
                    stride_w,
                    h: p + r - 1,
                    p,
                    w: s,
                    q: 1,
                    ..conv([1, channels, 20, 7], 24, 3)
                };
                let few = FewChannels::of(&of, 2)
                    .expect("few vectors")
                    .expect("few channels");
                [few.conv.r, few.conv.group_c]
            };
            for n in [2, 3, 7, 64] {
                assert_eq!(
                    lines(n),
                    lines(1),
                    "{channels} channels, {r} rows, {p} of output"
                );
            }
        }
    }
}

#[test]
fn other_convolutions_are_refused() {
    let refused = |conv: &ConvGeometry| Gemm::new((conv, 2), (false, false), &H200).is_err();
    let good = conv([2, 16, 5, 5], 24, 1);
    assert!(!refused(&good));
    assert!(!refused(&conv([2, 16, 5, 5], 24, 3)));
    assert!(!refused(&conv([2, 12, 5, 5], 24, 1)));
    assert!(refused(&conv([2, 16, 5, 5], 20, 1)));
    assert!(refused(&ConvGeometry {
        groups: 2,
        group_c: 8,
        group_k: 16,
        ..good
    }));
    let most = ConvGeometry {
        n: (1 << 31) - 1,
        w: 1,
        h: 1,
        p: 1,
        q: 1,
        ..good
    };
    assert!(!refused(&most));
    assert!(refused(&ConvGeometry { n: 1 << 31, ..most }));
    assert!(refused(&ConvGeometry {
        n: u64::MAX,
        ..good
    }));
}

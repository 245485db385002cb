use super::*;
use crate::KernelGeometry;
use op_spec::ConvSpec;

fn conv(x: [usize; 4], k: usize, filter: usize) -> ConvGeometry {
    let weight = [k, x[1], filter, filter];
    let problem = ConvSpec::<2>::default().problem(&x, &weight, None);
    let problem = problem.expect("a sound problem");
    problem.geometry().expect("a small problem")
}

fn gemm(x: [usize; 4], k: usize) -> Result<Gemm, Refusal> {
    Gemm::new(&conv(x, k, 1), (false, false), 132, 227 << 10)
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
            assert!(g.k_blocks * LINE_VALUES >= g.channels() * g.conv.taps());
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
fn other_convolutions_are_refused() {
    let refused = |conv: &ConvGeometry| Gemm::new(conv, (false, false), 132, 227 << 10).is_err();
    let good = conv([2, 16, 5, 5], 24, 1);
    assert!(!refused(&good));
    assert!(refused(&conv([2, 16, 5, 5], 24, 3)));
    assert!(refused(&conv([2, 12, 5, 5], 24, 1)));
    assert!(refused(&conv([2, 16, 5, 5], 20, 1)));
    assert!(refused(&ConvGeometry {
        stride_w: 2,
        ..good
    }));
    assert!(refused(&ConvGeometry { pad_h: 1, ..good }));
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

//! Matrix products on devices of any size, and copies for few channels.

use launch_config::conv::ConvGeometry;
use launch_config::gemm::{FewChannels, Gemm, PadChannelsGeometry};
use launch_config::implicit_gemm::GemmDevice;
use op_spec::{Conv3dSpec, data};

use crate::{HOPPER, conv};

#[test]
fn products_fit_devices_and_resident_filters_are_those_of_all_tiles() {
    let mut resident = 0;
    for multiprocessors in [1, 2, 3, 7, 132] {
        for shared_bytes in (40..228).map(|kibibytes| (kibibytes << 10) + 512) {
            let device = GemmDevice {
                multiprocessors,
                shared_bytes,
                ..HOPPER
            };
            for (channels, filters) in [(64, 64), (72, 520), (640, 1032)] {
                let pixels = [4, channels, 1, 28, 28];
                let conv = conv(pixels, [filters, channels, 1, 1, 1], Conv3dSpec::default());
                let Ok(gemm) = Gemm::new((&conv, 2), (false, false), &device) else {
                    continue;
                };
                let (g, shape) = (gemm.geometry, gemm.shape);
                let what = format!("{gemm} on {device:?}");
                assert!(shape.shared_bytes <= shared_bytes, "{what}");
                assert!(shape.grid[0] <= multiprocessors, "{what}");
                if g.residency.is_resident() {
                    resident += 1;
                    // A block's tiles are a grid apart, and each number of filters is a tile.
                    assert_eq!(shape.grid[0] % g.filter_tiles, 0, "{what}");
                }
            }
        }
    }
    assert!(resident > 100);
}

/// A number below `below`, of 64 bits that are drawn one after the other.
fn drawn(state: &mut u64, below: u64) -> u32 {
    *state = data::splitmix64(*state);
    ((*state >> 33) % below) as u32
}

/// A random convolution of few channels.
fn of_few_channels(seed: u64) -> Option<ConvGeometry> {
    let mut state = seed;
    let mut draw = |least: u32, below: u64| (least + drawn(&mut state, below)) as usize;
    let channels = [1, 2, 3, 4, 5, 6, 9, 12][draw(0, 8)];
    let filter = [draw(1, 2), draw(1, 5), draw(1, 7)];
    let spec = Conv3dSpec::default()
        .stride([draw(1, 2), draw(1, 4), draw(1, 4)])
        .padding([draw(0, 2), draw(0, 3), draw(0, 4)])
        .dilation([1, draw(1, 3), [1, 1, 2][draw(0, 3)]]);
    let image = [draw(1, 3), draw(1, 12), draw(1, 16)];
    let input = [draw(1, 2), channels, image[0], image[1], image[2]];
    let weight = [8, channels, filter[0], filter[1], filter[2]];
    spec.problem(&input, &weight, None).ok()?;
    Some(conv(input, weight, spec))
}

/// The copy that a geometry describes.
fn copied(g: &PadChannelsGeometry, source: impl Fn(u64) -> i64) -> Vec<i64> {
    let mut copy = Vec::new();
    for slice in 0..g.slices {
        let [of_sample, of_slice] = g.outer_strides;
        let start = u64::from(slice / g.sample_slices) * of_sample
            + u64::from(slice % g.sample_slices) * of_slice;
        for row in 0..g.padded_rows {
            for column in 0..g.padded_columns {
                for value in 0..g.padded_channels {
                    let (joined, channel) = (value / g.channels, value % g.channels);
                    let from = (row * g.row_step + joined * g.joined_step).wrapping_sub(g.lead[0]);
                    let column = column.wrapping_sub(g.lead[1]);
                    let is_there = joined < g.joined_rows && from < g.rows && column < g.columns;
                    copy.push(if is_there {
                        let [of_channel, of_row, of_column] = g.strides;
                        let of_slice = channel * of_channel + from * of_row + column * of_column;
                        source(start + u64::from(of_slice))
                    } else {
                        0
                    });
                }
            }
        }
    }
    assert_eq!(copy.len() as u64, g.elements());
    copy
}

/// The sums of a convolution. `x` returns the inputs of a sample, of a slice, row and column, for all
/// channels, and `weight` those of a filter and a tap.
fn convolved<'a>(
    g: &ConvGeometry,
    x: impl Fn([u32; 4]) -> &'a [i64],
    weight: impl Fn([u32; 4]) -> &'a [i64],
) -> Vec<i64> {
    let mut sums = Vec::new();
    for (sample, z, p, q, k) in (0..g.n as u32).flat_map(|n| {
        let outputs = move |z| (0..g.p).flat_map(move |p| (0..g.q).map(move |q| (z, p, q)));
        let of_filters = move |(z, p, q)| (0..g.group_k).map(move |k| (n, z, p, q, k));
        (0..g.z).flat_map(outputs).flat_map(of_filters)
    }) {
        let mut sum = 0;
        for (t, r, s) in
            (0..g.t).flat_map(|t| (0..g.r).flat_map(move |r| (0..g.s).map(move |s| (t, r, s))))
        {
            let d = (z * g.stride_d + t * g.dilation_d).wrapping_sub(g.pad_d);
            let h = (p * g.stride_h + r * g.dilation_h).wrapping_sub(g.pad_h);
            let w = (q * g.stride_w + s * g.dilation_w).wrapping_sub(g.pad_w);
            if d < g.d && h < g.h && w < g.w {
                let products = x([sample, d, h, w]).iter().zip(weight([k, t, r, s]));
                sum += products.map(|(x, w)| x * w).sum::<i64>();
            }
        }
        sums.push(sum);
    }
    sums
}

#[test]
fn convolutions_of_copies_have_the_same_results() {
    let value = |at: u64| (data::splitmix64(at) >> 60) as i64 - 7;
    let (mut with_lines, mut dense) = (0, 0);
    for (conv, element_bytes) in (0..3000).filter_map(|seed| Some((of_few_channels(seed)?, 2))) {
        let few = FewChannels::of(&conv, element_bytes).expect("small copies");
        let Some(few) = few else { continue };
        let of = &few.conv;
        // Channels-last originals.
        let channels = conv.group_c as usize;
        let all = conv.n as usize * conv.input_pixels() as usize * channels;
        let x: Vec<i64> = (0..all as u64).map(value).collect();
        let filters = conv.group_k as usize * conv.reduction() as usize;
        let weight: Vec<i64> = (0..filters as u64)
            .map(|at| value(at + (1 << 40)))
            .collect();
        let wanted = convolved(
            &conv,
            |[n, d, h, w]| {
                let pixel = ((n * conv.d + d) * conv.h + h) * conv.w + w;
                &x[pixel as usize * channels..][..channels]
            },
            |[k, t, r, s]| {
                let tap = ((k * conv.t + t) * conv.r + r) * conv.s + s;
                &weight[tap as usize * channels..][..channels]
            },
        );
        let of_input = copied(&few.input, |at| x[at as usize]);
        let of_filters = copied(&few.filters(true), |at| weight[at as usize]);
        let line = of.group_c as usize;
        let pitch = few.input.padded_columns * few.input.padded_channels;
        let place = |[n, d, h, w]: [u32; 4]| {
            let row = (n * of.d + d) * few.input.padded_rows + h;
            (row * pitch + w * few.window_step) as usize
        };
        let taps = |[k, t, r, s]: [u32; 4]| {
            &of_filters[(((k * of.t + t) * of.r + r) * of.s + s) as usize * line..][..line]
        };
        let sums = convolved(of, |at| &of_input[place(at)..][..line], taps);
        assert_eq!(sums, wanted, "{conv:?}");
        // Tensor maps take strides of whole units.
        let are_whole = [few.window_step, pitch, of.group_c].map(|values| values % 8);
        assert_eq!(are_whole, [0; 3], "{conv:?}");
        let is_dense = few.input.padded_rows == of.h
            && (0..of.h.min(2))
                .all(|h| (0..of.w).all(|w| place([0, 0, h, w]) == (h * of.w + w) as usize * line));
        assert!(!few.is_dense() || is_dense, "{conv:?}");
        with_lines += usize::from(of.s == 1 && conv.s > 1);
        dense += usize::from(few.is_dense());
    }
    assert!(with_lines > 200 && dense > 20, "{with_lines} {dense}");
}

//! Random convolutions. The axes of each differ in stride, dilation, padding and extent, so a kernel that
//! confuses two axes fails. Each tile of the implicit GEMM gets one convolution of each kind of launch: with
//! tiles along every axis, with a single axis that tiles do not divide, and other kinds that a hand-written
//! table might miss.

use launch_config::KernelGeometry;
use std::ops::Range;

use cuda_std::{Storage, bf16, f16};
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{
    GemmConfig, GemmTile, MMA_STEP_K_VECTORS, MmaOperands, OperandFormat, PROMOTION_MMA_STEPS,
    TILES, WARP_SPECIALIZED,
};
use op_spec::ConvSpec;
use op_spec::graph::Layer;

use super::convolved::{Bf16x3, Convolution, DEVICE, F16x2, Operand, ScaledF16};
use super::implicit_gemm::{check_config, check_convolution};
use super::rows::Row;
use super::{
    Failure, Outcome, Run, conv, depthwise, implicit_gemm_channels_last, implicit_gemm_without_norm,
};

/// A random number generator.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from `least` to `max`.
    pub(super) fn from(&mut self, least: usize, max: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + (self.0 >> 33) as usize % (max - least + 1)
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.from(0, all.len() - 1)]
    }

    /// The three numbers in random order.
    pub(super) fn apart(&mut self, mut three: [usize; 3]) -> [usize; 3] {
        for axis in [2, 1] {
            three.swap(axis, self.from(0, axis));
        }
        three
    }
}

/// The most products of a convolution; more take long in the emulator.
const MAX_PRODUCTS: usize = 1_500_000;

impl Row {
    /// A random volume, or an image if it is pooled, of few products.
    fn drawn(draw: &mut Draw, pools: bool) -> Self {
        loop {
            // With an axis of one tap and one without padding, or with neither.
            let more = draw.from(0, 1);
            let mut filter = draw.apart([1, 2, 3]).map(|taps| taps + more);
            let mut stride = draw.apart([1, 2, 3]);
            let (mut dilation, mut padding) = (draw.apart([1, 2, 3]), draw.apart([0, 1, 2]));
            padding = padding.map(|padding| padding + more);
            let is_broad = draw.from(0, 1) == 0;
            let mut output = match is_broad {
                true => [draw.from(2, 7), draw.from(3, 24), draw.from(4, 70)],
                false => [draw.from(2, 5), draw.from(3, 9), draw.from(4, 24)],
            };
            if draw.from(0, 2) == 0 {
                // Extents that a tile may cover completely.
                (output[1], output[2]) = (draw.of(&[4, 8, 16]), draw.of(&[8, 16, 32]));
            }
            let (is_plain, is_image) = (draw.from(0, 2) == 0, pools || draw.from(0, 2) == 0);
            if is_plain {
                (stride, dilation, padding) = ([1; 3], [1; 3], [0; 3]);
            }
            if draw.from(0, 2) == 0 {
                filter[2] = draw.from(3, 7);
            }
            if is_image {
                (filter[0], stride[0], dilation[0]) = (1, 1, 1);
                (padding[0], output[0]) = (0, 1);
            }
            let groups = draw.of(&[1, 1, 2, 3]);
            let (of_group, filters) = match is_broad {
                true => (draw.from(1, 4), draw.from(1, 5)),
                false => (draw.of(&[3, 7, 8, 16, 24, 40]), draw.from(1, 23)),
            };
            let input = [0, 1, 2].map(|axis| {
                let reach =
                    (output[axis] - 1) * stride[axis] + (filter[axis] - 1) * dilation[axis] + 1;
                // Up to one element less than one more output would need.
                let unused = draw.from(0, stride[axis] - 1);
                (reach + unused).saturating_sub(2 * padding[axis])
            });
            let outputs: usize = output.iter().product();
            let taps: usize = filter.iter().product();
            let products = outputs * taps * of_group * filters * groups;
            let is_long = of_group * taps > 1024;
            if products > MAX_PRODUCTS || is_long || input.contains(&0) {
                continue;
            }
            let pool = pools.then(|| [draw.from(1, 5) as u32, draw.from(1, 7) as u32]);
            let has_window =
                pool.is_none_or(|[h, w]| output[1] >= h as usize && output[2] >= w as usize);
            if !has_window {
                continue;
            }
            let channels = [draw.from(1, 2), groups * of_group, groups * filters];
            let mut row = Self::new(channels, input, filter).groups(groups);
            row = row.stride(stride).padding(padding).dilation(dilation);
            row.pool = pool;
            return row;
        }
    }

    /// The draw with the fewest products out of a few.
    fn small(draw: &mut Draw, pools: bool) -> Self {
        let drawn = [(); 8].map(|()| Self::drawn(draw, pools));
        let least = drawn.into_iter().min_by_key(|drawn| {
            let g = drawn.geometry();
            g.n * u64::from(g.output_pixels() * g.output_channels() * g.reduction())
        });
        least.expect("several draws")
    }

    fn geometry(&self) -> ConvGeometry {
        let ([_, c, k], [t, r, s]) = (self.channels, self.filter);
        let weight = [k, c / self.attributes.groups, t, r, s];
        let problem = self.attributes.problem(&self.shape(), &weight, None);
        problem
            .expect("a sound problem")
            .geometry()
            .expect("a small problem")
    }
}

/// A predicate of launches.
type Kind = fn(&GemmConfig) -> bool;

/// The kinds of launches. Each tile gets one of each kind, where possible.
const KINDS: [(&str, Kind); 11] = [
    (
        "several tiles along each axis, the last of each a part",
        |config| {
            // Tiles of one slice have no partial tile.
            let is_flat = config.geometry.tile_d == 1;
            let [(d, left), h, w] = tiles(config);
            d > 1
                && (left > 0 || is_flat)
                && [h, w].iter().all(|&(count, left)| count > 1 && left > 0)
        },
    ),
    (
        "several tiles along rows and columns of an image",
        |config| {
            let [(d, _), h, w] = tiles(config);
            d == 1 && [h, w].iter().all(|&(count, left)| count > 1 && left > 0)
        },
    ),
    ("whole tiles, but for their depth", |config| {
        is_left(config, 0)
    }),
    ("whole tiles, but for their rows", |config| {
        is_left(config, 1)
    }),
    ("whole tiles, but for their columns", |config| {
        is_left(config, 2)
    }),
    ("K-vectors of one channel", |config| {
        config.geometry.k_vector_channels == 1
    }),
    ("K-vectors of two channels", |config| {
        config.geometry.k_vector_channels == 2
    }),
    ("K-vectors of four channels", |config| {
        config.geometry.k_vector_channels == 4
    }),
    ("K blocks, the last of which has fewer planes", |config| {
        let g = &config.geometry;
        g.k_blocks > 2 * g.depth_k_blocks && g.planes % g.k_block_planes != 0
    }),
    (
        "an odd number of K-vectors, or of columns that go in pairs",
        |config| {
            let g = &config.geometry;
            let is_odd = match g.operands {
                MmaOperands::LDMATRIX => g.k_block_k_vectors() % MMA_STEP_K_VECTORS == 1,
                _ => g.pair_k_vectors > 0 && g.column_taps % MMA_STEP_K_VECTORS == 1,
            };
            is_odd && g.pixel_tiles() > 1
        },
    ),
    (
        "several tiles of more steps than an accumulator takes before its promotion",
        |config| {
            let g = &config.geometry;
            g.k_blocks * g.mma_steps > 2 * PROMOTION_MMA_STEPS
                && g.work_tiles() > 1
                && g.k_blocks > 1
        },
    ),
];

/// The number of tiles along each axis, and the unused extent of the last one.
fn tiles(config: &GemmConfig) -> [(u32, u32); 3] {
    let (g, conv) = (&config.geometry, &config.geometry.conv);
    [
        (g.tiles_d, g.tiles_d * g.tile_d - conv.z),
        (g.tiles_h, g.tiles_h * g.tile_h - conv.p),
        (g.tiles_w, g.tiles_w * g.tile_w - conv.q),
    ]
}

/// Whether tiles have all of their pixels, and only this axis is not a multiple of the tile's extent.
fn is_left(config: &GemmConfig, axis: usize) -> bool {
    let left = tiles(config).map(|(_, left)| left > 0);
    let is_full = config.geometry.tile_pixels() == config.tile.pixels();
    is_full && left == std::array::from_fn(|other| other == axis)
}

/// The number of draws that are searched for a kind, and the number of matches from which the one of least
/// work is taken. Fewer draws suffice for every kind that a tile supports.
const TRIES: usize = 4000;
const CANDIDATES: usize = 6;

/// Finds a draw of a kind.
fn find(seed: usize, tile: GemmTile, format: OperandFormat, kind: Kind) -> Option<Row> {
    let mut draw = Draw::new(1 + seed as u64);
    let candidates = (0..TRIES).filter_map(|n| {
        let drawn = Row::drawn(&mut draw, tile != WARP_SPECIALIZED && n % 3 == 0);
        let config = GemmConfig::with_tile(&drawn.geometry(), drawn.pool, format, &DEVICE, tile)?;
        let g = &config.geometry;
        let mma_steps = g.work_tiles() * u64::from(g.filter_sets() * g.k_blocks * g.mma_steps);
        let work = mma_steps * u64::from(tile.pixels() * tile.filters());
        kind(&config).then_some((work, drawn))
    });
    let least = candidates.take(CANDIDATES).min_by_key(|(work, _)| *work);
    least.map(|(_, drawn)| drawn)
}

/// Checks a launch of each kind with each of these tiles, where the tile supports the kind.
fn each_kind(run: &Run, tiles: Range<usize>) -> Outcome {
    let mut found = [0; KINDS.len()];
    for (number, &tile) in TILES.iter().enumerate().take(tiles.end).skip(tiles.start) {
        for (index, (name, kind)) in KINDS.into_iter().enumerate() {
            let seed = KINDS.len() * number + index;
            // Of the many warp tiles, three for each kind.
            if tiles.len() > 2 && (number + index) % tiles.len() > 2 {
                continue;
            }
            found[index] += match seed % 4 {
                0 => check::<F16x2>(run, seed, tile, name, kind)?,
                1 => check::<ScaledF16>(run, seed, tile, name, kind)?,
                2 => check::<f16>(run, seed, tile, name, kind)?,
                _ => check::<bf16>(run, seed, tile, name, kind)?,
            };
        }
    }
    match found.contains(&0) {
        false => Ok(()),
        true => Err(Failure::new(format!("none of a kind: {found:?}"))),
    }
}

/// Checks warp tiles.
pub(crate) fn warps(run: &Run) -> Outcome {
    each_kind(run, 0..TILES.len() - 2)
}

/// Checks warpgroup tiles.
pub(crate) fn warpgroups(run: &Run) -> Outcome {
    each_kind(run, TILES.len() - 2..TILES.len())?;
    let mut draw = Draw::new(23);
    let mut checked = 0;
    while checked < 4 {
        let drawn = Row::small(&mut draw, false);
        checked += match checked % 2 {
            0 => two_outputs::<f16>(run, drawn)?,
            _ => two_outputs::<F16x2>(run, drawn)?,
        };
    }
    Ok(())
}

/// Checks filters that compute two outputs in depth, where supported. Returns the number of launches.
fn two_outputs<F: Operand>(run: &Run, drawn: Row) -> Result<usize, Failure> {
    let conv = Convolution::new::<F::Stored>(drawn);
    let config = GemmConfig::with_two_outputs(&conv.geometry, F::OPERANDS, &DEVICE);
    let Some(config) = config else {
        return Ok(0);
    };
    let what = format!("two outputs, {drawn:?}");
    check_config::<F>(run, &what, &conv, &config)?;
    Ok(1)
}

/// Checks one launch of a kind, if there is one. Returns the number of launches.
fn check<F: Operand>(
    run: &Run,
    seed: usize,
    tile: GemmTile,
    name: &str,
    kind: Kind,
) -> Result<usize, Failure> {
    let Some(drawn) = find(seed, tile, F::OPERANDS, kind) else {
        return Ok(0);
    };
    let conv = Convolution::new::<F::Stored>(drawn);
    let what = format!("{name}, {drawn:?}");
    check_convolution::<F>(run, &what, &conv, Some(tile))?;
    Ok(1)
}

/// Checks convolutions without a norm: non-finite values, batch norms, functions; also inputs in K-vector
/// layout.
pub(crate) fn without_norm(run: &Run) -> Outcome {
    let mut draw = Draw::new(7);
    for n in 0..6 {
        let mut drawn = Row::small(&mut draw, false);
        drawn.batch_norm = n % 2 == 0;
        match n % 3 {
            0 => implicit_gemm_without_norm::drawn::<f16>(run, drawn)?,
            1 => implicit_gemm_without_norm::drawn::<ScaledF16>(run, drawn)?,
            _ => implicit_gemm_without_norm::drawn::<Bf16x3>(run, drawn)?,
        }
    }
    let mut of_k_vectors = 0;
    while of_k_vectors < 3 {
        let mut drawn = Row::small(&mut draw, false);
        drawn.channels[1] = drawn.attributes.groups * draw.of(&[8, 16]);
        let (what, conv) = (format!("{drawn:?}"), Convolution::new::<bf16>(drawn));
        of_k_vectors += implicit_gemm_channels_last::drawn::<bf16>(run, &what, conv)?;
    }
    Ok(())
}

/// Checks depthwise convolutions, with and without pooling windows. Half are large enough for items at no
/// edge or at one edge.
pub(crate) fn depthwise<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(11);
    for n in 0..32 {
        let mut drawn = Row::drawn(&mut draw, n % 4 == 0);
        let channels = draw.from(1, 3);
        drawn.channels[1..].fill(channels);
        drawn.attributes.groups = channels;
        if n % 4 < 2 {
            drawn.input[1] += draw.from(24, 40);
            drawn.input[2] += draw.from(50, 80);
        }
        depthwise::check::<T>(run, &format!("{drawn:?}"), &Convolution::new::<T>(drawn))?;
    }
    Ok(())
}

/// [`depthwise`] without a norm, with whole vectors of channels.
pub(crate) fn depthwise_nhwc<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(29);
    for n in 0..24 {
        let mut drawn = Row::drawn(&mut draw, false);
        let channels = 4 * draw.from(1, 3);
        drawn.channels[1..].fill(channels);
        drawn.attributes.groups = channels;
        // Half have windows that slide.
        if n % 2 == 0 {
            drawn.attributes.dilation[2] = 1;
            drawn.attributes.stride[2] = draw.from(1, 2);
        }
        depthwise::check_without_norm::<T>(run, &format!("{drawn:?}"), &drawn)?;
    }
    // Small square filters of images.
    for _ in 0..12 {
        let mut drawn = Row::drawn(&mut draw, false);
        let channels = 2 * draw.from(1, 9);
        drawn.channels[1..].fill(channels);
        let (filter, stride) = draw.of(&[(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)]);
        drawn.filter = [1, filter, filter];
        let padding = [0, draw.from(1, 3), draw.from(0, 3)];
        drawn.attributes = ConvSpec::default().groups(channels).padding(padding);
        drawn.attributes.stride = [1, stride, stride];
        drawn.input = [1, draw.from(filter, 12), draw.from(filter, 20)];
        depthwise::check_without_norm::<T>(run, &format!("{drawn:?}"), &drawn)?;
    }
    Ok(())
}

/// Checks convolutions without tensor cores.
pub(crate) fn on_cores<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(13);
    for n in 0..6 {
        let mut drawn = Row::small(&mut draw, n % 4 == 0);
        (drawn.channels[0], drawn.has_bias) = (3, n % 2 == 0);
        conv::check_direct::<T, 3>(run, &(Layer::from(drawn.layer()), drawn.shape()))?;
    }
    Ok(())
}

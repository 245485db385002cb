//! With split axes, `y[n, c, g, ..] = x[n, g, c, ..]` for channels, and
//! `y[n, c, h, i, w, j] = x[n, c, i, j, h, w]` for pixels, or its inverse. *Passes on* `t` unchanged.

use ndarray::ArrayD;
use op_spec::{ShuffleProblem, ShuffleSpec};

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for ShuffleProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        shuffled(self.spec, x)
    }

    fn tolerance(&self, _: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        shuffled(self.spec, &t)
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        self.elements() as u64
    }
}

fn shuffled(spec: ShuffleSpec, x: &ArrayD<f64>) -> ArrayD<f64> {
    let (n, c, spatial) = (x.shape()[0], x.shape()[1], &x.shape()[2..]);
    let (split, axes, joined) = match spec {
        ShuffleSpec::ChannelShuffle { groups } => (
            vec![n, groups, c / groups, spatial.iter().product()],
            vec![0, 2, 1, 3],
            x.shape().to_vec(),
        ),
        ShuffleSpec::PixelShuffle { upscale_factor: r } => (
            vec![n, c / (r * r), r, r, spatial[0], spatial[1]],
            vec![0, 1, 4, 2, 5, 3],
            vec![n, c / (r * r), spatial[0] * r, spatial[1] * r],
        ),
        ShuffleSpec::PixelUnshuffle {
            downscale_factor: r,
        } => (
            vec![n, c, spatial[0] / r, r, spatial[1] / r, r],
            vec![0, 1, 3, 5, 2, 4],
            vec![n, c * r * r, spatial[0] / r, spatial[1] / r],
        ),
        _ => unreachable!("every shuffle is defined here"),
    };
    let x = x.to_shape(split).expect("as many elements");
    let y = x.permuted_axes(axes);
    y.to_shape(joined).expect("as many elements").into_owned()
}

pub(super) const CHANNEL_SHUFFLE: Cases = cases!(
    "channel_shuffle", "groups=2",
    smoke: "
        plain 2x6x5x7",
    ragged: "
        sequences 3x15x19 groups=5
        volumes 2x12x3x4x5 groups=3
        one_group 2x3x5x7 groups=1
        groups_of_one 2x3x5x7 groups=3
        vectors 2x16x9x5 groups=4
        empty_batch 0x4x5
        one_value 1x1x1x1 groups=1
        nan_and_infinities 2x6x29x31 special",
    realistic: "
        shuffle_net 2x116x28x28"
);

pub(super) const PIXEL_SHUFFLE: Cases = cases!(
    "pixel_shuffle", "upscale_factor=2",
    smoke: "
        plain 2x12x5x7",
    ragged: "
        thirds 3x18x4x5 upscale_factor=3
        same 2x3x5x7 upscale_factor=1
        one_channel 1x49x3x5 upscale_factor=7
        one_pixel 5x8x1x1
        vectors 2x32x8x4
        empty_batch 0x4x5x3
        nan_and_infinities 2x8x29x31 special",
    realistic: "
        espcn 1x27x64x64 upscale_factor=3"
);

pub(super) const PIXEL_UNSHUFFLE: Cases = cases!(
    "pixel_unshuffle", "downscale_factor=2",
    smoke: "
        plain 2x3x10x14",
    ragged: "
        thirds 3x2x12x15 downscale_factor=3
        same 2x3x5x7 downscale_factor=1
        one_channel 1x1x21x35 downscale_factor=7
        to_one_pixel 5x2x2x2
        vectors 2x8x16x8
        empty_batch 0x4x6x2
        nan_and_infinities 2x2x58x62 special",
    realistic: "
        focus 1x3x128x128"
);

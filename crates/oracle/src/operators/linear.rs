//! `y[n, k] = bias[k] + sum over c of weight[k, c] * x[n, c]`, at each position if there are any. It is
//! computed and judged as a [convolution](super::conv) whose filters have one element.

use crate::Cases;
use crate::cases::cases;

pub(super) const CASES: Cases = cases!(
    "linear", "name=linear",
    smoke: "
        plain 3x20 in_features=20 out_features=7",
    ragged: "
        one_value 1x1 in_features=1 out_features=1
        no_bias 5x13 in_features=13 out_features=11 bias=false
        empty_batch 0x5 in_features=5 out_features=3
        without_batch 24 in_features=24 out_features=16
        pixels 2x13x5x7 in_features=13 out_features=11 dim=1
        voxels 2x8x3x4x5 in_features=8 out_features=16 dim=1 bias=false
        sequences 3x24x19 in_features=24 out_features=40 dim=1
        primes 37x131 in_features=131 out_features=67
        batch_of_a_tile 64x64 in_features=64 out_features=64
        nan_and_infinities 5x67 in_features=67 out_features=31 special",
    realistic: "
        mnist_head 4x84 in_features=84 out_features=10
        conv_next 2x96x28x28 in_features=96 out_features=384 dim=1
        resnet_head 2x512 in_features=512 out_features=1000"
);

//! Cases of convolutions.

use crate::Cases;
use crate::cases::cases;

const CONV: &str = "name=conv kernel_size=3";

pub(in super::super) const CONV1D: Cases = cases!(
    "conv1d", CONV,
    smoke: "plain 2x3x12 out_channels=4",
    ragged: "
        one_value 1x1x1 out_channels=1 kernel_size=1
        empty_batch 0x3x7 out_channels=5
        primes 3x5x101 out_channels=7
        filter_as_large_as_sequence 2x3x5 out_channels=11 kernel_size=5
        stride_3_padding_4_dilation_2_groups_3 2x6x29 \
            out_channels=9 kernel_size=4 stride=3 padding=4 dilation=2 groups=3
        depthwise 2x13x31 out_channels=26 padding=1 groups=13
        same_of_an_even_filter 2x3x19 out_channels=5 kernel_size=2 padding=same dilation=4
        reflect 2x3x7 out_channels=5 padding=6 padding_mode=reflect
        replicate 2x3x5 out_channels=5 padding=9 padding_mode=replicate
        circular 2x3x7 out_channels=5 padding=7 padding_mode=circular special",
    realistic: "
        speech_encoder 1x80x300 out_channels=64 padding=same
        dilated 1x16x256 out_channels=24 padding=same dilation=16"
);

pub(in super::super) const CONV2D: Cases = cases!(
    "conv2d", CONV,
    smoke: "plain 2x3x10x12 out_channels=4",
    ragged: "
        one_pixel 1x1x1x1 out_channels=1 kernel_size=1
        empty_batch 0x3x7x9 out_channels=5 kernel_size=[3,2]
        primes 3x5x13x29 out_channels=7 bias=false
        filter_as_large_as_image 2x3x5x7 out_channels=11 kernel_size=[5,7]
        row_filter 1x2x4x67 out_channels=3 kernel_size=[1,9]
        column_filter 1x2x67x3 out_channels=3 kernel_size=[9,1]
        stride_2x3_padding_1x4_dilation_3x2_groups_3 2x6x23x19 \
            out_channels=9 kernel_size=[3,5] stride=[2,3] padding=[1,4] dilation=[3,2] groups=3
        depthwise 2x13x11x17 out_channels=26 padding=1 groups=13 bias=false
        padding_wider_than_image 1x2x2x3 out_channels=3 padding=[5,4]
        stride_beyond_filter 1x3x31x37 out_channels=5 kernel_size=[2,3] stride=[7,5]
        same 2x4x9x11 out_channels=6 kernel_size=[3,5] padding=same groups=2
        same_of_an_even_filter 2x4x9x11 out_channels=6 kernel_size=[4,2] padding=same groups=2 dilation=[1,3]
        reflect 2x3x5x9 out_channels=5 padding=[4,1] padding_mode=reflect
        replicate 2x3x5x9 out_channels=5 padding=[7,2] padding_mode=replicate
        circular 2x3x5x9 out_channels=5 padding=[5,0] padding_mode=circular
        reflect_strided 2x3x13x17 \
            out_channels=4 kernel_size=[3,4] stride=[2,3] padding=[1,2] padding_mode=reflect bias=false
        same_replicate_of_an_even_filter 0x3x13x17 \
            out_channels=4 kernel_size=[2,4] padding=same padding_mode=replicate bias=false",
    realistic: "
        resnet_stem 1x3x112x112 out_channels=64 kernel_size=7 stride=2 padding=3 bias=false
        resnet_block 2x64x28x28 out_channels=64 padding=1
        pointwise 2x96x27x27 out_channels=40 kernel_size=1
        squeeze 1x64x14x14 out_channels=40 kernel_size=1
        mobilenet_depthwise 2x96x30x30 out_channels=96 padding=1 groups=96"
);

pub(in super::super) const CONV3D: Cases = cases!(
    "conv3d", CONV,
    smoke: "plain 2x2x5x6x7 out_channels=3",
    ragged: "
        one_voxel 1x1x1x1x1 out_channels=1 kernel_size=1 bias=false
        empty_batch 0x2x4x5x6 out_channels=3 kernel_size=2
        primes 2x3x5x11x7 out_channels=13 kernel_size=[2,3,5]
        slice_filter 1x2x7x5x9 out_channels=3 kernel_size=[1,3,3]
        stride_2x1x3_padding_1x0x2_dilation_1x2x3_groups_2 2x4x9x8x17 \
            out_channels=6 kernel_size=[3,2,3] stride=[2,1,3] padding=[1,0,2] dilation=[1,2,3] groups=2
        same_of_an_even_filter 1x2x4x5x7 out_channels=3 kernel_size=[2,3,4] padding=same
        reflect 1x2x4x5x7 out_channels=3 padding=[1,2,3] padding_mode=reflect
        replicate 1x2x4x5x7 out_channels=3 padding=[5,0,1] padding_mode=replicate
        circular 1x2x4x5x7 out_channels=3 padding=[4,1,2] padding_mode=circular",
    realistic: "
        video_block 1x16x8x28x28 out_channels=32 padding=1
        bottleneck 1x8x4x14x14 out_channels=8"
);

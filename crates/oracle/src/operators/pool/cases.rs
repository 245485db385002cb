//! The cases of pools.

use crate::Cases;
use crate::cases::cases;

pub(in super::super) const MAX_POOL3D: Cases = cases!(
    "max_pool3d", "",
    smoke: "plain 2x3x4x6x8 kernel_size=2",
    ragged: "
        empty_batch 0x3x4x8x9 kernel_size=[2,3,1]
        identity 2x3x2x5x7 kernel_size=1
        whole_volume 2x3x2x5x7 kernel_size=[2,5,7]
        overlapping_with_pad 2x3x7x11x13 kernel_size=[3,5,2] stride=[2,1,3] padding=[1,2,0]
        dilated_ceil_mode 1x5x11x9x17 \
            kernel_size=[3,2,2] stride=[3,2,1] padding=1 dilation=[2,1,3] ceil_mode=true
        window_around_a_single_voxel 1x2x1x1x1 kernel_size=2 stride=1 padding=1 dilation=2
        windows_around_all_rows 2x3x4x5x7 kernel_size=2 stride=1 padding=[0,1,0] dilation=[1,6,1]
        nan_and_infinities 2x3x7x9x11 kernel_size=[2,3,2] special
        nan_with_pad 1x2x11x7x13 kernel_size=[3,5,2] stride=[2,1,3] padding=[1,2,0] special",
    realistic: "
        unet 1x32x16x32x32 kernel_size=2
        stem 1x8x8x28x28 kernel_size=3 stride=2 padding=1"
);

pub(in super::super) const AVG_POOL2D: Cases = cases!(
    "avg_pool2d", "",
    smoke: "plain 2x3x8x12 kernel_size=2",
    ragged: "
        empty_batch 0x3x8x9 kernel_size=[2,3]
        identity 2x3x5x7 kernel_size=1
        whole_image 2x3x5x7 kernel_size=[5,7]
        whole_image_divided 2x3x5x7 kernel_size=[5,7] divisor_override=3
        pad 2x3x13x11 kernel_size=[3,5] stride=[2,1] padding=[1,2]
        pad_not_counted 2x3x13x11 kernel_size=[3,5] stride=[2,1] padding=[1,2] count_include_pad=false
        ceil_mode 1x5x17x23 kernel_size=[4,3] stride=[3,5] padding=[2,1] ceil_mode=true
        ceil_mode_not_counted 1x5x17x23 \
            kernel_size=[4,3] stride=[3,5] padding=[2,1] ceil_mode=true count_include_pad=false
        long_rows 1x2x1x1700 kernel_size=[1,8] stride=1 padding=[0,4] special
        long_rows_not_counted 1x2x1x1700 kernel_size=[1,5] stride=1 padding=[0,2] count_include_pad=false
        divided 2x3x13x11 kernel_size=[3,5] stride=[2,1] padding=[1,2] divisor_override=-7
        largest_divisor 1x2x4x4 kernel_size=2 divisor_override=9223372036854775807
        shifted 1x2x33x31 kernel_size=[11,7] shifted=1000
        nan_and_infinities 2x3x29x31 kernel_size=[3,2] special
        nan_with_pad 1x2x31x29 kernel_size=[3,5] stride=[2,1] padding=[1,2] count_include_pad=false special",
    realistic: "
        transition 2x64x28x28 kernel_size=2
        pyramid 1x16x60x60 kernel_size=20
        head 4x128x7x7 kernel_size=7"
);

pub(in super::super) const AVG_POOL3D: Cases = cases!(
    "avg_pool3d", "",
    smoke: "plain 2x3x4x6x8 kernel_size=2",
    ragged: "
        empty_batch 0x3x4x8x9 kernel_size=[2,3,1]
        identity 2x3x2x5x7 kernel_size=1
        whole_volume 2x3x2x5x7 kernel_size=[2,5,7]
        pad 2x3x7x11x13 kernel_size=[3,5,2] stride=[2,1,3] padding=[1,2,0]
        pad_not_counted 2x3x7x11x13 kernel_size=[3,5,2] stride=[2,1,3] padding=[1,2,0] count_include_pad=false
        ceil_mode 1x5x11x9x17 kernel_size=[2,3,3] stride=[3,2,4] padding=1 ceil_mode=true
        divided 1x5x11x9x17 kernel_size=[2,3,3] stride=[3,2,4] padding=1 ceil_mode=true divisor_override=5
        nan_and_infinities 2x3x7x9x11 kernel_size=[2,3,2] special
        nan_with_pad 1x2x11x7x13 \
            kernel_size=[3,5,2] stride=[2,1,3] padding=[1,2,0] count_include_pad=false special",
    realistic: "
        video 1x16x8x28x28 kernel_size=2
        head 2x64x2x7x7 kernel_size=[2,7,7]"
);

// The planes of the `parts` cases span several parts, the last one partial. Lengths are multiples of a
// vector or not.
pub(in super::super) const ADAPTIVE_AVG_POOL2D: Cases = cases!(
    "adaptive_avg_pool2d", "output_size=1",
    smoke: "plain 2x3x8x12",
    ragged: "
        empty_batch 0x3x8x9
        one_value 2x3x1x1
        row 2x5x1x129
        odd_planes 3x7x13x11
        shifted 2x3x41x53 shifted=1000
        bins 2x3x12x18 output_size=[2,3]
        same 2x3x5x7 output_size=[5,7]
        rows 2x16x6x8 output_size=[6,1]
        nan_and_infinities_in_bins 2x31x6x14 output_size=[3,2] special
        parts 1x2x4x2049
        odd_parts 2x1x11x1117
        nan_and_infinities 2x31x5x7 special
        poisoned_parts 1x2x67x71 poisoned",
    realistic: "
        resnet 4x512x7x7
        high_resolution 1x2x512x384"
);

pub(in super::super) const ADAPTIVE_AVG_POOL3D: Cases = cases!(
    "adaptive_avg_pool3d", "output_size=1",
    smoke: "plain 2x3x4x6x8",
    ragged: "
        empty_batch 0x3x4x5x6
        one_value 2x3x1x1x1
        odd_volumes 2x5x3x7x11
        bins 2x3x4x6x8 output_size=[2,6,4]
        parts 1x2x17x16x32
        nan_and_infinities 2x17x3x5x3 special",
    realistic: "
        video 2x128x2x7x7
        volume 1x2x64x64x64"
);

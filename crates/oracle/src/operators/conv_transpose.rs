//! `y[n, k, p, q] = bias[k] +` the sum of all `weight[c, k, r, s] * x[n, c, h, w]` with
//! `p = h * stride - padding + r * dilation`, and `q` likewise: each input element adds its products with
//! the filter to the outputs that begin at its position. A transposed convolution of volumes has an
//! additional dimension, one of sequences has one fewer; all are computed as one of volumes.
//!
//! *Condition*, *Passes on*: as of a convolution, with the largest number of taps of an output.

use ndarray::{Array5, ArrayD, ArrayView5, Axis};
use op_spec::ConvTransposeProblem;
use rayon::prelude::*;

use super::conv::{Convolution, Terms, as_volumes, finite, term};
use crate::Cases;
use crate::cases::cases;

impl<const D: usize> Convolution for ConvTransposeProblem<D> {
    fn sums(
        &self,
        x: &ArrayD<f64>,
        weight: &ArrayD<f64>,
        bias: Option<&ArrayD<f64>>,
        terms: Terms,
    ) -> ArrayD<f64> {
        let (volumes, of) = (
            [as_volumes(x), as_volumes(weight)],
            self.as_conv_transpose3d(),
        );
        let y = match terms {
            Terms::Products => scattered::<false>(&volumes, bias, &of),
            Terms::Magnitudes => scattered::<true>(&volumes, bias, &of),
        };
        (D..3).fold(y.into_dyn(), |y, _| y.remove_axis(Axis(2)))
    }

    fn windows(&self, x: &ArrayD<f64>) -> ArrayD<f64> {
        let mut of_groups = *self;
        (of_groups.k, of_groups.bias) = (self.groups, false);
        let ones = ArrayD::ones(&*of_groups.weight_shape());
        of_groups.sums(x, &ones, None, Terms::Magnitudes)
    }

    /// Over all taps, although an output has only some of them.
    fn filters(&self, weight: &ArrayD<f64>) -> Vec<(f64, f64)> {
        let of_group = |group: usize| {
            let first = (group * self.c_per_group()) as isize;
            let end = first + self.c_per_group() as isize;
            let weight = weight.slice_axis(Axis(0), (first..end).into());
            let filters = weight.axis_iter(Axis(1));
            filters.map(|filter| finite(&filter)).collect::<Vec<_>>()
        };
        (0..self.groups).flat_map(of_group).collect()
    }

    fn group_filters(&self) -> usize {
        self.k_per_group()
    }

    fn taps(&self) -> Vec<usize> {
        // The distance between two taps of the same output.
        let distance = |axis: usize| {
            let (stride, dilation) = (self.stride[axis], self.dilation[axis]);
            let mut distances = 1..=stride;
            distances.find(|taps| taps * dilation % stride == 0)
        };
        let taps = |axis: usize| {
            let distance = distance(axis).expect("the stride itself is one");
            self.kernel_size[axis].div_ceil(distance)
        };
        (0..D).map(taps).collect()
    }

    fn channels(&self) -> usize {
        self.c_per_group()
    }

    fn has_bias(&self) -> bool {
        self.bias
    }

    fn work(&self) -> u64 {
        let outputs = self.output_shape().elements() as u64;
        u64::try_from(self.multiply_adds())
            .unwrap_or(u64::MAX)
            .saturating_add(outputs)
    }
}

/// Computes the output. Each input element adds its products in turn.
fn scattered<const MAGNITUDES: bool>(
    [x, weight]: &[ArrayView5<'_, f64>; 2],
    bias: Option<&ArrayD<f64>>,
    problem: &ConvTransposeProblem<3>,
) -> Array5<f64> {
    let [z_len, p_len, q_len] = problem.output;
    let mut y = Array5::zeros((x.shape()[0], problem.k, z_len, p_len, q_len));
    let plane = z_len * p_len * q_len;
    // The output position of input position `at` and tap `tap` along an axis, if there is one.
    let output = |axis: usize, at: usize, tap: usize| {
        let padded = at * problem.stride[axis] + tap * problem.dilation[axis];
        let output = padded.checked_sub(problem.padding[axis])?;
        (output < problem.output[axis]).then_some(output)
    };
    let planes = y
        .as_slice_mut()
        .expect("a new array is contiguous")
        .par_chunks_mut(plane);
    planes.enumerate().for_each(|(number, y)| {
        let (sample, k) = (number / problem.k, number % problem.k);
        let (group, k_of_group) = (k / problem.k_per_group(), k % problem.k_per_group());
        let bias = bias.map_or(0.0, |bias| bias[k]);
        y.fill(if MAGNITUDES { bias.abs() } else { bias });
        for c in group * problem.c_per_group()..(group + 1) * problem.c_per_group() {
            let filter = weight.index_axis(Axis(0), c);
            let filter = filter.index_axis(Axis(0), k_of_group);
            let input = x.index_axis(Axis(0), sample);
            for ((d, h, w), &x) in input.index_axis(Axis(0), c).indexed_iter() {
                for ((t, r, s), &weight) in filter.indexed_iter() {
                    let outputs = (output(0, d, t), output(1, h, r), output(2, w, s));
                    if let (Some(z), Some(p), Some(q)) = outputs {
                        y[(z * p_len + p) * q_len + q] += term::<MAGNITUDES>(weight, x);
                    }
                }
            }
        }
    });
    y
}

const NAME: &str = "name=up kernel_size=3";

pub(super) const CONV_TRANSPOSE1D: Cases = cases!(
    "conv_transpose1d", NAME,
    smoke: "plain 2x3x12 out_channels=4 stride=2",
    ragged: "
        one_value 1x1x1 out_channels=1 kernel_size=1
        empty_batch 0x3x7 out_channels=5 stride=2
        stride_1 2x3x37 out_channels=5 padding=1
        stride_1_padded_beyond_the_filter 1x3x19 out_channels=5 padding=4
        primes 3x5x101 out_channels=7 kernel_size=5 stride=3
        stride_3_padding_4_dilation_2_groups_3 2x6x29 \
            out_channels=9 kernel_size=4 stride=3 padding=4 dilation=2 groups=3 output_padding=2
        stride_and_dilation_with_a_divisor 2x3x23 out_channels=4 kernel_size=5 stride=6 dilation=4 padding=3
        dilation_pads_the_output 1x2x17 out_channels=3 dilation=3 output_padding=2
        stride_beyond_filter 2x3x19 out_channels=5 kernel_size=2 stride=7 output_padding=6
        depthwise 2x13x31 out_channels=26 stride=2 padding=1 groups=13
        nan_and_infinities 2x3x41 out_channels=4 kernel_size=4 stride=3 special",
    realistic: "
        vocoder 1x64x100 out_channels=32 kernel_size=16 stride=8 padding=4
        dilated 1x16x128 out_channels=24 stride=2 dilation=8"
);

pub(super) const CONV_TRANSPOSE2D: Cases = cases!(
    "conv_transpose2d", NAME,
    smoke: "plain 2x3x10x12 out_channels=4 stride=2 padding=1",
    ragged: "
        one_pixel 1x1x1x1 out_channels=1 kernel_size=1
        empty_batch 0x3x7x9 out_channels=5 kernel_size=[3,2] stride=2
        stride_1 2x4x9x11 out_channels=6 kernel_size=[3,5] padding=[1,2] groups=2
        primes 3x5x13x29 out_channels=7 kernel_size=[5,3] stride=[2,3] bias=false
        kernel_is_stride 2x8x9x11 out_channels=12 kernel_size=2 stride=2
        kernel_is_stride_in_groups 2x8x9x11 out_channels=16 kernel_size=[2,3] stride=[2,3] groups=2
        padding_leaves_a_pixel 1x2x2x2 out_channels=3 stride=2 padding=2
        stride_2x3_padding_1x4_dilation_3x2_groups_3 2x6x23x19 \
            out_channels=9 kernel_size=[3,5] stride=[2,3] padding=[1,4] dilation=[3,2] groups=3 \
            output_padding=[2,1]
        row_filter 1x2x4x37 out_channels=3 kernel_size=[1,9] stride=[1,4]
        depthwise 2x12x11x17 out_channels=12 kernel_size=4 stride=2 padding=1 groups=12 bias=false
        stride_beyond_filter 1x3x11x7 out_channels=8 kernel_size=[2,3] stride=[7,5]
        nan_and_infinities 2x4x7x9 out_channels=8 kernel_size=[4,3] stride=[3,2] special",
    realistic: "
        dcgan 1x64x8x8 out_channels=32 kernel_size=4 stride=2 padding=1 bias=false
        unet_up 1x32x14x14 out_channels=16 kernel_size=2 stride=2
        segmentation_head 1x32x14x14 out_channels=24 stride=2 padding=1 output_padding=1
        odd_rows 2x32x13x14 out_channels=48 stride=2 padding=1
        even_rows 1x32x9x19 out_channels=32 kernel_size=4 stride=2
        rows_of_4_phases 1x24x7x11 out_channels=24 kernel_size=[3,7] stride=[1,4] padding=[1,2]"
);

pub(super) const CONV_TRANSPOSE3D: Cases = cases!(
    "conv_transpose3d", NAME,
    smoke: "plain 2x2x3x4x5 out_channels=3 stride=2",
    ragged: "
        one_voxel 1x1x1x1x1 out_channels=1 kernel_size=1 bias=false
        empty_batch 0x2x4x5x6 out_channels=3 kernel_size=2
        primes 2x3x3x5x7 out_channels=5 kernel_size=[2,3,5] stride=[1,2,3]
        kernel_is_stride 1x4x3x5x6 out_channels=4 kernel_size=2 stride=2
        stride_2x1x3_padding_1x0x2_dilation_1x2x3_groups_2 2x4x5x4x9 \
            out_channels=6 kernel_size=[3,2,3] stride=[2,1,4] padding=[1,0,2] dilation=[1,2,3] groups=2 \
            output_padding=[1,1,3]
        nan_and_infinities 1x4x3x4x5 out_channels=4 kernel_size=[3,2,2] stride=[2,1,2] special",
    realistic: "
        volume_up 1x16x4x7x7 out_channels=16 kernel_size=2 stride=2
        decoder 1x16x4x6x6 out_channels=8 stride=2 padding=1 output_padding=1
        odd_rows_of_volumes 1x16x3x5x7 out_channels=32 stride=2 padding=1"
);

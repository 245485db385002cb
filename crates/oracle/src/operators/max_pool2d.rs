//! [`max_pool3d`](super::pool) of volumes that are one voxel deep.

use ndarray::ArrayD;
use op_spec::{MaxPool2dProblem, MaxPool3dSpec, PoolProblem};

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

/// Converts a maximum pool of images to one of volumes.
fn as_pool(images: &MaxPool2dProblem) -> PoolProblem {
    let deep = |[h, w]: [usize; 2], d| [d, h, w];
    let voxel = MaxPool3dSpec::new(1).problem(&[1; 5]);
    let mut pool = voxel.expect("a voxel has a maximum").pool;
    (pool.dimensions, pool.n, pool.c) = (2, images.n, images.c);
    (pool.input, pool.output) = (deep(images.input, 1), deep(images.output, 1));
    (pool.kernel_size, pool.stride) = (deep(images.kernel_size, 1), deep(images.stride, 1));
    (pool.padding, pool.dilation) = (deep(images.padding, 0), deep(images.dilation, 1));
    pool
}

impl Operator for MaxPool2dProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        as_pool(self).reference(x, parameters)
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        as_pool(self).tolerance(of, t, precision)
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        as_pool(self).cost()
    }
}

pub(super) const CASES: Cases = cases!(
    "max_pool2d", "",
    smoke: "plain 2x3x8x12 kernel_size=4",
    ragged: "
        empty_batch 0x3x8x9 kernel_size=[2,3]
        identity 2x3x5x7 kernel_size=1
        whole_image 2x3x5x7 kernel_size=[5,7]
        overlapping_with_pad 2x3x13x11 kernel_size=[3,5] stride=[2,1] padding=[1,2]
        dilated_ceil_mode 1x5x17x23 kernel_size=[3,2] stride=[3,2] padding=1 dilation=[2,3] ceil_mode=true
        window_around_a_single_pixel 1x2x1x1 kernel_size=2 stride=1 padding=1 dilation=2
        long_rows 1x2x1x1700 kernel_size=[1,8] stride=1 padding=[0,4] dilation=[1,3] special
        windows_around_all_rows 2x3x5x7 kernel_size=2 stride=1 padding=[1,0] dilation=[6,1]
        nan_and_infinities 2x3x29x31 kernel_size=[3,2] special
        nan_and_infinities_with_pad 1x2x31x29 kernel_size=[3,5] stride=[2,1] padding=[1,2] special",
    realistic: "resnet 2x32x56x56 kernel_size=3 stride=2 padding=1"
);

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::MaxPool2dSpec;

    use super::*;
    use crate::Bounded;
    use crate::cases::row;

    #[test]
    fn nan_wins_and_padding_never_does() {
        let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
        let x = array![[[[-5.0, nan, minus, minus]]]].into_dyn();
        let bordered = MaxPool2dSpec::new([1, 2]).stride([1, 2]).padding([0, 1]);
        let y = bordered.problem(x.shape()).unwrap().reference(&x, &[]);
        assert_eq!(y.shape(), [1, 1, 1, 3]);
        assert!(y[[0, 0, 0, 0]] == -5.0 && y[[0, 0, 0, 1]].is_nan() && y[[0, 0, 0, 2]] == minus);
    }

    #[test]
    fn a_window_of_billions_takes_as_long_as_what_is_inside() {
        let x = array![[[[1.0, 3.0, 2.0]]]].into_dyn();
        let spec = MaxPool2dSpec::new([1_000_000_000; 2]).padding([500_000_000; 2]);
        let problem = spec.problem(x.shape()).unwrap();
        let y = problem.reference(&x, &[]);
        assert_eq!((y.shape(), y[[0, 0, 0, 0]]), (&[1, 1, 1, 1][..], 3.0));
        assert_eq!(problem.cost(), 3);
    }

    #[test]
    fn a_maximum_tolerates_nothing_new() {
        let case = row("max_pool2d", "", "exact 1x2x6x6 kernel_size=2");
        let layer = &case.problem().unwrap().steps[0].problem;
        let y = Bounded::exact(case.x.view()).through(layer, &[], &Precision::F32);
        assert!(y.tolerance.iter().all(|&t| t == 0.0));
    }
}

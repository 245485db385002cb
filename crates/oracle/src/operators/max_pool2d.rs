//! [`max_pool3d`](super::pool) of volumes that are one voxel deep.

use crate::Cases;
use crate::cases::cases;

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

    use crate::cases::row;
    use crate::operators::Operator;
    use crate::{Bounded, Precision};

    #[test]
    fn nan_wins_and_padding_never_does() {
        let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
        let x = array![[[[-5.0, nan, minus, minus]]]].into_dyn();
        let bordered = MaxPool2dSpec::new([1, 2]).stride([1, 2]).padding([0, 1]);
        let problem = bordered.problem(x.shape()).unwrap();
        let y = problem.pool.reference(&x, &[]);
        assert_eq!(y.shape(), [1, 1, 1, 3]);
        assert!(y[[0, 0, 0, 0]] == -5.0 && y[[0, 0, 0, 1]].is_nan() && y[[0, 0, 0, 2]] == minus);
    }

    #[test]
    fn a_window_of_billions_takes_as_long_as_what_is_inside() {
        let x = array![[[[1.0, 3.0, 2.0]]]].into_dyn();
        let spec = MaxPool2dSpec::new([1_000_000_000; 2]).padding([500_000_000; 2]);
        let problem = spec.problem(x.shape()).unwrap().pool;
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

//! [Group norm](super::group_norm) with each channel as its own group.

use ndarray::ArrayD;
use op_spec::InstanceNormProblem;

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for InstanceNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        self.as_group_norm().reference(x, parameters)
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        self.as_group_norm().tolerance(of, t, precision)
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = cases!(
    "instance_norm", "name=instance_norm affine=true",
    smoke: "plain 2x3x4x5x6 affine=false",
    ragged: "
        empty_batch 0x3x4x5
        two_values 3x5x2
        sequence 3x4x101 eps=1e-3
        image 2x3x17x19
        four_spatial_dimensions 2x3x2x3x5x4
        mean_1000_times_deviation 2x3x9x13x11 affine=false shifted=-577",
    realistic: "segmentation 1x24x14x30x30"
);

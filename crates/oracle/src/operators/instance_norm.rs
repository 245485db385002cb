//! [Group norm](super::group_norm) with every channel a group of its own.

use ndarray::ArrayD;
use op_spec::graph::{InstanceNormLayer, Layer};
use op_spec::{InstanceNormProblem, InstanceNormSpec};

use super::group_norm;
use super::operator::Operator;
use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases, Precision};

impl Operator for InstanceNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        self.as_group_norm().reference(x, parameters)
    }

    fn tolerance(
        &self,
        x: &ArrayD<f64>,
        t: ArrayD<f64>,
        y: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        self.as_group_norm()
            .tolerance(x, t, y, parameters, precision)
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "instance_norm",
    smoke: || vec![case("plain", &[2, 3, 4, 5, 6], 1e-5, false)],
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 4, 5], 1e-5, true),
            case("two_values", &[3, 5, 2], 1e-5, true),
            case("sequence", &[3, 4, 101], 1e-3, true),
            case("image", &[2, 3, 17, 19], 1e-5, true),
            case("four_spatial_dimensions", &[2, 3, 2, 3, 5, 4], 1e-5, true),
            case("mean_1000_times_deviation", &[2, 3, 9, 13, 11], 1e-5, false).shifted(-577.0),
        ]
    },
    realistic: || vec![case("segmentation", &[1, 24, 14, 30, 30], 1e-5, true)],
    golden: "instance_norm",
    read,
};

fn layer(eps: f64, affine: bool) -> Layer {
    Layer::InstanceNorm(InstanceNormLayer {
        name: "instance_norm".to_owned(),
        attributes: InstanceNormSpec { eps },
        affine,
    })
}

fn case(name: &str, x: &[usize], eps: f64, affine: bool) -> Case {
    Case::of_layer(&format!("instance_norm/{name}"), layer(eps, affine), x).expect("a chain")
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let attributes: group_norm::Attributes = file.attributes()?;
    let layer = layer(attributes.eps, file.has("gamma"));
    let names = [
        ("instance_norm.weight", "gamma"),
        ("instance_norm.bias", "beta"),
    ];
    file.case("instance_norm", [layer], &names)
}

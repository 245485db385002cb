//! `instance_norm`.

use convfuse::graph::{InstanceNormLayer, Layer};
use convfuse::spec::{GroupNormSpec, InstanceNormSpec};
use convfuse::{Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::Array3;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::{self, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "instance_norm",
        &[
            ("takes_a_weight_or_a_bias_alone", half_affine),
            ("refuses_a_single_spatial_element", single),
            ("equals_group_norm_with_a_group_per_channel", as_groups),
        ],
    )
}

fn single(backend: Backend) -> Outcome {
    let x = Tensor::from_array(&backend.stream()?, &Array3::<f32>::ones((2, 3, 1)))?;
    let result = ops::instance_norm(&x, None, None, &InstanceNormSpec::default());
    says(
        result,
        "instance_norm: spatial elements is 1, minimum 2 (one value has no deviation)",
    )
}

fn as_groups(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (2, 5, 7, 11)))?;
    let weight = Tensor::from_array(&stream, &data::signed(2, 5))?;
    let instance = ops::instance_norm(&x, Some(&weight), None, &InstanceNormSpec::default())?;
    let group = ops::group_norm(&x, Some(&weight), None, &GroupNormSpec::new(5))?;
    assert_eq!(instance.to_array::<f32>()?, group.to_array::<f32>()?);
    Ok(())
}

fn half_affine(backend: Backend) -> Outcome {
    let attributes = InstanceNormSpec::default();
    let layer = Layer::InstanceNorm(InstanceNormLayer {
        name: "norm".to_owned(),
        attributes,
        affine: true,
    });
    let case = Case::of_layer("instance_norm/half_affine", layer, &[3, 7, 5, 3])?;
    suite::half_affine(backend, &case, |x, weight, bias| {
        ops::instance_norm(x, weight, bias, &attributes)
    })
}

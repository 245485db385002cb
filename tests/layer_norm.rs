//! `layer_norm`.

use convfuse::graph::Layer;
use convfuse::spec::{GroupNormSpec, LayerNormSpec};
use convfuse::{DType, Tensor, data, ops};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::{self, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "layer_norm",
        &[
            ("takes_a_weight_or_a_bias_alone", half_affine),
            ("refuses_what_pytorch_refuses", misuse),
            ("without_parameters_is_group_norm_of_one_group", as_group),
        ],
    )
}

fn half_affine(backend: Backend) -> Outcome {
    let shape = [7, 5, 3];
    let layer = Layer::layer_norm("norm", &shape);
    let case = Case::of_layer("layer_norm/half_affine", layer, &[3, 7, 5, 3])?;
    suite::half_affine(backend, &case, |x, weight, bias| {
        ops::layer_norm(x, &shape, weight, bias, &LayerNormSpec::default())
    })
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let tensor = |shape: &[usize]| Tensor::zeros(&stream, shape, DType::F32);
    let (x, weight) = (tensor(&[2, 3, 4])?, tensor(&[3])?);
    let spec = LayerNormSpec::default();
    says(
        ops::layer_norm(&x, &[3, 5], None, None, &spec),
        "layer_norm: normalized_shape[1] is 5, expected 4",
    )?;
    says(
        ops::layer_norm(&x, &[4], None, None, &spec),
        "layer_norm: normalized_shape has 1 dimensions, expected 2",
    )?;
    says(
        ops::layer_norm(&x, &[], None, None, &spec),
        "layer_norm: normalized_shape has 0 dimensions, minimum 1",
    )?;
    says(
        ops::layer_norm(&x, &[3, 4], Some(&weight), None, &spec),
        "layer_norm: weight has 1 dimensions, expected 2",
    )?;
    let spec = LayerNormSpec { eps: f64::NAN };
    says(
        ops::layer_norm(&x, &[3, 4], None, None, &spec),
        "layer_norm: eps is NaN, minimum 0",
    )
}

fn as_group(backend: Backend) -> Outcome {
    let x = Tensor::from_array(&backend.stream()?, &data::signed(1, (2, 5, 7, 11)))?;
    let layer = ops::layer_norm(&x, &[5, 7, 11], None, None, &LayerNormSpec::default())?;
    let group = ops::group_norm(&x, None, None, &GroupNormSpec::new(1))?;
    assert_eq!(layer.to_array::<f32>()?, group.to_array::<f32>()?);
    Ok(())
}

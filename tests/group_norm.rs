//! `group_norm`.

use convfuse::graph::{GroupNormLayer, Layer};
use convfuse::spec::GroupNormSpec;
use convfuse::{Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, Array3};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::{self, bits, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "group_norm",
        &[
            ("takes_a_weight_or_a_bias_alone", half_affine),
            ("refuses_what_pytorch_refuses", misuse),
            ("gives_a_sample_the_same_bits_in_any_batch", batches),
        ],
    )
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array3::<f32>::ones((2, 30, 4)))?;
    let weight = Tensor::from_array(&stream, &Array1::<f32>::ones(29))?;
    let norm = |spec: &GroupNormSpec| ops::group_norm(&x, None, None, spec);
    says(
        norm(&GroupNormSpec::new(4)),
        "group_norm: channels is 30, which is not a multiple of num_groups 4",
    )?;
    says(
        norm(&GroupNormSpec::new(0)),
        "group_norm: num_groups is 0, minimum 1",
    )?;
    says(
        norm(&GroupNormSpec {
            num_groups: 5,
            eps: f64::NAN,
        }),
        "group_norm: eps is NaN, minimum 0",
    )?;
    says(
        ops::group_norm(&x, Some(&weight), None, &GroupNormSpec::new(5)),
        "group_norm: weight[0] is 29, expected 30",
    )
}

/// How rows are split must not depend on how many there are.
fn batches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let spec = GroupNormSpec::new(2);
    let x = data::signed(3, (3, 4, 2500));
    let norm = |x: &Array3<f32>| -> convfuse::Result<Vec<u32>> {
        let y = ops::group_norm(&Tensor::from_array(&stream, x)?, None, None, &spec)?;
        Ok(bits(&y.to_array()?))
    };
    let whole = norm(&x)?;
    for (sample, of_whole) in x.outer_iter().zip(whole.chunks(4 * 2500)) {
        let alone = sample.insert_axis(ndarray::Axis(0)).to_owned();
        assert_eq!(norm(&alone)?, of_whole);
    }
    Ok(())
}

fn half_affine(backend: Backend) -> Outcome {
    let attributes = GroupNormSpec::new(7);
    let layer = Layer::GroupNorm(GroupNormLayer {
        name: "norm".to_owned(),
        attributes,
        affine: true,
    });
    let case = Case::of_layer("group_norm/half_affine", layer, &[3, 7, 5, 3])?;
    suite::half_affine(backend, &case, |x, weight, bias| {
        ops::group_norm(x, weight, bias, &attributes)
    })
}

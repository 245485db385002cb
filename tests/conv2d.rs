//! `conv2d`.

use convfuse::graph::Partition;
use convfuse::spec::Conv2dSpec;
use convfuse::{Error, Options, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, Array4};

use crate::backend::{Backend, Outcome, Test};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let misuse: (&str, Test) = ("refuses_what_pytorch_refuses", misuse);
    let kernels: (&str, Test) = ("takes_the_kernels_that_the_table_chooses", kernels);
    let mut trials = Backend::trials(&Backend::DEVICES, "conv2d", &[misuse]);
    trials.extend(Backend::trials(&Backend::KERNELS, "conv2d", &[kernels]));
    trials
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let tensor = |shape: [usize; 4]| Tensor::from_array(&stream, &Array4::<f32>::ones(shape));
    let (x, weight) = (tensor([1, 6, 5, 5])?, tensor([4, 3, 3, 3])?);
    let spec = |groups| Conv2dSpec {
        groups,
        ..Conv2dSpec::default()
    };
    says(
        ops::conv2d(&x, &weight, None, &spec(1)),
        "conv2d: weight[1] is 3, expected 6",
    )?;
    says(
        ops::conv2d(&x, &weight, None, &spec(4)),
        "conv2d: in_channels is 6, which is not a multiple of groups 4",
    )?;
    says(
        ops::conv2d(&x, &weight, None, &spec(0)),
        "conv2d: groups is 0, minimum 1",
    )?;
    let bias = Tensor::from_array(&stream, &Array1::<f32>::ones(3))?;
    says(
        ops::conv2d(&x, &weight, Some(&bias), &spec(2)),
        "conv2d: bias[0] is 3, expected 4",
    )?;
    says(
        ops::conv2d(&x, &tensor([4, 3, 6, 3])?, None, &spec(2)),
        "conv2d: dilated window spans 6 on spatial axis 0, padded input has 5",
    )?;
    says(
        ops::conv2d(&bias, &weight, None, &spec(2)),
        "conv2d: input has 1 dimensions, expected 4",
    )
}

/// By the kernels that the table chooses, by one of its rows, and by none.
fn kernels(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (3, 64, 9, 11)))?;
    let weight = Tensor::from_array(&stream, &data::signed(2, (64, 64, 3, 3)))?;
    let spec = Conv2dSpec::default();
    let by = |row| {
        let options = Options::default().partition(Partition::of_layer(row));
        ops::conv2d_with(&x, &weight, None, &spec, &options)
    };
    let chosen = ops::conv2d(&x, &weight, None, &spec)?.to_array::<f32>()?;
    assert_eq!(by("implicit-gemm")?.to_array::<f32>()?, chosen);
    assert_ne!(by("direct")?.to_array::<f32>()?, chosen);
    let refused = by("depthwise");
    assert!(
        matches!(refused, Err(Error::NoKernels { .. })),
        "{refused:?}"
    );
    Ok(())
}

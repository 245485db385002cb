//! `conv3d`.

use convfuse::spec::Conv3dSpec;
use convfuse::{DType, Tensor, ops};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "conv3d",
        &[("refuses_what_pytorch_refuses", misuse)],
    )
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let tensor = |shape: &[usize]| Tensor::zeros(&stream, shape, DType::F32);
    let (x, weight) = (tensor(&[1, 2, 4, 5, 6])?, tensor(&[3, 2, 2, 3, 3])?);
    let spec = Conv3dSpec::default();
    says(
        ops::conv3d(&tensor(&[2, 5, 6])?, &weight, None, &spec),
        "conv3d: input has 3 dimensions, expected 5",
    )?;
    says(
        ops::conv3d(&x, &tensor(&[3, 2, 3, 3])?, None, &spec),
        "conv3d: weight has 4 dimensions, expected 5",
    )?;
    let still = Conv3dSpec {
        stride: [1, 0, 1],
        ..spec
    };
    says(
        ops::conv3d(&x, &weight, None, &still),
        "conv3d: stride[1] is 0, minimum 1",
    )
}

//! `max_pool2d`.

use convfuse::spec::MaxPool2dSpec;
use convfuse::{Tensor, ops};
use libtest_mimic::Trial;
use ndarray::Array4;

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "max_pool2d",
        &[
            ("never_lets_padding_win", padding),
            ("refuses_what_pytorch_refuses", misuse),
        ],
    )
}

fn padding(backend: Backend) -> Outcome {
    let x = Array4::from_elem((1, 1, 3, 3), f32::NEG_INFINITY);
    let x = Tensor::from_array(&backend.stream()?, &x)?;
    let spec = MaxPool2dSpec {
        padding: [1, 1],
        stride: Some([1, 1]),
        ..MaxPool2dSpec::new([3, 3])
    };
    let y = ops::max_pool2d(&x, &spec)?.to_array::<f32>()?;
    assert!(y.iter().all(|&value| value == f32::NEG_INFINITY), "{y}");
    Ok(())
}

fn misuse(backend: Backend) -> Outcome {
    let x = Tensor::from_array(&backend.stream()?, &Array4::<f32>::ones((1, 2, 6, 5)))?;
    let base = MaxPool2dSpec::new([3, 3]);
    let refused = |spec: MaxPool2dSpec, wanted: &str| says(ops::max_pool2d(&x, &spec), wanted);
    refused(
        MaxPool2dSpec {
            padding: [2, 0],
            ..base
        },
        "max_pool2d: padding[0] is 2, limit kernel_size[0] / 2 = 1",
    )?;
    refused(
        MaxPool2dSpec::new([3, 6]),
        "max_pool2d: dilated window spans 6 on spatial axis 1, padded input has 5",
    )?;
    refused(
        MaxPool2dSpec {
            stride: Some([0, 1]),
            ..base
        },
        "max_pool2d: stride[0] is 0, minimum 1",
    )
}

//! `scale`.

use convfuse::{DType, Error, Tensor, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, Array3};

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "scale",
        &[
            ("refuses_factors_that_are_not_one_per_channel", wrong_length),
            ("refuses_another_element_type", wrong_dtype),
        ],
    )
}

fn wrong_length(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array3::<f32>::ones((2, 3, 4)))?;
    let factors = Tensor::from_array(&stream, &Array1::<f32>::ones(4))?;
    says(ops::scale(&x, &factors), "scale: scale[0] is 4, expected 3")?;
    says(
        ops::scale(&factors, &factors),
        "scale: input has 1 dimensions, minimum 2",
    )
}

fn wrong_dtype(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array3::<f32>::ones((2, 3, 4)))?;
    let factors = Tensor::from_f32_array(&stream, &Array1::ones(3), DType::F16)?;
    let result = ops::scale(&x, &factors);
    assert!(matches!(result, Err(Error::DTypeMismatch { .. })));
    says(result, "scale: scale is f16, must be f32")
}

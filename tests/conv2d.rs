//! `conv2d`.

use convfuse::ops::{ConvAlgorithm, ConvOptions};
use convfuse::spec::Conv2dSpec;
use convfuse::{Error, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, Array4};

use crate::backend::{Backend, Outcome, Test};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let misuse: (&str, Test) = ("refuses_what_pytorch_refuses", misuse);
    let workspace: (&str, Test) = ("keeps_its_columns_within_the_workspace", workspace);
    let mut trials = Backend::trials(&Backend::DEVICES, "conv2d", &[misuse]);
    trials.extend(Backend::trials(&Backend::KERNELS, "conv2d", &[workspace]));
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

fn workspace(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (3, 4, 9, 11)))?;
    let weight = Tensor::from_array(&stream, &data::signed(2, (5, 4, 3, 3)))?;
    let convolve = |options: &ConvOptions| {
        ops::conv2d_with(&x, &weight, None, &Conv2dSpec::default(), options)
    };
    let im2col = ConvOptions::algorithm(ConvAlgorithm::Im2col);
    let whole = convolve(&im2col)?.to_array::<f32>()?;
    for limit in [600, 4_000, 9_072 + 144, 20_000] {
        stream.take_counts();
        let y = convolve(&im2col.workspace_bytes(limit))?;
        let extra = stream.take_counts().peak_bytes - y.bytes();
        assert!(extra <= limit, "{extra} bytes of columns, limit {limit}");
        // How columns are cut must not show in the result.
        assert_eq!(y.to_array::<f32>()?, whole, "limit {limit}");
    }
    let refused = convolve(&im2col.workspace_bytes(100));
    assert!(
        matches!(refused, Err(Error::WorkspaceTooSmall { limit: 100, .. })),
        "{refused:?}"
    );
    Ok(())
}

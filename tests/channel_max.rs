//! `channel_max`.

use convfuse::{DType, Tensor, ops};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::suite::{self, says};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = suite::of("channel_max");
    for backend in Backend::DEVICES {
        trials.push(backend.trial("channel_max", "refuses_an_input_without_channels", misuse));
    }
    trials
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let tensor = |shape: &[usize]| Tensor::zeros(&stream, shape, DType::F32);
    says(
        ops::channel_max(&tensor(&[2, 0, 3])?),
        "channel_max: channels is 0, minimum 1",
    )?;
    says(
        ops::channel_max(&tensor(&[2])?),
        "channel_max: input has 1 dimensions, minimum 2",
    )
}

//! `clamp`.

use convfuse::spec::ClampSpec;
use convfuse::{DType, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{IxDyn, array};

use crate::backend::{Backend, Outcome};
use crate::suite::{self, says};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = suite::of("clamp");
    for backend in Backend::DEVICES {
        trials.push(backend.trial(
            "clamp",
            "keeps_nan_and_lets_the_upper_bound_win",
            special_values,
        ));
        trials.push(backend.trial("clamp", "takes_scalars_and_vectors", other_ranks));
        trials.push(backend.trial("clamp", "refuses_two_absent_bounds", no_bounds));
    }
    trials
}

fn special_values(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = array![f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 1.0, f32::INFINITY];
    let x = Tensor::from_array(&stream, &x)?;
    let clamped = |min, max| -> convfuse::Result<Vec<f32>> {
        let y = ops::clamp(&x, &ClampSpec { min, max })?;
        Ok(y.to_array::<f32>()?.into_iter().collect())
    };
    let both = clamped(Some(-0.5), Some(0.5))?;
    assert!(both[0].is_nan());
    assert_eq!(both[1..], [-0.5, -0.5, 0.0, 0.5, 0.5]);
    let crossed = clamped(Some(0.5), Some(-0.5))?;
    assert!(crossed[0].is_nan());
    assert_eq!(crossed[1..], [-0.5; 5]);
    assert_eq!(
        clamped(Some(0.0), None)?[1..],
        [0.0, 0.0, 0.0, 1.0, f32::INFINITY]
    );
    assert_eq!(
        clamped(None, Some(0.0))?[1..],
        [f32::NEG_INFINITY, -1.0, 0.0, 0.0, 0.0]
    );
    Ok(())
}

/// Which no chain has, whose inputs have samples and channels.
fn other_ranks(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for shape in [&[][..], &[1], &[1031]] {
            let x = Tensor::from_f32_array(&stream, &data::signed(1, IxDyn(shape)), dtype)?;
            let y = ops::clamp(&x, &ClampSpec::new(-0.25, 0.5))?.to_f32_array()?;
            assert_eq!(y, x.to_f32_array()?.mapv(|v| v.clamp(-0.25, 0.5)));
        }
    }
    Ok(())
}

fn no_bounds(backend: Backend) -> Outcome {
    let x = Tensor::from_array(&backend.stream()?, &array![1.0f32])?;
    let result = ops::clamp(
        &x,
        &ClampSpec {
            min: None,
            max: None,
        },
    );
    says(
        result,
        "clamp: min and max are both absent, at least one is needed",
    )
}

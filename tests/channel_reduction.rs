//! Reductions over channels.

use convfuse::spec::{ReductionOp, ReductionSpec};
use convfuse::{Tensor, f16, ops};
use libtest_mimic::Trial;
use ndarray::Array3;

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    let name = "takes_more_elements_than_an_i32_counts";
    vec![Backend::Gpu.trial_with_memory("channel_reduction", name, 2 * WIDE_BYTES, wide)]
}

/// The three channels of this number of positions have slightly more than `i32::MAX` elements.
const WIDE_POSITIONS: usize = 715_827_890;
const WIDE_BYTES: u64 = 3 * 2 * WIDE_POSITIONS as u64;

fn wide(backend: Backend) -> Outcome {
    let mut x = Array3::from_elem((1, 3, WIDE_POSITIONS), f16::ZERO);
    assert!(x.len() > i32::MAX as usize);
    let last = WIDE_POSITIONS - 1;
    let marks = [
        (0, 12_345, 3.0),
        (1, last - 1, 4.0),
        (2, 0, 2.0),
        (2, last, 1.0),
    ];
    for (channel, position, value) in marks {
        x[[0, channel, position]] = f16::from_f32(value);
    }
    let stream = backend.stream()?;
    let max = ReductionSpec::new(ReductionOp::Max, &[1]);
    let y = ops::reduction(&Tensor::from_array(&stream, &x)?, &max)?.to_array::<f16>()?;
    for (_, position, value) in marks {
        assert_eq!(
            y[[0, position]],
            f16::from_f32(value),
            "position {position}"
        );
    }
    let marked = y.iter().filter(|&&value| value != f16::ZERO).count();
    assert_eq!(marked, marks.len());
    Ok(())
}

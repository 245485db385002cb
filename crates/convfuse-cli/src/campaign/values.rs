//! Magnitudes of inputs and parameters: by sample, channel and element, from denormal numbers to those that
//! f16 cannot hold.

use convfuse::DType;
use convfuse::graph::Layer;
use ndarray::{ArrayD, Axis};
use op_spec::data;
use oracle::Case;

use super::choices::Choices;

/// The range of exponents of random values: from half of the type's least number to beyond f16's largest.
/// The intermediate values of a chain are stored, so its range is smaller to stay within the type.
fn exponents(dtype: DType, is_chain: bool) -> (i32, i32) {
    match (dtype, is_chain) {
        (DType::F16, true) => (-24, 3),
        (DType::F16, false) => (-24, 16),
        (_, true) => (-140, 16),
        (_, false) => (-140, 17),
    }
}

/// Returns `2^exponent`, rounded to f32.
fn power(exponent: i32) -> f32 {
    f64::exp2(f64::from(exponent)) as f32
}

/// Changes the magnitudes of a case's values according to the choices.
pub(super) fn draw(c: &mut Choices, case: &mut Case, dtype: DType) {
    let range = exponents(dtype, case.graph.layers().len() > 1);
    // A few adjacent indices of an axis share an exponent, so large and small values meet.
    let (least, most) = range;
    let kind = c.below(14);
    let seed = u64::from(c.below(1 << 16));
    let spread = c.within(1, 14) as i32;
    let exponent = move |index: usize| {
        let drawn = data::uniform(seed, index as u64) * (spread + 1) as f32;
        (-(drawn as i32)).clamp(least, most)
    };
    match kind {
        0 | 1 => {}
        2 => each(&mut case.x, 0, |index| power(exponent(index))),
        3 => {
            let channels = channels(case);
            each(&mut case.x, channels, |index| power(exponent(index)));
            // Weights that compensate the magnitudes of the channels, for a convolution in one group.
            let first = &case.graph.layers()[0];
            if first.is_convolution()
                && !matches!(first, Layer::Linear(_))
                && case.parameters[0].shape()[1] == case.x.shape()[channels]
                && !c.once_in(3)
            {
                each(&mut case.parameters[0], 1, |index| power(-exponent(index)));
            }
        }
        4 => {
            for (index, v) in case.x.iter_mut().enumerate() {
                *v *= power(exponent(index));
            }
        }
        // All values of one sign, as after a ReLU.
        5 => case.x.mapv_inplace(f32::abs),
        6 => case.x.fill(data::signed(seed, 0)),
        // A mean far larger than the deviation.
        7 => {
            let mean = power(spread.min(most)) * data::signed(seed, 0).signum();
            case.x.mapv_inplace(|v| v + mean);
        }
        // One value, late in a sample, far larger than all before.
        8 => {
            let len = case.x.len();
            let last = len - 1 - (seed as usize % len.clamp(1, 5)).min(len - 1);
            if let Some(v) = case.x.iter_mut().nth(last) {
                *v = power(spread.min(most));
            }
        }
        9 => *case = case.clone().special(),
        10 => *case = case.clone().poisoned(),
        // Small integers: many are equal, and many are zero.
        11 => case.x.mapv_inplace(|v| (v * 3.0).round()),
        12 => each(&mut case.x, 0, |index| power(exponent(index))),
        _ => {
            let count = case.parameters.len().max(1);
            if let Some(values) = case.parameters.get_mut(seed as usize % count) {
                values.mapv_inplace(|v| v * power(exponent(0)));
            }
        }
    }
    // Scales the whole input into any part of the type's range.
    if c.once_in(4) {
        let factor = power(c.within(0, (most - least) as usize) as i32 + least);
        case.x.mapv_inplace(|v| v * factor);
    }
}

/// The channel axis.
fn channels(case: &Case) -> usize {
    usize::from(!case.graph.lacks_batch(case.x.shape()))
}

/// Multiplies each slice along an axis by its own factor.
fn each(values: &mut ArrayD<f32>, axis: usize, factor: impl Fn(usize) -> f32) {
    for (index, mut part) in values.axis_iter_mut(Axis(axis)).enumerate() {
        part *= factor(index);
    }
}

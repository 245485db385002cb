//! Comparison of a device's results with the CPU's.

use std::fmt;

use ndarray::{ArrayD, ArrayViewD};

use super::{Inputs, Model, Options};
use crate::cpu;
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::parameters::Parameters;

const OPERATOR: &str = "model";

/// A tolerance for results: `|actual - expected| <= atol + rtol * |expected|`, the rule of
/// [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html). Equal infinities are
/// close. The struct is exhaustive, because the rule has no other parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The absolute tolerance.
    pub atol: f64,
    /// The tolerance relative to the expected value.
    pub rtol: f64,
    /// Whether NaN is close to NaN.
    pub equal_nan: bool,
}

impl Tolerance {
    /// Returns the defaults of `torch.testing.assert_close` for results of this element type. They allow for
    /// some roundings, but not for sums of thousands of terms that cancel. In f16 and bf16 they do not allow
    /// for the rounding of values that kernels store between launches; the CPU keeps these in f32.
    #[must_use]
    pub const fn of(dtype: DType) -> Tolerance {
        let rtol = match dtype {
            DType::F32 => 1.3e-6,
            DType::F16 => 1e-3,
            DType::BF16 => 1.6e-2,
        };
        Tolerance {
            atol: 1e-5,
            rtol,
            equal_nan: false,
        }
    }

    /// Returns whether `actual` is close to `expected`.
    #[must_use]
    pub fn allows(&self, actual: f64, expected: f64) -> bool {
        if actual.is_nan() && expected.is_nan() {
            return self.equal_nan;
        }
        // With an infinite expected value the tolerance would be infinite and allow any number.
        let is_near = || (actual - expected).abs() <= self.atol + self.rtol * expected.abs();
        actual == expected || (expected.is_finite() && is_near())
    }
}

/// An element in which two results differ.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The index of the element.
    pub index: Vec<usize>,
    /// The value that the device computed.
    pub actual: f64,
    /// The value that the CPU computed.
    pub expected: f64,
    /// The difference: absolute, or relative to the magnitude of the expected value. Infinite if the
    /// difference is not a finite number.
    pub amount: f64,
}

/// The result of a comparison of two outputs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The number of compared elements.
    pub elements: usize,
    /// The number of elements outside the tolerance.
    pub outside: usize,
    /// The largest absolute difference; `None` if all elements are equal.
    pub largest_absolute: Option<Difference>,
    /// The largest relative difference; `None` if all elements are equal.
    pub largest_relative: Option<Difference>,
}

impl Comparison {
    /// Compares arrays of one shape.
    fn of(
        actual: &ArrayViewD<'_, f32>,
        expected: &ArrayD<f32>,
        tolerance: &Tolerance,
    ) -> Comparison {
        let mut comparison = Comparison {
            elements: expected.len(),
            outside: 0,
            largest_absolute: None,
            largest_relative: None,
        };
        for (at, &expected) in expected.indexed_iter() {
            let (actual, expected) = (f64::from(actual[&at]), f64::from(expected));
            comparison.outside += usize::from(!tolerance.allows(actual, expected));
            if actual == expected || (actual.is_nan() && expected.is_nan()) {
                continue;
            }
            let difference = (actual - expected).abs();
            let note = |largest: &mut Option<Difference>, amount: f64| {
                // `min` drops NaN, so a NaN amount becomes infinite.
                let amount = f64::INFINITY.min(amount);
                if largest.as_ref().is_none_or(|known| known.amount < amount) {
                    *largest = Some(Difference {
                        index: ndarray::Dimension::slice(&at).to_vec(),
                        actual,
                        expected,
                        amount,
                    });
                }
            };
            note(&mut comparison.largest_absolute, difference);
            note(
                &mut comparison.largest_relative,
                difference / expected.abs(),
            );
        }
        comparison
    }

    /// Returns whether every element is within the tolerance.
    #[must_use]
    pub fn is_close(&self) -> bool {
        self.outside == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison {
            outside, elements, ..
        } = self;
        write!(f, "{outside} of {elements} elements are not close")?;
        let parts = [
            ("absolute", &self.largest_absolute),
            ("relative", &self.largest_relative),
        ];
        for (name, largest) in parts {
            let Some(largest) = largest else { continue };
            let (amount, index) = (largest.amount, &largest.index);
            let (actual, expected) = (largest.actual, largest.expected);
            write!(
                f,
                "; largest {name} difference {amount:.3e} at {index:?}: {actual}, expected {expected}"
            )?;
        }
        Ok(())
    }
}

impl Model {
    /// Runs the model on its device and on the CPU backend, waits for both, and compares the results. The
    /// CPU's results are rounded to the model's element type.
    ///
    /// Use it for a first run on a new machine, or with new weights. Values outside the tolerance are
    /// reported in the result, not as an error.
    ///
    /// # Errors
    /// As [`forward_with`](Model::forward_with).
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench79;
    /// use convfuse::model::Tolerance;
    /// use convfuse::{DType, Device, Model, Options, Tensor, data};
    ///
    /// let stream = Device::best().stream()?;
    /// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
    /// let x = Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?;
    /// let comparison = model.compare_with_cpu(&x, &Options::default(), &Tolerance::of(DType::F32))?;
    /// assert!(comparison.is_close(), "{comparison}");
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn compare_with_cpu<'a>(
        &self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
        tolerance: &Tolerance,
    ) -> Result<Comparison> {
        self.compare_with(self.parameters()?, inputs.into(), options, tolerance)
    }

    /// Compares with the CPU's results for these parameters.
    fn compare_with(
        &self,
        parameters: &Parameters,
        inputs: Inputs<&Tensor>,
        options: &Options,
        tolerance: &Tolerance,
    ) -> Result<Comparison> {
        let inputs = inputs.arranged(OPERATOR, self.graph().inputs())?;
        let actual = self.forward_arranged(&inputs, options)?.to_f32_array()?;
        let problem = self.graph().problem(inputs[0].shape())?;
        let values = inputs.iter().map(|input| input.to_f32_array());
        let values = values.collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = values.iter().map(|values| values.view()).collect();
        let mut expected =
            cpu::run(self.graph(), &problem, self.dtype(), parameters, &views)?.swap_remove(0);
        expected.mapv_inplace(|value| self.dtype().round(value));
        Ok(Comparison::of(&actual.view(), &expected, tolerance))
    }
}

#[cfg(test)]
mod tests;

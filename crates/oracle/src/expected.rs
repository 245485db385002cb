use std::fmt;

use ndarray::{ArrayD, ArrayViewD, IxDyn};

use crate::{Bounded, Precision};

/// The expected outputs of a computation, with a tolerance for each element.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The outputs with their layers' names, which are empty in a chain; at least one.
    outputs: Vec<(String, Output)>,
}

/// One expected output.
#[derive(Clone, Debug)]
struct Output {
    shape: Vec<usize>,
    /// Indices of the known elements in the flattened output; `None` if all are known.
    index: Option<Vec<usize>>,
    values: Vec<f64>,
    tolerance: Vec<f64>,
    /// The mean of the whole output and its tolerance, if only samples are known.
    mean: Option<(f64, f64)>,
    precision: Precision,
}

/// The statistics of a result that agrees in all outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The largest difference between finite elements.
    pub largest_error: f64,
    /// The largest ratio of an element's error to its tolerance, at most 1.
    pub tolerance_used: f64,
    /// The number of compared elements.
    pub elements: usize,
}

impl Agreement {
    /// Combines the statistics of two outputs.
    fn and(self, other: Agreement) -> Agreement {
        Agreement {
            largest_error: self.largest_error.max(other.largest_error),
            tolerance_used: self.tolerance_used.max(other.tolerance_used),
            elements: self.elements + other.elements,
        }
    }
}

/// The difference of a result from the expected one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// The number of outputs differs.
    #[error("there are {actual} outputs, expected {expected}")]
    Outputs {
        /// The actual number.
        actual: usize,
        /// The expected number.
        expected: usize,
    },
    /// The first of several outputs that disagrees.
    #[error("output {name}: {how}")]
    Output {
        /// The name of its layer.
        name: String,
        /// The output's difference.
        how: Box<Disagreement>,
    },
    /// The shape of the output differs.
    #[error("output has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The actual shape.
        actual: Vec<usize>,
        /// The expected shape.
        expected: Vec<usize>,
    },
    /// The mean of an output with sampled elements is off, so elements between the samples are wrong.
    #[error("the mean of all elements is {got:e}, want {want:e}, tolerance {tolerance:.3e}")]
    Mean {
        /// The actual mean.
        got: f64,
        /// The expected mean.
        want: f64,
        /// The tolerance of the mean.
        tolerance: f64,
    },
    /// Elements are off; this is the worst of them.
    #[error("{0}")]
    Values(WorstElement),
}

/// The element that exceeds its tolerance by the largest factor.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// The index of the element.
    pub index: Vec<usize>,
    /// The computed value.
    pub got: f64,
    /// The expected value.
    pub want: f64,
    /// The tolerance.
    pub tolerance: f64,
    /// The number of elements beyond their tolerance.
    pub failures: usize,
    /// The number of compared elements.
    pub elements: usize,
}

impl fmt::Display for WorstElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} elements are off, the worst at {:?}: got {:e}, want {:e}, \
             difference {:.3e}, tolerance {:.3e}",
            self.failures,
            self.elements,
            self.index,
            self.got,
            self.want,
            (self.got - self.want).abs(),
            self.tolerance
        )
    }
}

/// Returns the elements in row-major order.
fn in_order(values: ArrayD<f64>) -> Vec<f64> {
    let values = match values.is_standard_layout() {
        true => values,
        false => values.as_standard_layout().into_owned(),
    };
    let len = values.len();
    let (mut elements, first) = values.into_raw_vec_and_offset();
    elements.drain(..first.unwrap_or(0));
    elements.truncate(len);
    elements
}

impl Expected {
    /// Expects the values of one output, with tolerances for arithmetic of this precision.
    #[must_use]
    pub fn new(bounded: Bounded, precision: &Precision) -> Self {
        Self::of_outputs([(String::new(), bounded)], precision)
    }

    /// Expects several outputs, at least one, under their layers' names.
    pub(crate) fn of_outputs(
        outputs: impl IntoIterator<Item = (String, Bounded)>,
        precision: &Precision,
    ) -> Self {
        let output = |(name, bounded): (String, Bounded)| {
            let output = Output {
                shape: bounded.values.shape().to_vec(),
                index: None,
                values: in_order(bounded.values),
                tolerance: in_order(bounded.tolerance),
                mean: None,
                precision: *precision,
            };
            (name, output)
        };
        Self {
            outputs: outputs.into_iter().map(output).collect(),
        }
    }

    /// The first output.
    fn first(&self) -> &Output {
        &self.outputs[0].1
    }

    /// The only output.
    fn only(&self) -> Result<&Output, Disagreement> {
        self.must_be(1)?;
        Ok(self.first())
    }

    fn must_be(&self, actual: usize) -> Result<(), Disagreement> {
        match self.outputs.len() {
            expected if expected == actual => Ok(()),
            expected => Err(Disagreement::Outputs { actual, expected }),
        }
    }

    /// Shape of the first output.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.first().shape
    }

    /// The same tolerances around other values of the only output: of all elements, or of those at `index`
    /// in the flattened output. Non-finite values get a tolerance of 0.
    ///
    /// # Panics
    /// If there are several outputs, if the number of values does not match, or if an index is out of range.
    #[must_use]
    pub fn around(&self, values: Vec<f64>, index: Option<Vec<usize>>) -> Self {
        let [(name, output)] = &self.outputs[..] else {
            panic!("values of {} outputs are not known", self.outputs.len());
        };
        assert!(
            output.index.is_none(),
            "tolerances are known for all elements"
        );
        let tolerance = match &index {
            Some(index) => index.iter().map(|&i| output.tolerance[i]).collect(),
            None => output.tolerance.clone(),
        };
        assert_eq!(values.len(), tolerance.len());
        let output = Output {
            shape: output.shape.clone(),
            index,
            values,
            tolerance,
            mean: None,
            precision: output.precision,
        };
        Self {
            outputs: vec![(name.clone(), output)],
        }
    }

    /// Additionally expects this mean of the whole first output. Its tolerance follows from the elements'
    /// tolerances in `of` and the rounding of a float64 sum.
    #[must_use]
    pub(crate) fn with_mean(mut self, mean: f64, of: &Self) -> Self {
        let of = &of.first().tolerance;
        let count = of.len().max(1) as f64;
        let own = (4.0 + count.sqrt().sqrt()) * f64::EPSILON * mean.abs();
        let tolerance = of.iter().sum::<f64>() / count + own;
        self.outputs[0].1.mean = Some((mean, tolerance));
        self
    }

    /// Compares an f32 result of one output.
    ///
    /// # Errors
    /// [`Disagreement`] with the worst element; [`Disagreement::Outputs`] if several outputs are expected.
    pub fn check(&self, got: ArrayViewD<'_, f32>) -> Result<Agreement, Disagreement> {
        self.only()?.check(got)
    }

    /// Compares all outputs of an f32 result, in the graph's order.
    ///
    /// # Errors
    /// [`Disagreement`] with the worst element of the first differing output, and with the output's name if
    /// there are several.
    pub fn check_all(&self, got: &[ArrayD<f32>]) -> Result<Agreement, Disagreement> {
        self.must_be(got.len())?;
        let mut agreement = Agreement::default();
        for ((name, output), got) in self.outputs.iter().zip(got) {
            let of_output = |how| match self.outputs.len() {
                1 => how,
                _ => Disagreement::Output {
                    name: name.clone(),
                    how: Box::new(how),
                },
            };
            agreement = agreement.and(output.check(got.view()).map_err(of_output)?);
        }
        Ok(agreement)
    }

    /// Compares an f32 result of one output, given as elements in row-major order.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_elements(&self, got: &[f32]) -> Result<Agreement, Disagreement> {
        let output = self.only()?;
        if got.len() != output.shape.iter().product::<usize>() {
            output.check_shape(&[got.len()])?;
        }
        output.compare(|i| f64::from(got[i]))
    }

    /// Compares a float64 result of one output.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_f64(&self, got: ArrayViewD<'_, f64>) -> Result<Agreement, Disagreement> {
        let output = self.only()?;
        output.check_shape(got.shape())?;
        let got = got.as_standard_layout();
        let got = got.as_slice().expect("standard layout is contiguous");
        output.compare(|i| got[i])
    }

    /// The values of the first output as an array, if all elements are known.
    #[must_use]
    pub fn values(&self) -> Option<ArrayD<f64>> {
        let Output {
            index: None,
            shape,
            values,
            ..
        } = self.first()
        else {
            return None;
        };
        ArrayD::from_shape_vec(IxDyn(shape), values.clone()).ok()
    }
}

impl Output {
    fn check(&self, got: ArrayViewD<'_, f32>) -> Result<Agreement, Disagreement> {
        self.check_shape(got.shape())?;
        let got = got.as_standard_layout();
        let got = got.as_slice().expect("standard layout is contiguous");
        self.compare(|i| f64::from(got[i]))
    }

    fn check_shape(&self, shape: &[usize]) -> Result<(), Disagreement> {
        if shape != self.shape {
            return Err(Disagreement::Shape {
                actual: shape.to_vec(),
                expected: self.shape.clone(),
            });
        }
        Ok(())
    }

    fn compare(&self, got: impl Fn(usize) -> f64) -> Result<Agreement, Disagreement> {
        let mut agreement = Agreement::default();
        let mut failures = 0;
        let mut worst: Option<(f64, usize)> = None;
        for (i, (&want, &tolerance)) in self.values.iter().zip(&self.tolerance).enumerate() {
            let got = got(self.position(i));
            agreement.elements += 1;
            if self.right_without_tolerance(got, want, tolerance) {
                continue;
            }
            let difference = (got - want).abs();
            if difference <= tolerance {
                agreement.largest_error = agreement.largest_error.max(difference);
                let used = difference / tolerance;
                agreement.tolerance_used = agreement.tolerance_used.max(used);
            } else {
                // A NaN difference is also a failure.
                failures += 1;
                let excess = if difference.is_nan() {
                    f64::INFINITY
                } else {
                    difference / tolerance
                };
                if worst.is_none_or(|(largest, _)| excess > largest) {
                    worst = Some((excess, i));
                }
            }
        }
        let Some((_, i)) = worst else {
            self.compare_mean(&got)?;
            return Ok(agreement);
        };
        Err(Disagreement::Values(WorstElement {
            index: self.coordinates(self.position(i)),
            got: got(self.position(i)),
            want: self.values[i],
            tolerance: self.tolerance[i],
            failures,
            elements: agreement.elements,
        }))
    }

    fn compare_mean(&self, got: impl Fn(usize) -> f64) -> Result<(), Disagreement> {
        let Some((want, tolerance)) = self.mean else {
            return Ok(());
        };
        let count: usize = self.shape.iter().product();
        // Partial sums: a single chain of millions of additions would lose more than the tolerance.
        let chain = count.isqrt().max(1);
        let part = |start| (start..count.min(start + chain)).map(&got).sum::<f64>();
        let got = (0..count).step_by(chain).map(part).sum::<f64>() / count as f64;
        if (got - want).abs() <= tolerance {
            return Ok(());
        }
        Err(Disagreement::Mean {
            got,
            want,
            tolerance,
        })
    }

    /// Whether a value is right without tolerance: an equal number, NaN for NaN, or infinity on overflow.
    fn right_without_tolerance(&self, got: f64, want: f64, tolerance: f64) -> bool {
        let overflow = want.abs() + tolerance > self.precision.largest
            && got.is_infinite()
            && got.signum() == want.signum();
        got == want || (got.is_nan() && want.is_nan()) || overflow
    }

    /// Returns the index of entry `i` in the flattened output.
    fn position(&self, i: usize) -> usize {
        self.index.as_ref().map_or(i, |index| index[i])
    }

    fn coordinates(&self, mut position: usize) -> Vec<usize> {
        let mut coordinates = vec![0; self.shape.len()];
        for (coordinate, &extent) in coordinates.iter_mut().zip(&self.shape).rev() {
            *coordinate = position % extent;
            position /= extent;
        }
        coordinates
    }
}

#[cfg(test)]
mod tests;

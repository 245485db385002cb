use std::fmt;

use ndarray::{ArrayD, ArrayViewD, IxDyn};

use crate::{Bounded, Precision};

/// What a computation should give: of each output values and, for each, how far off it may be.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Under their layers' names, which are empty in a chain; at least one.
    outputs: Vec<(String, Output)>,
}

/// What one output should be.
#[derive(Clone, Debug)]
struct Output {
    shape: Vec<usize>,
    /// Which elements of the flattened output are known, all of them if absent.
    index: Option<Vec<usize>>,
    values: Vec<f64>,
    tolerance: Vec<f64>,
    /// Mean of the whole output and how far off it may be, where elements are sampled.
    mean: Option<(f64, f64)>,
    precision: Precision,
}

/// How well a result agrees, with all of its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The largest difference between finite elements.
    pub largest_error: f64,
    /// The largest part of its tolerance that any element uses, at most 1.
    pub tolerance_used: f64,
    /// Elements compared.
    pub elements: usize,
}

impl Agreement {
    /// That of two outputs together.
    fn and(self, other: Agreement) -> Agreement {
        Agreement {
            largest_error: self.largest_error.max(other.largest_error),
            tolerance_used: self.tolerance_used.max(other.tolerance_used),
            elements: self.elements + other.elements,
        }
    }
}

/// How a result disagrees.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// There is another number of outputs.
    #[error("there are {actual} outputs, expected {expected}")]
    Outputs {
        /// How many there are.
        actual: usize,
        /// How many there should be.
        expected: usize,
    },
    /// One of several outputs disagrees, the first that does.
    #[error("output {name}: {how}")]
    Output {
        /// The name of its layer.
        name: String,
        /// How it disagrees.
        how: Box<Disagreement>,
    },
    /// The output has another shape.
    #[error("output has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// Its shape.
        actual: Vec<usize>,
        /// The right shape.
        expected: Vec<usize>,
    },
    /// The mean of an output of which only samples are known is off, so elements between them are.
    #[error("the mean of all elements is {got:e}, want {want:e}, tolerance {tolerance:.3e}")]
    Mean {
        /// What it is.
        got: f64,
        /// What it should be.
        want: f64,
        /// How far off it may be.
        tolerance: f64,
    },
    /// Elements are off; the worst of them is described.
    #[error("{0}")]
    Values(WorstElement),
}

/// The element that exceeds its tolerance by the largest factor.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// Where it is.
    pub index: Vec<usize>,
    /// What was computed.
    pub got: f64,
    /// What it should be.
    pub want: f64,
    /// How far off it may be.
    pub tolerance: f64,
    /// Elements that exceed their tolerance.
    pub failures: usize,
    /// Elements compared.
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

/// The elements in row-major order.
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
    /// The values of one output, with tolerances for arithmetic of this precision.
    #[must_use]
    pub fn new(bounded: Bounded, precision: &Precision) -> Self {
        Self::of_outputs([(String::new(), bounded)], precision)
    }

    /// The same of several outputs, at least one, under their layers' names.
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

    /// The same tolerances around other values of the only output: all elements, or those at `index` of the
    /// flattened output. Values that are not finite lose their tolerance.
    ///
    /// # Panics
    /// If there are several outputs, the numbers of values do not fit, or an index lies outside.
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

    /// Expects this mean of the whole first output, too. The elements' tolerances bound the mean's,
    /// with what float64 may lose in adding the elements up.
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
    /// [`Disagreement`] with the worst element; [`Disagreement::Outputs`] where several are expected.
    pub fn check(&self, got: ArrayViewD<'_, f32>) -> Result<Agreement, Disagreement> {
        self.only()?.check(got)
    }

    /// Compares all outputs of an f32 result, in the graph's order.
    ///
    /// # Errors
    /// [`Disagreement`] with the worst element of the first output that disagrees, and with the output's name
    /// where there are several.
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

    /// Compares an f32 result of one output whose elements are given in row-major order.
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

    /// The values of the first output as an array, if all are known.
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
                // A NaN difference ends up here, too.
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
        // Sums of sums: one chain of millions of additions would lose more than the tolerance.
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

    /// Equal numbers, NaN for NaN, and infinity for what the format cannot hold.
    fn right_without_tolerance(&self, got: f64, want: f64, tolerance: f64) -> bool {
        let overflow = want.abs() + tolerance > self.precision.largest
            && got.is_infinite()
            && got.signum() == want.signum();
        got == want || (got.is_nan() && want.is_nan()) || overflow
    }

    /// Where entry `i` lies in the flattened output.
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

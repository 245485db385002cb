//! One run of a subject: checked, then timed.

use convfuse::Result;
use convfuse::model::{Options, Strategy};
use ndarray::ArrayD;
use oracle::Expected;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::{Protocol, Subject, Summary};
use crate::{Status, told};

/// What a strategy did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The strategy's name.
    pub strategy: String,
    /// Its kernels, in words.
    pub kernels: String,
    /// How long it takes; absent if it went wrong.
    pub time: Option<Summary>,
    /// Kernel launches.
    pub launches: u64,
    /// Device memory beyond input, output and parameters.
    pub extra_bytes: u64,
    /// Bytes that its kernels read and write, by their own account.
    pub bytes_moved: u64,
    /// The hash of the output's bits, so that two runs can be compared without their outputs: XXH3 with 128
    /// bits and seed 0, as 32 hexadecimal digits, of the elements in row-major order, each widened to f32
    /// (f16 and bf16 exactly) and taken as its four bytes, the lowest first. Absent if there was no output.
    pub output_hash: Option<String>,
    /// The largest difference from the float64 reference.
    pub largest_error: Option<f64>,
    /// The largest part of its tolerance that any element uses.
    pub tolerance_used: Option<f64>,
    /// What went wrong.
    pub complaint: Option<String>,
    /// What the run came to: whether its result is wrong, or something else happened.
    pub status: Status,
    /// The output, widened to f32.
    #[serde(skip)]
    pub output: Option<ArrayD<f32>>,
}

impl Subject {
    /// Runs the model under a strategy: prepares a plan, compares its output with `expected` if there is
    /// such, and times it if that agrees. A failure is in [`complaint`](Run::complaint), so that
    /// other strategies can go on.
    pub fn measure(
        &self,
        strategy: &Strategy,
        options: &Options,
        expected: Option<&Expected>,
        protocol: &mut Protocol,
    ) -> Run {
        let on_cpu = protocol.stream().device().is_cpu();
        let (strategy, kernels) = if on_cpu {
            ("cpu".to_owned(), "ndarray, all cores".to_owned())
        } else {
            (strategy.to_string(), strategy.summary(self.graph()))
        };
        let mut run = Run {
            strategy,
            kernels,
            ..Run::default()
        };
        if let Err(error) = self.fill_in(&mut run, options, expected, protocol) {
            run.complaint = Some(told(&error));
            run.status = Status::of(&error);
        }
        run
    }

    fn fill_in(
        &self,
        run: &mut Run,
        options: &Options,
        expected: Option<&Expected>,
        protocol: &mut Protocol,
    ) -> Result<()> {
        let stream = protocol.stream().clone();
        let mut plan = self.model.plan_for(&stream, self.inputs(), options)?;
        let mut outputs = plan.outputs()?;
        stream.take_counts();
        plan.execute_all(self.inputs(), &mut outputs)?;
        let counts = stream.take_counts();
        run.launches = counts.launches;
        run.bytes_moved = counts.bytes_moved;
        run.extra_bytes = plan.workspace_bytes();

        // Judged and kept is the first one.
        let output = outputs[0].to_f32_array()?;
        run.output_hash = Some(hash(&output));
        match expected.map(|expected| expected.check(output.view())) {
            None => {}
            Some(Ok(agreement)) => {
                run.largest_error = Some(agreement.largest_error);
                run.tolerance_used = Some(agreement.tolerance_used);
            }
            Some(Err(disagreement)) => {
                run.complaint = Some(disagreement.to_string());
                run.status = Status::Wrong;
                return Ok(());
            }
        }
        let time = protocol.time(|| plan.execute_all(self.inputs(), &mut outputs))?;
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        if output.iter().zip(&outputs[0].to_f32_array()?).all(same) {
            run.time = Some(time);
            run.output = Some(output);
        } else {
            run.complaint = Some("the output differs from run to run".to_owned());
            run.status = Status::Wrong;
        }
        Ok(())
    }
}

/// What [`Run::output_hash`] describes.
fn hash(output: &ArrayD<f32>) -> String {
    let mut hasher = Xxh3::new();
    for value in output {
        hasher.update(&value.to_le_bytes());
    }
    format!("{:032x}", hasher.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array, IxDyn};
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn a_hash_is_that_of_the_bytes_in_row_major_order() {
        let output = Array::from_shape_vec(IxDyn(&[2, 2]), vec![1.0, 2.0, 3.0, -0.0]).unwrap();
        let bytes = [
            0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0, 0x80,
        ];
        assert_eq!(hash(&output), format!("{:032x}", xxh3_128(&bytes)));
        let positive = output.mapv(f32::abs);
        assert_ne!(hash(&output), hash(&positive));
        assert_ne!(hash(&output), hash(&output.t().to_owned()));
        // The order is that of the indices, whatever the order in memory.
        let mut transposed = output.t().as_standard_layout().into_owned();
        transposed.swap_axes(0, 1);
        assert_eq!(hash(&output), hash(&transposed));
    }
}

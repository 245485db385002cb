//! One run of a subject: checked, then timed.

use ndarray::ArrayD;
use oracle::Expected;
use serde::Serialize;

use super::{Protocol, Subject, Summary};
use crate::error::Result;
use crate::models::{Options, Pipeline, Strategy};

/// What a strategy did.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// The largest difference from the float64 reference.
    pub largest_error: Option<f64>,
    /// The largest part of its tolerance that any element uses.
    pub tolerance_used: Option<f64>,
    /// What went wrong.
    pub complaint: Option<String>,
    /// The output, widened to f32.
    #[serde(skip)]
    pub output: Option<ArrayD<f32>>,
}

impl Run {
    /// A run that has not been made.
    pub(super) fn of(strategy: String, kernels: &str) -> Run {
        Run {
            strategy,
            kernels: kernels.to_owned(),
            time: None,
            launches: 0,
            extra_bytes: 0,
            bytes_moved: 0,
            largest_error: None,
            tolerance_used: None,
            complaint: None,
            output: None,
        }
    }
}

impl<M: Pipeline> Subject<M> {
    /// Runs the pipeline under `options`: prepares a plan, compares its output with `expected` if there is such, and times
    /// it if that agrees. What goes wrong is told by [`complaint`](Run::complaint), so that other strategies can go on.
    pub fn measure(
        &self,
        options: &Options<M::Strategy>,
        expected: Option<&Expected>,
        protocol: &mut Protocol,
    ) -> Run {
        let strategy = options.strategy;
        let on_cpu = protocol.stream().device().is_cpu();
        let (name, kernels) = if on_cpu {
            ("cpu".to_owned(), "ndarray, all cores")
        } else {
            (strategy.to_string(), strategy.summary())
        };
        let mut run = Run::of(name, kernels);
        if let Err(error) = self.fill_in(&mut run, options, expected, protocol) {
            run.complaint = Some(error.to_string());
        }
        run
    }

    fn fill_in(
        &self,
        run: &mut Run,
        options: &Options<M::Strategy>,
        expected: Option<&Expected>,
        protocol: &mut Protocol,
    ) -> Result<()> {
        let stream = protocol.stream().clone();
        let mut plan = self.model.plan(&stream, self.x.shape(), options)?;
        let mut y = plan.output()?;
        stream.take_counts();
        plan.execute(&self.x, &mut y)?;
        let counts = stream.take_counts();
        run.launches = counts.launches;
        run.bytes_moved = counts.bytes_moved;
        run.extra_bytes = plan.workspace_bytes();

        let output = y.to_f32_array()?;
        match expected.map(|expected| expected.check(output.view())) {
            None => {}
            Some(Ok(agreement)) => {
                run.largest_error = Some(agreement.largest_error);
                run.tolerance_used = Some(agreement.tolerance_used);
            }
            Some(Err(disagreement)) => {
                run.complaint = Some(disagreement.to_string());
                return Ok(());
            }
        }
        let time = protocol.time(|| plan.execute(&self.x, &mut y))?;
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        if output.iter().zip(&y.to_f32_array()?).all(same) {
            run.time = Some(time);
            run.output = Some(output);
        } else {
            run.complaint = Some("the output differs from run to run".to_owned());
        }
        Ok(())
    }
}

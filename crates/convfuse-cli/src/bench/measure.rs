//! One run of a subject: first checked, then timed.

use convfuse::Result;
use convfuse::model::{Options, Strategy};
use ndarray::ArrayD;
use op_spec::graph::Graph;
use oracle::Expected;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::{Protocol, Subject, Summary};
use crate::execution_mode::arrays;
use crate::{Status, told};

/// The result of running a strategy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The strategy's name.
    pub strategy: String,
    /// Its kernels, as text.
    pub kernels: String,
    /// Timings; absent if the run failed.
    pub time: Option<Summary>,
    /// Kernel launches.
    pub launches: u64,
    /// Device memory beyond input, output and parameters.
    pub extra_bytes: u64,
    /// Bytes that its kernels read and write, as declared by the kernels.
    pub bytes_moved: u64,
    /// A hash of the outputs' bits, for comparing two runs without their outputs: 128-bit XXH3 with seed 0,
    /// as 32 hexadecimal digits. It covers the outputs in the graph's order, the elements of each in
    /// row-major order. Each element is widened to f32 (exactly, for f16 and bf16) and hashed as four
    /// little-endian bytes. Absent if there was no output.
    pub output_hash: Option<String>,
    /// The largest difference of any output from the float64 reference.
    pub largest_error: Option<f64>,
    /// The largest ratio of an element's error to its tolerance, over all outputs.
    pub tolerance_used: Option<f64>,
    /// The error message if the run failed.
    pub complaint: Option<String>,
    /// The outcome of the run: success, a wrong result, or another failure.
    pub status: Status,
    /// All outputs, widened to f32; empty if the run failed.
    #[serde(skip)]
    pub outputs: Vec<ArrayD<f32>>,
}

impl Subject {
    /// Runs the model under a strategy: prepares a plan, compares its outputs with `expected` if given, and
    /// times the plan if they agree. A failure is stored in [`complaint`](Run::complaint), which lets other
    /// strategies continue.
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
        let mut tensors = plan.outputs()?;
        stream.take_counts();
        plan.execute_all(self.inputs(), &mut tensors)?;
        let counts = stream.take_counts();
        run.launches = counts.launches;
        run.bytes_moved = counts.bytes_moved;
        run.extra_bytes = plan.workspace_bytes();

        let outputs = arrays(&tensors)?;
        run.output_hash = Some(hash(&outputs));
        match expected.map(|expected| expected.check_all(&outputs)) {
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
        let time = protocol.time(|| plan.execute_all(self.inputs(), &mut tensors))?;
        match different(self.graph(), &outputs, &arrays(&tensors)?) {
            None => {
                run.time = Some(time);
                run.outputs = outputs;
            }
            Some(which) => {
                run.complaint = Some(format!("the output{which} differs from run to run"));
                run.status = Status::Wrong;
            }
        }
        Ok(())
    }
}

/// Finds the first output whose bits differ between two runs. Returns its name after a space, or an empty
/// string if the graph has one output.
fn different(graph: &Graph, one: &[ArrayD<f32>], other: &[ArrayD<f32>]) -> Option<String> {
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
    let mut pairs = one.iter().zip(other);
    let at = pairs.position(|(one, other)| !one.iter().zip(other).all(same))?;
    Some(match graph.outputs() {
        [_] => String::new(),
        outputs => format!(" {}", graph.name_of(outputs[at])),
    })
}

/// Computes [`Run::output_hash`].
fn hash(outputs: &[ArrayD<f32>]) -> String {
    let mut hasher = Xxh3::new();
    for value in outputs.iter().flatten() {
        hasher.update(&value.to_le_bytes());
    }
    format!("{:032x}", hasher.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Description;
    use convfuse::{DType, Device, ops};
    use ndarray::{Array, IxDyn};
    use op_spec::graph::Layer;
    use std::slice;
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn a_hash_is_that_of_the_bytes_in_row_major_order() {
        let output = Array::from_shape_vec(IxDyn(&[2, 2]), vec![1.0, 2.0, 3.0, -0.0]).unwrap();
        let bytes = [
            0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0, 0x80,
        ];
        let of = |output: &ArrayD<f32>| hash(slice::from_ref(output));
        assert_eq!(of(&output), format!("{:032x}", xxh3_128(&bytes)));
        let positive = output.mapv(f32::abs);
        assert_ne!(of(&output), of(&positive));
        assert_ne!(of(&output), of(&output.t().to_owned()));
        // The order of hashing is by index, independent of the memory layout.
        let mut transposed = output.t().as_standard_layout().into_owned();
        transposed.swap_axes(0, 1);
        assert_eq!(of(&output), of(&transposed));
    }

    #[test]
    fn every_output_counts() {
        let outputs = [1.0, 2.0].map(|value| Array::from_elem(IxDyn(&[2, 2]), value));
        let mut others = outputs.clone();
        others[1][[1, 1]] = 3.0;
        assert_ne!(hash(&outputs), hash(&others));
        assert_ne!(hash(&outputs), hash(&outputs[..1]));
        let graph = |further: &[&str]| {
            let graph = Graph::builder("x", 2)
                .layer("small", "x", Layer::max_pool2d(2))
                .layer("y", "small", Layer::relu());
            let further = further.iter();
            let graph = further.fold(graph, |graph, &name| graph.output(name));
            graph.build("y").unwrap()
        };
        let of = |further: &[&str], one, other| different(&graph(further), one, other);
        assert_eq!(of(&["small"], &outputs, &outputs), None);
        let small = Some(" small".to_owned());
        assert_eq!(of(&["small"], &outputs, &others), small);
        assert_eq!(of(&[], &outputs[1..], &others[1..]), Some(String::new()));
    }

    #[test]
    fn a_wrong_second_output_is_reported_and_not_timed() {
        let stream = Device::cpu().stream().unwrap();
        let mut protocol = Protocol::new(&stream).unwrap();
        let subject = |second: &str| {
            let graph = Graph::builder("x", 2)
                .layer("a", "x", Layer::clamp(0.0, 0.5))
                .layer("b", "a", Layer::tanh())
                .layer("y", "b", Layer::relu())
                .output(second)
                .build("y")
                .unwrap();
            let description = Description::new(&graph, &[2, 2, 5], DType::F32, 1).unwrap();
            Subject::new(&stream, &description).unwrap()
        };
        let judged = subject("a");
        let strategy = &Strategy::all(judged.graph())[0];
        let mut measured = |wanted: &Subject| {
            let expected = wanted.expected(ops::Precision::Accurate).unwrap();
            judged.measure(
                strategy,
                &Options::default(),
                Some(&expected),
                &mut protocol,
            )
        };
        let right = measured(&judged);
        assert_eq!((right.complaint, right.status), (None, Status::Right));
        assert_eq!(right.outputs.len(), 2);
        assert_eq!(right.output_hash, Some(hash(&right.outputs)));
        let wrong = measured(&subject("b"));
        let complaint = wrong.complaint.unwrap();
        assert!(
            complaint.starts_with("output b: ") && complaint.contains("elements are off"),
            "{complaint}"
        );
        assert_eq!((wrong.status, wrong.time), (Status::Wrong, None));
        assert!(wrong.outputs.is_empty());
    }
}

//! Runs a generated case in every execution mode that a device has for it.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use convfuse::graph::{GraphError, Layer};
use convfuse::{DType, Device, EmulatorOptions, Error, Stream, Tensor, lab};
use ndarray::{ArrayD, Axis, Slice};
use oracle::{Case, Expected, Precision};

use super::generated_case::{GeneratedCase, Impossible, MemoryLayout};
use crate::execution_mode::{CaseFailure, DeviceCase, Executable, ExecutionMode, arrays};

/// The target that runs the cases.
#[derive(Debug, Clone)]
pub enum Target {
    /// On this device.
    Device(Device),
    /// A new emulator for each case, with the case's thread order.
    Emulator,
}

impl Target {
    fn device(&self, schedule: Option<u64>) -> Device {
        match self {
            Target::Device(device) => device.clone(),
            Target::Emulator => {
                let mut options = EmulatorOptions::new();
                options.seed = schedule;
                options.catch_signals = true;
                Device::emulator_with(options)
            }
        }
    }
}

/// The outcome of a generated case.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Whether the specification refuses the case. If the device does not refuse it too, `trouble` is set.
    pub is_refused: bool,
    /// The number of compared results.
    pub runs: usize,
    /// The number of compared elements.
    pub elements: usize,
    /// The largest ratio of error to tolerance: in accurate f32, fast f32, f16, bf16.
    pub used: [f64; 4],
    /// The kernels that ran.
    pub kernels: BTreeSet<&'static str>,
    /// The first failure that was found.
    pub trouble: Option<CaseFailure>,
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("something")
}

impl GeneratedCase {
    /// Runs the case in all modes, and compares the results with the oracle's. A panic also counts as a
    /// failure.
    #[must_use]
    pub fn judge(&self, target: &Target) -> Verdict {
        let mut verdict = Verdict::default();
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge_into(target, &mut verdict)));
        verdict.trouble = match judged {
            Ok(judged) => judged.err(),
            Err(panic) => {
                let text = format!("panicked: {}", said(&*panic));
                Some(CaseFailure::wrong(text))
            }
        };
        verdict
    }

    fn judge_into(&self, target: &Target, verdict: &mut Verdict) -> Result<(), CaseFailure> {
        let device = target.device(self.schedule);
        let stream = device.stream()?;
        let case = match &self.case {
            Ok(case) => case,
            Err(impossible) => {
                verdict.is_refused = true;
                return self.must_be_impossible(impossible, &stream);
            }
        };
        if let Err(refusal) = case.problem() {
            verdict.is_refused = true;
            return self.must_be_refused(case, &refusal, &stream);
        }
        let mut modes = ExecutionMode::all_on(&device, case, self.dtype);
        if !device.is_cpu() && case.graph.layers().len() == 1 {
            modes.extend(ExecutionMode::by_models(case, self.dtype));
        }
        let precisions: Vec<Precision> = modes.iter().map(ExecutionMode::precision).collect();
        let mut different: Vec<Precision> = Vec::new();
        for precision in &precisions {
            if !different.contains(precision) {
                different.push(*precision);
            }
        }
        let expected = case.expected_at(&different).map_err(Error::from)?;
        let inputs = InputsOf::new(self, case, &stream)?;
        // A drawn mode, which gives each mode its turn.
        let drawn = self.look % modes.len();
        for (number, mode) in modes.iter().enumerate() {
            let at = different
                .iter()
                .position(|known| *known == precisions[number]);
            let wanted = &expected[at.expect("each precision is among the different ones")];
            let of_mode = |trouble: CaseFailure| CaseFailure {
                text: format!("{mode}: {}", trouble.text),
                ..trouble
            };
            // The last mode of each precision has the fewest launches, and is always checked.
            let is_last = !precisions[number + 1..].contains(&precisions[number]);
            let is_looked_at = is_last || number == drawn;
            let done = self.run(&inputs, mode, wanted, is_looked_at, verdict);
            done.map_err(of_mode)?;
            if let Some(another) = self.another.as_ref().filter(|_| number == drawn) {
                let done = self.must_serve(another, &inputs, mode, verdict);
                done.map_err(of_mode)?;
            }
        }
        Ok(())
    }

    /// Checks that a model or operator that has run the case computes another input like a fresh one.
    fn must_serve(
        &self,
        other: &Case,
        inputs: &InputsOf<'_>,
        mode: &ExecutionMode,
        verdict: &mut Verdict,
    ) -> Result<(), CaseFailure> {
        let stream = inputs.whole.x.stream();
        let fresh = DeviceCase::new(other, stream, self.dtype)?;
        let run = |of: &DeviceCase<'_>| outputs(&mode.ready(of)?, &fresh.x, &fresh.further);
        let what = format!("behind that of {:?}", inputs.whole.x.shape());
        match (run(&fresh), run(&inputs.whole)) {
            (Ok(alone), Ok(behind)) => {
                verdict.runs += 1;
                must_be_same(&alone, &behind, &format!("{:?} {what}", other.x.shape()))
            }
            // A partition that has kernels for this case only.
            (Err(alone), Err(behind)) if alone == behind => Ok(()),
            (Err(alone), behind) => {
                let behind = behind.err();
                Err(CaseFailure::wrong(format!(
                    "{behind:?} {what}, {alone:?} without"
                )))
            }
            (Ok(_), Err(behind)) => Err(behind),
        }
    }

    fn run(
        &self,
        inputs: &InputsOf<'_>,
        mode: &ExecutionMode,
        wanted: &Expected,
        is_looked_at: bool,
        verdict: &mut Verdict,
    ) -> Result<(), CaseFailure> {
        let whole = &inputs.whole;
        let ready = mode.ready(whole)?;
        let got = outputs(&ready, &whole.x, &whole.further)?;
        let agreement = wanted.check_all(&got).map_err(CaseFailure::wrong)?;
        verdict.runs += 1;
        verdict.elements += agreement.elements;
        let of_precision = match self.dtype {
            DType::F16 => 2,
            DType::BF16 => 3,
            _ => usize::from(mode.is_fast()),
        };
        let used = &mut verdict.used[of_precision];
        *used = used.max(agreement.tolerance_used);
        if !whole.x.device().is_cpu() {
            verdict.kernels.extend(ready.kernels(whole.x.shape())?);
        }

        match is_looked_at {
            true => {
                let is_fast = mode.precision() == Precision::TF32;
                inputs.must_repeat((&ready, is_fast), &got, wanted, verdict)
            }
            false => Ok(()),
        }
    }

    /// Checks that the device refuses a case that the specification refuses, with the same message.
    fn must_be_refused(
        &self,
        case: &Case,
        refusal: &GraphError,
        stream: &Stream,
    ) -> Result<(), CaseFailure> {
        let wrong = |text: String| Err(CaseFailure::wrong(text));
        let got = ExecutionMode::all(case, self.dtype)[0].run(case, stream);
        match (got, refusal) {
            // A model's error also names the layer.
            (Err(Error::Graph(error)), _) if error == *refusal => Ok(()),
            (Err(error), GraphError::Layer { source, .. })
                if error.to_string() == source.to_string() =>
            {
                Ok(())
            }
            // Without a valid shape the chain gives no shapes for further inputs. The case has none, and a
            // model reports missing inputs first.
            (Err(Error::Inputs(_)), _) if !case.graph.inputs().is_empty() => Ok(()),
            (Err(error), _) => wrong(format!("refused with {error}, reference: {refusal}")),
            (Ok(_), _) => wrong(format!("accepted, reference: {refusal}")),
        }
    }

    /// Checks that the operator's function refuses a pooling layer that no chain accepts.
    fn must_be_impossible(
        &self,
        impossible: &Impossible,
        stream: &Stream,
    ) -> Result<(), CaseFailure> {
        let Impossible {
            layers,
            input,
            refusal,
        } = impossible;
        let [layer] = layers.as_slice() else {
            return Ok(());
        };
        let is_pool = layer.operator().contains("pool");
        if !is_pool {
            return Ok(());
        }
        let wrong = |text: String| Err(CaseFailure::wrong(text));
        let x = ArrayD::zeros(&input[..]);
        let x = Tensor::from_f32_array(stream, &x, self.dtype)?;
        match lab::layer(&x, layer, &[], &convfuse::Options::default()) {
            Err(error) if error.to_string().starts_with(layer.operator()) => Ok(()),
            Err(error) => wrong(format!("refused with {error}, reference: {refusal}")),
            Ok(_) => wrong(format!("accepted, reference: {refusal}")),
        }
    }
}

/// The inputs of a case on a device, uploaded once for all modes: dense, in the drawn layout, and split by
/// samples. Layout and split must not change a bit of the outputs, unless the layout has kernels that sum in
/// another order.
struct InputsOf<'a> {
    whole: DeviceCase<'a>,
    /// The drawn layout of the first input, and its tensor.
    laid_out: Option<(&'a MemoryLayout, Tensor)>,
    /// Whether channels-last kernels may sum in another order.
    reorders_sums: bool,
    /// Ranges of samples that run separately, with their inputs.
    parts: Vec<(Range<usize>, Tensor, Vec<Tensor>)>,
}

impl<'a> InputsOf<'a> {
    fn new(
        generated: &'a GeneratedCase,
        case: &'a Case,
        stream: &'a Stream,
    ) -> convfuse::Result<Self> {
        let dtype = generated.dtype;
        let laid_out = match &generated.layout {
            None => None,
            Some(layout) => Some((layout, layout.upload(stream, &case.x, dtype)?)),
        };
        let mut parts = Vec::new();
        let samples = case.x.shape()[0];
        let is_cut = !case.graph.lacks_batch(case.x.shape()) && !case.graph.couples_samples();
        if is_cut && (1..samples).contains(&generated.cut) {
            for part in [0..generated.cut, generated.cut..samples] {
                let slice = |values: &ArrayD<f32>| samples_of(values, &part);
                let x = slice(&case.x);
                // A norm over single values requires several samples.
                if case.graph.problem(x.shape()).is_err() {
                    continue;
                }
                let upload = |values: &_| Tensor::from_f32_array(stream, values, dtype);
                let further = case.inputs.iter().map(|values| upload(&slice(values)));
                let further = further.collect::<convfuse::Result<_>>()?;
                parts.push((part, upload(&x)?, further));
            }
        }
        Ok(InputsOf {
            whole: DeviceCase::new(case, stream, dtype)?,
            reorders_sums: laid_out.as_ref().is_some_and(|(layout, x)| {
                // Transposed convolutions interleave phases only in NCHW; norms and reductions have kernels
                // for each layout.
                let has_own_kernels = case.graph.layers().iter().any(|layer| {
                    let is_own = matches!(
                        layer,
                        Layer::AdaptiveAvgPool2d(_)
                            | Layer::AdaptiveAvgPool3d(_)
                            | Layer::Reduction(_)
                            | Layer::BatchNorm(_)
                            | Layer::GroupNorm(_)
                            | Layer::InstanceNorm(_)
                            | Layer::LayerNorm(_)
                    );
                    is_own || layer.is_transposed_convolution()
                });
                x.dtype() != DType::F32 && layout.is_channels_last()
                    || has_own_kernels && x.strides()[1] == 1
            }),
            laid_out,
            parts,
        })
    }

    /// Checks that the bits of `got` depend neither on the input's layout nor on the split of the batch. In
    /// 16 bits, and for transposed convolutions, norms and reductions, inputs whose channels are contiguous
    /// have their own kernels, and in fast f32 so have inputs that are aligned to 16 bytes. Results of other
    /// layouts must be within the tolerance instead.
    fn must_repeat(
        &self,
        (ready, is_fast): (&Executable<'_>, bool),
        got: &[ArrayD<f32>],
        wanted: &Expected,
        verdict: &mut Verdict,
    ) -> Result<(), CaseFailure> {
        if let Some((layout, x)) = &self.laid_out {
            let laid_out = outputs(ready, x, &self.whole.further)?;
            verdict.runs += 1;
            let what = format!("where the input lies as {layout:?}");
            if self.reorders_sums || is_fast {
                let agreement = wanted.check_all(&laid_out);
                agreement.map_err(|how| CaseFailure::wrong(format!("{how} {what}")))?;
            } else {
                must_be_same(got, &laid_out, &what)?;
            }
        }
        for (part, x, further) in &self.parts {
            let alone = outputs(ready, x, further)?;
            verdict.runs += 1;
            let what = format!("where samples {part:?} are done by themselves");
            let of_part: Vec<_> = got.iter().map(|y| samples_of(y, part)).collect();
            must_be_same(&of_part, &alone, &what)?;
        }
        Ok(())
    }
}

/// Slices samples of a batch.
fn samples_of(values: &ArrayD<f32>, part: &Range<usize>) -> ArrayD<f32> {
    let part = Slice::from(part.clone());
    values.slice_axis(Axis(0), part).to_owned()
}

fn outputs(
    ready: &Executable<'_>,
    x: &Tensor,
    further: &[Tensor],
) -> Result<Vec<ArrayD<f32>>, CaseFailure> {
    Ok(arrays(&ready.run(x, further)?)?)
}

/// Fails unless all outputs have the same bits. Any NaN equals any NaN.
fn must_be_same(one: &[ArrayD<f32>], other: &[ArrayD<f32>], what: &str) -> Result<(), CaseFailure> {
    let which = |number| match one.len() {
        1 => String::new(),
        _ => format!("output {number}: "),
    };
    for (number, (one, other)) in one.iter().zip(other).enumerate() {
        let wrong = |text| Err(CaseFailure::wrong(format!("{}{text}", which(number))));
        if one.shape() != other.shape() {
            let (one, other) = (one.shape(), other.shape());
            return wrong(format!("{other:?} {what}, {one:?} without"));
        }
        let bits = |v: &f32| if v.is_nan() { u32::MAX } else { v.to_bits() };
        let mut pairs = one.iter().zip(other).enumerate();
        if let Some((index, (one, other))) =
            pairs.find(|(_, (one, other))| bits(one) != bits(other))
        {
            return wrong(format!(
                "element {index} is {other:e} {what}, {one:e} without"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use convfuse::graph::{Graph, Layer};
    use ndarray::arr1;

    use super::super::families::FAMILIES;
    use super::*;
    use crate::Status;

    #[test]
    fn a_wrong_second_output_is_noticed() {
        let case = |output| {
            let graph = Graph::builder("x", 2)
                .layer("bounded", "x", Layer::clamp(0.0, 0.5))
                .layer("tanh", "bounded", Layer::tanh())
                .layer("y", "tanh", Layer::relu());
            let graph = graph.output(output).build("y").unwrap();
            Case::of_graph("outputs/judged", graph, &[3, 2, 5])
        };
        let generated = GeneratedCase {
            another: None,
            family: FAMILIES.last().unwrap(),
            choices: Vec::new(),
            case: Ok(case("tanh")),
            dtype: DType::F32,
            layout: None,
            cut: 1,
            look: 0,
            schedule: None,
        };
        let device = Device::emulator();
        let stream = device.stream().unwrap();
        let judged = case("tanh");
        let inputs = InputsOf::new(&generated, &judged, &stream).unwrap();
        let modes = ExecutionMode::all_on(&device, &judged, DType::F32);
        assert!(!modes.is_empty());
        for mode in modes {
            let run = |wanted: &Case| {
                let wanted = wanted.expected(&mode.precision()).unwrap();
                let verdict = &mut Verdict::default();
                let ran = generated.run(&inputs, &mode, &wanted, true, verdict);
                ran.map(|()| (verdict.runs, verdict.elements))
            };
            // Both outputs of the whole batch and of two parts.
            assert_eq!(run(&judged), Ok((3, 60)), "{mode}");
            let trouble = run(&case("bounded")).unwrap_err();
            assert_eq!(trouble.status, Status::Wrong);
        }
    }

    #[test]
    fn bits_of_every_output_are_compared() {
        let [one, other] = [1.0, 2.0].map(|value| arr1(&[value]).into_dyn());
        let both = [one.clone(), other];
        assert_eq!(must_be_same(&both, &both, "again"), Ok(()));
        let trouble = must_be_same(&both, &[one.clone(), one], "again");
        let text = "output 1: element 0 is 1e0 again, 2e0 without";
        assert_eq!(trouble, Err(CaseFailure::wrong(text)));
    }
}

//! Execution modes: the algorithms, strategies and math modes in which the library runs a case, and the
//! precision of each.

mod device_case;

use std::fmt;

use convfuse::model::{Explanation, Options, Strategy};
use convfuse::ops::Precision as MathMode;
use convfuse::{DType, Device, Error, Inputs, Stream, Tensor};
use ndarray::ArrayD;
use op_spec::graph::{Graph, Layer, Partition};
use oracle::{Agreement, Case, Expected, Precision};

use crate::status::{Status, told};

pub use device_case::{DeviceCase, Executable};

/// How a [`Case`] is executed: its algorithm or strategy, the math mode of its convolutions, and its element
/// type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionMode {
    kind: Kind,
    dtype: DType,
    /// Whether the mode folds a scale into the preceding group norm.
    folds_scale: bool,
    /// The tensor-core operand format of f32 convolutions; `None` if they use FMA only.
    on_tensor_cores: Option<OperandFormat>,
}

/// The operand format that replaces f32 on tensor cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperandFormat {
    /// One scaled f16, with 11 bits.
    ScaledF16,
    /// Two scaled f16, if the graph has a norm with statistics of its input.
    F16x2,
    /// Three bf16, if it has none.
    Bf16x3,
}

impl OperandFormat {
    /// The operand format of a graph; `None` without a convolution.
    pub(crate) fn of(graph: &Graph, math_mode: MathMode) -> Option<OperandFormat> {
        let is_norm = |layer: &Layer| match layer {
            Layer::GroupNorm(_) | Layer::InstanceNorm(_) | Layer::LayerNorm(_) => true,
            Layer::BatchNorm(norm) => norm.is_by_batch(),
            _ => false,
        };
        has_convolution(graph).then(|| match math_mode {
            MathMode::Fast => OperandFormat::ScaledF16,
            _ if graph.layers().iter().any(is_norm) => OperandFormat::F16x2,
            _ => OperandFormat::Bf16x3,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Only,
    /// The convolution operator with direct kernels.
    Direct,
    /// The convolution operator with the kernels that the kernel table selects.
    Conv(MathMode),
    Model(Strategy, MathMode),
}

/// Returns every strategy with a distinct partition. The fused one is also included in the fast math mode if
/// that differs.
fn model_modes(case: &Case, dtype: DType) -> Vec<Kind> {
    let graph = &case.graph;
    let mut kinds = Vec::new();
    for strategy in different(Strategy::all(graph), graph) {
        let is_fast_another =
            strategy.has_precision() && dtype == DType::F32 && has_convolution(graph);
        kinds.push(Kind::Model(strategy.clone(), MathMode::Accurate));
        if is_fast_another {
            kinds.push(Kind::Model(strategy, MathMode::Fast));
        }
    }
    kinds
}

/// Removes strategies whose partition equals that of another one. For a single layer, `unfused-direct`
/// equals `fused`.
fn different(mut strategies: Vec<Strategy>, graph: &Graph) -> Vec<Strategy> {
    if graph.layers().len() == 1 {
        let alone = Partition::parse(graph, &graph.operators()).ok();
        strategies.retain(|one| one.partition.is_none() || one.partition != alone);
    }
    strategies
}

/// Whether the graph has a convolution or linear layer, which can run on tensor cores.
fn has_convolution(graph: &Graph) -> bool {
    graph.layers().iter().any(Layer::is_convolution)
}

impl fmt::Display for ExecutionMode {
    /// The mode's name, such as `direct f16`; empty for the only mode of an operator in f32.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.kind {
            Kind::Only => String::new(),
            Kind::Direct => "direct".to_owned(),
            Kind::Conv(math_mode) => math_mode.to_string(),
            Kind::Model(strategy, MathMode::Accurate) => strategy.to_string(),
            Kind::Model(strategy, math_mode) => format!("{strategy} {math_mode}"),
        };
        match (self.dtype, name.is_empty()) {
            (DType::F32, _) => f.pad(&name),
            (dtype, true) => f.pad(&dtype.to_string()),
            (dtype, false) => f.pad(&format!("{name} {dtype}")),
        }
    }
}

impl ExecutionMode {
    /// All modes of a case with this element type. The CPU backend executes all of them alike.
    #[must_use]
    pub fn all(case: &Case, dtype: DType) -> Vec<ExecutionMode> {
        let kinds = match case.graph.layers() {
            [layer] if layer.is_convolution() => {
                let fast = (dtype == DType::F32).then_some(Kind::Conv(MathMode::Fast));
                let accurate = Kind::Conv(MathMode::Accurate);
                [Kind::Direct, accurate].into_iter().chain(fast).collect()
            }
            [_] => vec![Kind::Only],
            _ => model_modes(case, dtype),
        };
        ExecutionMode::of(kinds, case, dtype)
    }

    /// The modes that execute the case as a model, which also exist for a single layer.
    #[must_use]
    pub fn by_models(case: &Case, dtype: DType) -> Vec<ExecutionMode> {
        ExecutionMode::of(model_modes(case, dtype), case, dtype)
    }

    fn of(kinds: Vec<Kind>, case: &Case, dtype: DType) -> Vec<ExecutionMode> {
        let graph = &case.graph;
        let mode = |kind| {
            let (folds_scale, on_tensor_cores) = match &kind {
                Kind::Model(strategy, math_mode) => (
                    (strategy
                        .partition
                        .iter()
                        .flat_map(|partition| partition.runs()))
                    .any(|run| run.kernel.as_deref() == Some("folded")),
                    // A named partition names its convolution kernels, and these use FMA in f32.
                    strategy
                        .has_precision()
                        .then(|| OperandFormat::of(graph, *math_mode))
                        .flatten(),
                ),
                Kind::Conv(math_mode) => (false, OperandFormat::of(graph, *math_mode)),
                Kind::Only | Kind::Direct => (false, None),
            };
            ExecutionMode {
                kind,
                dtype,
                folds_scale,
                on_tensor_cores,
            }
        };
        kinds.into_iter().map(mode).collect()
    }

    /// Whether f32 convolutions run in the fast math mode.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.dtype == DType::F32
            && matches!(
                self.kind,
                Kind::Model(_, MathMode::Fast) | Kind::Conv(MathMode::Fast)
            )
    }

    /// The modes that a device supports: one on the CPU backend, on other devices every mode that the
    /// library has kernels for.
    #[must_use]
    pub fn all_on(device: &Device, case: &Case, dtype: DType) -> Vec<ExecutionMode> {
        let mut modes = ExecutionMode::all(case, dtype);
        match device.is_cpu() {
            true => modes.truncate(1),
            false => modes.retain(|mode| mode.has_kernels_on(device, case)),
        }
        modes
    }

    /// Whether the library has kernels for the case in this mode. A named partition matches a graph by the
    /// names of its layers only, and its fused kernels may require more: the same factors twice, for
    /// example. Returns true for modes without a fused partition and for cases that the graph refuses.
    fn has_kernels_on(&self, device: &Device, case: &Case) -> bool {
        let Kind::Model(Strategy { partition, .. }, _) = &self.kind else {
            return true;
        };
        let Some(partition) = partition else {
            return true;
        };
        let are_single = partition.runs().iter().all(|run| run.layers.len() == 1);
        if are_single {
            return true;
        }
        let (input, properties) = (case.x.shape(), device.properties());
        let options = Options::default().partition(partition.clone());
        let has = Explanation::of(&case.graph, self.dtype, input, &options, &properties);
        !matches!(has, Err(Error::NoKernels { .. }))
    }

    /// The precision of its results.
    #[must_use]
    pub fn precision(&self) -> Precision {
        match precision(self.dtype, self.on_tensor_cores) {
            precision if self.folds_scale => precision.folding_scale(),
            precision => precision,
        }
    }

    /// Executes the case on the stream's device, and waits for all of its outputs.
    ///
    /// Inputs and parameters are rounded to the element type first. [`rounded`] gives the case that matches
    /// this rounding.
    ///
    /// # Errors
    /// Errors of the layers and of the device.
    pub fn run(&self, case: &Case, stream: &Stream) -> convfuse::Result<Vec<ArrayD<f32>>> {
        let uploaded = DeviceCase::new(case, stream, self.dtype)?;
        let ready = self.ready(&uploaded)?;
        arrays(&ready.run(&uploaded.x, &uploaded.further)?)
    }

    /// Prepares the case's layers and parameters on its device for any input. Modes that execute a model
    /// share one model, as users do with several options.
    ///
    /// # Errors
    /// Parameters that do not match the graph, and errors of the device.
    pub fn ready<'a>(&self, case: &DeviceCase<'a>) -> convfuse::Result<Executable<'a>> {
        match (&self.kind, case.of.graph.layers()) {
            (Kind::Model(strategy, math_mode), _) => {
                let options = strategy.options().precision(*math_mode);
                Ok(Executable::Model(case.model()?.clone(), Box::new(options)))
            }
            (_, [layer, ..]) => {
                let parameters = case.parameters(layer)?.to_vec();
                let options = match self.kind {
                    Kind::Direct => Options::default().partition(Partition::of_layer("direct")),
                    Kind::Conv(math_mode) => Options::default().precision(math_mode),
                    _ => Options::default(),
                };
                Ok(Executable::Operator(layer, parameters, Box::new(options)))
            }
            (_, []) => unreachable!("a graph has a layer"),
        }
    }
}

/// The reason why a case failed in a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CaseFailure {
    /// Whether the result is wrong, or another failure occurred.
    pub status: Status,
    /// The message.
    pub text: String,
}

impl CaseFailure {
    /// Creates a failure for a wrong result.
    pub(crate) fn wrong(text: impl fmt::Display) -> CaseFailure {
        CaseFailure {
            status: Status::Wrong,
            text: text.to_string(),
        }
    }
}

impl From<Error> for CaseFailure {
    fn from(error: Error) -> CaseFailure {
        CaseFailure {
            status: Status::of(&error),
            text: told(&error),
        }
    }
}

/// Executes a case in all modes that the stream's device supports, and compares all outputs with `expected`
/// at the mode's precision. An expectation that cannot be computed is [refused](Status::Refused).
pub fn compare<E: fmt::Display>(
    case: &Case,
    dtype: DType,
    stream: &Stream,
    expected: impl Fn(&Precision) -> Result<Expected, E>,
) -> Vec<(ExecutionMode, Result<Agreement, CaseFailure>)> {
    let expected = |precision: &Precision| {
        expected(precision).map_err(|error| CaseFailure {
            status: Status::Refused,
            text: error.to_string(),
        })
    };
    let modes = ExecutionMode::all_on(stream.device(), case, dtype);
    // Modes with equal precision share an expectation.
    let mut wanted: Vec<(Precision, Result<Expected, CaseFailure>)> = Vec::new();
    let results = modes.into_iter().map(|mode| {
        let precision = mode.precision();
        let known = wanted.iter().position(|(known, _)| *known == precision);
        let at = known.unwrap_or_else(|| {
            wanted.push((precision, expected(&precision)));
            wanted.len() - 1
        });
        let wanted = wanted[at].1.as_ref().map_err(CaseFailure::clone);
        let result = wanted.and_then(|wanted| {
            let checked = wanted.check_all(&mode.run(case, stream)?);
            checked.map_err(CaseFailure::wrong)
        });
        (mode, result)
    });
    results.collect()
}

/// The precision of results of this element type, with this operand format of f32 on tensor cores.
///
/// # Panics
/// For an element type without derived tolerances.
pub(crate) fn precision(dtype: DType, math_mode: Option<OperandFormat>) -> Precision {
    match (dtype, math_mode) {
        (DType::F32, None) => Precision::F32,
        (DType::F32, Some(OperandFormat::ScaledF16)) => Precision::TF32,
        (DType::F32, Some(OperandFormat::F16x2)) => Precision::F16X2,
        (DType::F32, Some(OperandFormat::Bf16x3)) => Precision::BF16X3,
        (DType::F16, _) => Precision::F16,
        (DType::BF16, _) => Precision::BF16,
        (other, _) => panic!("no tolerance is derived for {other}: add it here"),
    }
}

/// Returns the first input of a graph and its further inputs, in the graph's order, under their names.
#[must_use]
pub fn named<'a>(graph: &Graph, x: &'a Tensor, further: &'a [Tensor]) -> Inputs<&'a Tensor> {
    let further = graph.inputs().iter().zip(further);
    further.fold(Inputs::new(x), |inputs, (name, tensor)| {
        inputs.with(name, tensor)
    })
}

/// Returns all outputs, widened to f32.
pub(crate) fn arrays(outputs: &[Tensor]) -> convfuse::Result<Vec<ArrayD<f32>>> {
    outputs.iter().map(Tensor::to_f32_array).collect()
}

/// Returns the case with inputs and parameters rounded to `dtype`.
#[must_use]
pub fn rounded(case: &Case, dtype: DType) -> Case {
    round(case.clone(), dtype)
}

/// The same, on an owned case.
pub(crate) fn round(case: Case, dtype: DType) -> Case {
    match dtype {
        DType::F32 => case,
        _ => case.rounded(|value| dtype.round(value)),
    }
}

#[cfg(test)]
mod tests;

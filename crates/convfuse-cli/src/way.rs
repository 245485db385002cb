use std::fmt;

use convfuse::lab;
use convfuse::model::{Model, Options, Strategy};
use convfuse::ops::{ConvAlgorithm, ConvOptions, Precision as Products};
use convfuse::{DType, Device, Inputs, Parameters, Stream, Tensor};
use ndarray::{ArrayD, Axis};
use op_spec::chain::{Chain, Layer, LayerProblem};
use op_spec::launch::VECTOR_ELEMENTS;
use oracle::{Agreement, Case, Expected, Precision};

use crate::status::{Status, told};

/// One of the ways that the library has to carry out a [`Case`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    kind: Kind,
    dtype: DType,
    /// Whether a scale is folded into the group norm before it.
    folds_scale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Only,
    Conv(ConvAlgorithm),
    /// im2col with a workspace of a few kilobytes, or of one column where that takes more, so that there are many chunks.
    ConvChunked,
    Model(Strategy, Products),
}

/// A workspace that cuts even small convolutions into chunks.
const SMALL_WORKSPACE: u64 = 16 << 10;

/// The least workspace that is taken for a case's convolution, but no less than [`SMALL_WORKSPACE`]. A case that is refused
/// anyway needs none.
fn small_workspace(case: &Case, dtype: DType) -> u64 {
    let problem = case.problem().ok();
    let layer = problem.as_ref().and_then(|problem| problem.steps.first());
    let geometry = layer.and_then(|layer| match &layer.problem {
        LayerProblem::Conv1d(conv) => conv.geometry().ok(),
        LayerProblem::Conv2d(conv) => conv.geometry().ok(),
        LayerProblem::Conv3d(conv) => conv.geometry().ok(),
        _ => None,
    });
    let columns = geometry.map_or(0, |geometry| {
        let rows = u64::from(geometry.groups) * u64::from(geometry.reduction());
        rows * VECTOR_ELEMENTS as u64
    });
    SMALL_WORKSPACE.max(columns * dtype.size() as u64)
}

/// Every strategy, and the fused one with fast products too where there is a difference.
fn model_ways(case: &Case, dtype: DType) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for strategy in Strategy::all(&case.chain) {
        let is_fast_another = strategy.has_precision() && dtype == DType::F32;
        kinds.push(Kind::Model(strategy.clone(), Products::Accurate));
        if is_fast_another {
            kinds.push(Kind::Model(strategy, Products::Fast));
        }
    }
    kinds
}

impl fmt::Display for Way {
    /// Such as `im2col f16`; empty for the one way of an operator in f32.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.kind {
            Kind::Only => String::new(),
            Kind::Conv(ConvAlgorithm::Im2col) => "im2col".to_owned(),
            Kind::Conv(_) => "direct".to_owned(),
            Kind::ConvChunked => "im2col-chunked".to_owned(),
            Kind::Model(strategy, Products::Accurate) => strategy.to_string(),
            Kind::Model(strategy, products) => format!("{strategy} {products}"),
        };
        match (self.dtype, name.is_empty()) {
            (DType::F32, _) => f.pad(&name),
            (dtype, true) => f.pad(&dtype.to_string()),
            (dtype, false) => f.pad(&format!("{name} {dtype}")),
        }
    }
}

impl Way {
    /// All ways of a case on tensors of this type. On the CPU backend they are one and the same.
    #[must_use]
    pub fn all(case: &Case, dtype: DType) -> Vec<Way> {
        let kinds = match case.chain.layers() {
            [Layer::Conv1d(_) | Layer::Conv2d(_) | Layer::Conv3d(_)] => vec![
                Kind::Conv(ConvAlgorithm::Direct),
                Kind::Conv(ConvAlgorithm::Im2col),
                Kind::ConvChunked,
            ],
            [_] => vec![Kind::Only],
            _ => model_ways(case, dtype),
        };
        Way::of(kinds, case, dtype)
    }

    /// Those by models, which a single layer has as well.
    #[must_use]
    pub fn by_models(case: &Case, dtype: DType) -> Vec<Way> {
        Way::of(model_ways(case, dtype), case, dtype)
    }

    fn of(kinds: Vec<Kind>, case: &Case, dtype: DType) -> Vec<Way> {
        let folds = |kind: &Kind| match kind {
            Kind::Model(strategy, _) => strategy.summary(&case.chain).contains("@folded"),
            _ => false,
        };
        let way = |kind| Way {
            folds_scale: folds(&kind),
            kind,
            dtype,
        };
        kinds.into_iter().map(way).collect()
    }

    /// Whether f32 is multiplied with fast products.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.dtype == DType::F32 && matches!(self.kind, Kind::Model(_, Products::Fast))
    }

    /// Those of them that a device has: one on the CPU backend.
    #[must_use]
    pub fn all_on(device: &Device, case: &Case, dtype: DType) -> Vec<Way> {
        let mut ways = Way::all(case, dtype);
        if device.is_cpu() {
            ways.truncate(1);
        }
        ways
    }

    /// The precision that its results have.
    #[must_use]
    pub fn precision(&self) -> Precision {
        match precision(self.dtype, self.is_fast()) {
            precision if self.folds_scale => precision.folding_scale(),
            precision => precision,
        }
    }

    /// Carries out the case on the stream's device, and waits for the result.
    ///
    /// Inputs and parameters are rounded to the element type first; a fair expectation comes from [`rounded`].
    ///
    /// # Errors
    /// What the layers refuse, and what may go wrong on a device.
    pub fn run(&self, case: &Case, stream: &Stream) -> convfuse::Result<ArrayD<f32>> {
        let x = Tensor::from_f32_array(stream, &case.x, self.dtype)?;
        let upload = |values| Tensor::from_f32_array(stream, values, self.dtype);
        let further = case.inputs.iter().map(upload);
        let further = further.collect::<convfuse::Result<Vec<_>>>()?;
        self.ready(case, stream)?.run(&x, &further)?.to_f32_array()
    }

    /// The case's layers with their parameters on the stream's device, for any input.
    ///
    /// # Errors
    /// Parameters that are not those of the chain, and what may go wrong on a device.
    pub fn ready<'a>(&self, case: &'a Case, stream: &Stream) -> convfuse::Result<Ready<'a>> {
        let chain = &case.chain;
        Ok(match (&self.kind, chain.layers()) {
            (Kind::Model(strategy, products), _) => {
                let names = chain.parameters().iter();
                let names = names.map(|parameter| parameter.name.clone());
                let values = names.zip(case.parameters.iter().cloned());
                let parameters = Parameters::new(chain, values)?;
                let model = Model::with_dtype(stream, chain, &parameters, self.dtype)?;
                let options = strategy.options().precision(*products);
                Ready::Model(chain, model, Box::new(options))
            }
            (_, [layer, ..]) => {
                let upload = |values: &ArrayD<f32>| {
                    let mut values = values.view();
                    // A factor per channel has trailing extents of 1 in a chain, and none in an operator.
                    while matches!(layer, Layer::Scale(_)) && values.ndim() > 1 {
                        let last = Axis(values.ndim() - 1);
                        values = values.remove_axis(last);
                    }
                    Tensor::from_f32_array(stream, &values, self.dtype)
                };
                let parameters = case.parameters.iter().map(upload);
                let parameters = parameters.collect::<convfuse::Result<Vec<_>>>()?;
                Ready::Operator(layer, parameters, self.conv_options(case))
            }
            (_, []) => unreachable!("a chain has a layer"),
        })
    }

    fn conv_options(&self, case: &Case) -> ConvOptions {
        match self.kind {
            Kind::Conv(algorithm) => ConvOptions::algorithm(algorithm),
            Kind::ConvChunked => ConvOptions::algorithm(ConvAlgorithm::Im2col)
                .workspace_bytes(small_workspace(case, self.dtype)),
            _ => ConvOptions::default(),
        }
    }
}

/// A case's layers on a device.
#[derive(Debug)]
pub enum Ready<'a> {
    /// An operator, with its parameters.
    Operator(&'a Layer, Vec<Tensor>, ConvOptions),
    /// A model.
    Model(&'a Chain, Model, Box<Options>),
}

impl Ready<'_> {
    /// The output for an input and its further ones.
    ///
    /// # Errors
    /// What the layers refuse, and what may go wrong on a device.
    pub fn run(&self, x: &Tensor, further: &[Tensor]) -> convfuse::Result<Tensor> {
        match self {
            Ready::Operator(layer, parameters, options) => {
                // A residual stands in the place of a parameter.
                let parameters = parameters.iter().chain(further).cloned();
                let parameters: Vec<Tensor> = parameters.collect();
                lab::layer(x, layer, &parameters, options)
            }
            Ready::Model(chain, model, options) => {
                model.forward_with(named(chain, x, further), options)
            }
        }
    }

    /// The kernels that an input of this shape takes; none where no model says it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn kernels(&self, input: &[usize]) -> convfuse::Result<Vec<&'static str>> {
        let Ready::Model(_, model, options) = self else {
            return Ok(Vec::new());
        };
        let explanation = model.explain(input, options)?;
        let launches = explanation.launches.iter();
        Ok(launches.map(|launch| launch.kernel).collect())
    }
}

/// Why a way of a case gave no result that agrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether the result is wrong, or what else happened.
    pub status: Status,
    /// In words.
    pub text: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Carries out a case in all ways that the stream's device has, and compares each result with what is `expected` at its
/// precision. What cannot be expected is [refused](Status::Refused).
pub fn compare<E: fmt::Display>(
    case: &Case,
    dtype: DType,
    stream: &Stream,
    expected: impl Fn(&Precision) -> Result<Expected, E>,
) -> Vec<(Way, Result<Agreement, Trouble>)> {
    let trouble = |status, text| Trouble { status, text };
    let expected = |precision: &Precision| {
        expected(precision).map_err(|error| trouble(Status::Refused, error.to_string()))
    };
    let ways = Way::all_on(stream.device(), case, dtype);
    // Ways of one precision have one expectation.
    let mut wanted: Vec<(Precision, Result<Expected, Trouble>)> = Vec::new();
    let results = ways.into_iter().map(|way| {
        let precision = way.precision();
        let known = wanted.iter().position(|(known, _)| *known == precision);
        let at = known.unwrap_or_else(|| {
            wanted.push((precision, expected(&precision)));
            wanted.len() - 1
        });
        let wanted = wanted[at].1.as_ref().map_err(Trouble::clone);
        let result = wanted.and_then(|wanted| {
            let got = way.run(case, stream);
            let got = got.map_err(|error| trouble(Status::of(&error), told(&error)))?;
            let checked = wanted.check(got.view());
            checked.map_err(|error| trouble(Status::Wrong, error.to_string()))
        });
        (way, result)
    });
    results.collect()
}

/// The precision of results on tensors of this type, where f32 is multiplied with fast products or not.
///
/// # Panics
/// For an element type that tolerances have not been derived for.
pub(crate) fn precision(dtype: DType, fast: bool) -> Precision {
    match dtype {
        DType::F32 if fast => Precision::TF32,
        DType::F32 => Precision::F32,
        DType::F16 => Precision::F16,
        DType::BF16 => Precision::BF16,
        other => panic!("no tolerance is derived for {other}: add it here"),
    }
}

/// The first input of a chain and its further ones, in the chain's order, under their names.
#[must_use]
pub fn named<'a>(chain: &Chain, x: &'a Tensor, further: &'a [Tensor]) -> Inputs<&'a Tensor> {
    let further = chain.inputs().iter().zip(further);
    further.fold(Inputs::new(x), |inputs, (name, tensor)| {
        inputs.with(name, tensor)
    })
}

/// The case on inputs and parameters rounded to what `dtype` can hold.
#[must_use]
pub fn rounded(case: &Case, dtype: DType) -> Case {
    round(case.clone(), dtype)
}

/// The same in place.
pub(crate) fn round(case: Case, dtype: DType) -> Case {
    match dtype {
        DType::F32 => case,
        _ => case.rounded(|value| dtype.round(value)),
    }
}

#[cfg(test)]
mod tests {
    use op_spec::Conv2dSpec;
    use op_spec::chain::ConvLayer;
    use op_spec::chain::presets::KernelBench85;

    use super::*;

    #[test]
    fn chunks_are_small_and_taken_however_long_a_column_is() {
        let stream = Device::emulator().stream().unwrap();
        for (channels, dtype, wanted) in [
            (4, DType::F32, SMALL_WORKSPACE),
            (128, DType::F32, 128 * 9 * 4 * 4),
            (128, DType::F16, SMALL_WORKSPACE),
            (300, DType::F16, 300 * 9 * 4 * 2),
        ] {
            let conv = Layer::Conv2d(ConvLayer {
                name: "conv".to_owned(),
                out_channels: 2,
                kernel_size: [3, 3],
                attributes: Conv2dSpec::default(),
                bias: false,
            });
            let case = Case::of_layer("conv2d/long", conv, &[1, channels, 4, 4]).unwrap();
            assert_eq!(small_workspace(&case, dtype), wanted);
            let case = rounded(&case, dtype);
            for way in Way::all(&case, dtype) {
                let expected = case.expected(&way.precision()).unwrap();
                let got = way.run(&case, &stream).unwrap();
                expected.check(got.view()).unwrap();
            }
        }
    }

    #[test]
    fn only_what_folds_a_scale_into_16_bits_is_judged_so() {
        let chain = KernelBench85::default().chain().unwrap();
        let case = Case::of_chain("kernelbench_85/ways", chain, &[1, 8, 10, 14]);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for way in Way::all(&case, dtype) {
                let folds = way.to_string().starts_with("folded-scale") && dtype != DType::F32;
                assert_eq!(way.precision().folds_scale, folds, "{way}");
            }
        }
    }
}

use std::fmt;

use convfuse::lab;
use convfuse::model::{Model, Options, Strategy};
use convfuse::ops::{ConvAlgorithm, ConvOptions, Precision as Products};
use convfuse::{DType, Device, Inputs, Parameters, Stream, Tensor};
use ndarray::{ArrayD, Axis};
use op_spec::chain::{Chain, Layer};
use oracle::{Agreement, Case, Expected, Precision};

use crate::status::{Status, told};

/// One of the ways that the library has to carry out a [`Case`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    kind: Kind,
    dtype: DType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Only,
    Conv(ConvAlgorithm),
    /// im2col with a workspace of a few kilobytes, so that there are many chunks.
    ConvChunked,
    Model(Strategy, Products),
}

/// A workspace that cuts even small convolutions into chunks.
const SMALL_WORKSPACE: u64 = 16 << 10;

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
        kinds.into_iter().map(|kind| Way { kind, dtype }).collect()
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
        precision(
            self.dtype,
            matches!(self.kind, Kind::Model(_, Products::Fast)),
        )
    }

    /// Carries out the case on the stream's device, and waits for the result.
    ///
    /// Inputs and parameters are rounded to the element type first; a fair expectation comes from [`rounded`].
    ///
    /// # Errors
    /// What the layers refuse, and what may go wrong on a device.
    pub fn run(&self, case: &Case, stream: &Stream) -> convfuse::Result<ArrayD<f32>> {
        let x = Tensor::from_f32_array(stream, &case.x, self.dtype)?;
        let y = match case.chain.layers() {
            [layer] => self.run_layer(layer, case, &x)?,
            _ => self.run_model(case, &x)?,
        };
        y.to_f32_array()
    }

    fn run_layer(&self, layer: &Layer, case: &Case, x: &Tensor) -> convfuse::Result<Tensor> {
        let upload = |values: &ArrayD<f32>| {
            let mut values = values.view();
            // A factor per channel has trailing extents of 1 in a chain, and none in an operator.
            while matches!(layer, Layer::Scale(_)) && values.ndim() > 1 {
                let last = Axis(values.ndim() - 1);
                values = values.remove_axis(last);
            }
            Tensor::from_f32_array(x.stream(), &values, self.dtype)
        };
        // A residual stands in the place of a parameter.
        let parameters = case.parameters.iter().chain(&case.inputs).map(upload);
        let parameters = parameters.collect::<convfuse::Result<Vec<_>>>()?;
        lab::layer(x, layer, &parameters, &self.conv_options())
    }

    fn run_model(&self, case: &Case, x: &Tensor) -> convfuse::Result<Tensor> {
        let names = case.chain.parameters().iter();
        let names = names.map(|parameter| parameter.name.clone());
        let parameters = Parameters::new(&case.chain, names.zip(case.parameters.iter().cloned()))?;
        let model = Model::with_dtype(x.stream(), &case.chain, &parameters, self.dtype)?;
        let options = match &self.kind {
            Kind::Model(strategy, products) => strategy.options().precision(*products),
            _ => Options::default(),
        };
        let upload = |values| Tensor::from_f32_array(x.stream(), values, self.dtype);
        let further = case.inputs.iter().map(upload);
        let further = further.collect::<convfuse::Result<Vec<_>>>()?;
        model.forward_with(named(&case.chain, x, &further), &options)
    }

    fn conv_options(&self) -> ConvOptions {
        match self.kind {
            Kind::Conv(algorithm) => ConvOptions::algorithm(algorithm),
            Kind::ConvChunked => {
                ConvOptions::algorithm(ConvAlgorithm::Im2col).workspace_bytes(SMALL_WORKSPACE)
            }
            _ => ConvOptions::default(),
        }
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
    // Ways of one precision have one expectation, and follow one another.
    let mut precision = ways[0].precision();
    let mut wanted = expected(&precision);
    let results = ways.into_iter().map(|way| {
        if way.precision() != precision {
            precision = way.precision();
            wanted = expected(&precision);
        }
        let result = wanted.as_ref().map_err(Trouble::clone).and_then(|wanted| {
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
    case.clone().rounded(|value| dtype.round(value))
}

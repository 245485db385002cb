//! Between chains and the two models. All of this goes once a model takes a chain.

use ndarray::{Array, Array1, Array4, Array5, ArrayD, ArrayView4, ArrayView5, Dimension};
use op_spec::chain::presets::{KernelBench79, KernelBench85};
use op_spec::chain::{Chain, Layer};
use op_spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, SpecError,
};
use oracle::Case;

use crate::cpu;
use crate::parameters::Parameters;
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};

/// Attributes and parameters as one of the models takes them.
pub(super) enum Pipeline {
    Of85(Spec85, Weights85),
    Of79(Spec79, Weights79),
}

/// A case as a model takes it, if one does.
pub(super) fn pipeline(case: &Case) -> Option<Pipeline> {
    let value = |name: &str| {
        let mut table = case.chain.parameters().iter().zip(&case.parameters);
        table.find_map(|(parameter, value)| (parameter.name == name).then_some(value))
    };
    let vector =
        |name: &str| value(name).map(|value| value.iter().copied().collect::<Array1<f32>>());
    let in_channels = case.chain.in_channels();
    match case.chain.layers() {
        [
            Layer::Conv2d(conv),
            Layer::GroupNorm(norm),
            Layer::Scale(_),
            Layer::MaxPool2d(max_pool),
            Layer::Clamp(clamp),
        ] => {
            let spec = Spec85 {
                in_channels,
                out_channels: conv.out_channels,
                kernel_size: conv.kernel_size,
                conv: conv.attributes,
                bias: conv.bias,
                group_norm: norm.attributes,
                affine: norm.affine,
                max_pool: *max_pool,
                clamp: *clamp,
            };
            let weights = Weights85 {
                conv_weight: ranked(value("conv.weight")?),
                conv_bias: vector("conv.bias"),
                group_norm_weight: vector("group_norm.weight"),
                group_norm_bias: vector("group_norm.bias"),
                scale: vector("scale")?,
            };
            Some(Pipeline::Of85(spec, weights))
        }
        [
            Layer::Conv3d(conv),
            Layer::Scale(_),
            Layer::InstanceNorm(norm),
            Layer::Clamp(clamp),
            Layer::Scale(_),
            Layer::ChannelMax(_),
        ] => {
            let spec = Spec79 {
                in_channels,
                out_channels: conv.out_channels,
                kernel_size: conv.kernel_size,
                conv: conv.attributes,
                bias: conv.bias,
                instance_norm: norm.attributes,
                affine: norm.affine,
                clamp: *clamp,
            };
            let weights = Weights79 {
                conv_weight: ranked(value("conv.weight")?),
                conv_bias: vector("conv.bias"),
                instance_norm_weight: vector("instance_norm.weight"),
                instance_norm_bias: vector("instance_norm.bias"),
                multiplier: vector("multiplier")?,
            };
            Some(Pipeline::Of79(spec, weights))
        }
        _ => None,
    }
}

fn ranked<D: Dimension>(value: &ArrayD<f32>) -> Array<f32, D> {
    let value = value.clone().into_dimensionality();
    value.expect("the chain's table gives the rank")
}

fn chain_85(spec: &Spec85) -> Chain {
    let attributes = KernelBench85 {
        in_channels: spec.in_channels,
        out_channels: spec.out_channels,
        kernel_size: spec.kernel_size,
        conv: spec.conv,
        bias: spec.bias,
        group_norm: spec.group_norm,
        affine: spec.affine,
        max_pool: spec.max_pool,
        clamp: spec.clamp,
    };
    attributes.chain().expect("attributes that have a problem")
}

fn chain_79(spec: &Spec79) -> Chain {
    let attributes = KernelBench79 {
        in_channels: spec.in_channels,
        out_channels: spec.out_channels,
        kernel_size: spec.kernel_size,
        conv: spec.conv,
        bias: spec.bias,
        instance_norm: spec.instance_norm,
        affine: spec.affine,
        clamp: spec.clamp,
    };
    attributes.chain().expect("attributes that have a problem")
}

/// The values that there are, under the chain's names and in its shapes.
fn parameters<const N: usize>(
    chain: &Chain,
    values: [(&str, Option<ArrayD<f32>>); N],
) -> Parameters {
    let named = values.into_iter().filter_map(|(name, value)| {
        let mut table = chain.parameters().iter();
        let parameter = table.find(|parameter| parameter.name == name)?;
        let value = value?.into_shape_with_order(&parameter.shape[..]).ok()?;
        Some((name.to_owned(), value))
    });
    Parameters::new(chain, named).expect("parameters that were checked")
}

fn dynamic(vector: Option<&Array1<f32>>) -> Option<ArrayD<f32>> {
    vector.map(|vector| vector.clone().into_dyn())
}

fn parameters_85(chain: &Chain, weights: &Weights85) -> Parameters {
    let values = [
        ("conv.weight", Some(weights.conv_weight.clone().into_dyn())),
        ("conv.bias", dynamic(weights.conv_bias.as_ref())),
        (
            "group_norm.weight",
            dynamic(weights.group_norm_weight.as_ref()),
        ),
        ("group_norm.bias", dynamic(weights.group_norm_bias.as_ref())),
        ("scale", dynamic(Some(&weights.scale))),
    ];
    parameters(chain, values)
}

fn parameters_79(chain: &Chain, weights: &Weights79) -> Parameters {
    let values = [
        ("conv.weight", Some(weights.conv_weight.clone().into_dyn())),
        ("conv.bias", dynamic(weights.conv_bias.as_ref())),
        (
            "instance_norm.weight",
            dynamic(weights.instance_norm_weight.as_ref()),
        ),
        (
            "instance_norm.bias",
            dynamic(weights.instance_norm_bias.as_ref()),
        ),
        ("multiplier", dynamic(Some(&weights.multiplier))),
    ];
    parameters(chain, values)
}

fn case(name: &str, chain: Chain, parameters: &Parameters, x: ArrayD<f32>) -> Case {
    Case {
        name: name.to_owned(),
        parameters: parameters.values().to_vec(),
        chain,
        x,
    }
}

/// The case of a model's attributes, parameters and input.
///
/// # Panics
/// If they do not fit one another.
#[must_use]
pub fn case_85(spec: &Spec85, weights: &Weights85, x: Array4<f32>) -> Case {
    let chain = chain_85(spec);
    let parameters = parameters_85(&chain, weights);
    case("kernelbench_85/model", chain, &parameters, x.into_dyn())
}

/// The case of a model's attributes, parameters and input.
///
/// # Panics
/// If they do not fit one another.
#[must_use]
pub fn case_79(spec: &Spec79, weights: &Weights79, x: Array5<f32>) -> Case {
    let chain = chain_79(spec);
    let parameters = parameters_79(&chain, weights);
    case("kernelbench_79/model", chain, &parameters, x.into_dyn())
}

/// What the CPU backend makes of a model's input.
pub(crate) fn cpu_85(
    x: ArrayView4<'_, f32>,
    weights: &Weights85,
    spec: &Spec85,
) -> Result<Array4<f32>, SpecError> {
    spec.problem(x.shape())?;
    weights.check(spec)?;
    let chain = chain_85(spec);
    Ok(run(&chain, &parameters_85(&chain, weights), x.into_dyn()))
}

/// What the CPU backend makes of a model's input.
pub(crate) fn cpu_79(
    x: ArrayView5<'_, f32>,
    weights: &Weights79,
    spec: &Spec79,
) -> Result<Array4<f32>, SpecError> {
    spec.problem(x.shape())?;
    weights.check(spec)?;
    let chain = chain_79(spec);
    Ok(run(&chain, &parameters_79(&chain, weights), x.into_dyn()))
}

fn run(chain: &Chain, parameters: &Parameters, x: ndarray::ArrayViewD<'_, f32>) -> Array4<f32> {
    let problem = chain.problem(x.shape()).expect("the model has a problem");
    let y = cpu::run(chain, &problem, parameters, x);
    y.into_dimensionality().expect("four dimensions")
}

//! Cases from shapes: tensors are made from the case's name.

use ndarray::Array1;
use op_spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec as Spec85, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, Conv3dSpec, GroupNormSpec,
    InstanceNormSpec, MaxPool2dSpec,
};

use crate::data::{fill, signed};
use crate::verify::{Case, Operation};
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights, Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
};

/// Which parameters a norm has.
#[derive(Clone, Copy)]
pub(super) enum Affine {
    Neither,
    Weight,
    Bias,
    Both,
}

/// A case, and seeds for its tensors from its name (FNV-1a).
fn case(
    operator: &str,
    name: &str,
    operation: impl FnOnce(&mut dyn FnMut() -> u64) -> Operation,
) -> Case {
    let name = format!("{operator}/{name}");
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let mut seed = name.bytes().fold(0xCBF2_9CE4_8422_2325, hash);
    let operation = operation(&mut || {
        seed = seed.wrapping_add(1);
        seed
    });
    Case { name, operation }
}

pub(super) fn conv2d(
    name: &str,
    x: [usize; 4],
    weight: [usize; 4],
    bias: bool,
    spec: Conv2dSpec,
) -> Case {
    case("conv2d", name, |seed| Operation::Conv2d {
        x: signed(seed(), x),
        weight: signed(seed(), weight),
        bias: bias.then(|| signed(seed(), weight[0])),
        spec,
    })
}

pub(super) fn conv3d(
    name: &str,
    x: [usize; 5],
    weight: [usize; 5],
    bias: bool,
    spec: Conv3dSpec,
) -> Case {
    case("conv3d", name, |seed| Operation::Conv3d {
        x: signed(seed(), x),
        weight: signed(seed(), weight),
        bias: bias.then(|| signed(seed(), weight[0])),
        spec,
    })
}

fn affine(
    affine: Affine,
    channels: usize,
    seed: &mut dyn FnMut() -> u64,
) -> (Option<Array1<f32>>, Option<Array1<f32>>) {
    let weight = matches!(affine, Affine::Weight | Affine::Both);
    let bias = matches!(affine, Affine::Bias | Affine::Both);
    (
        weight.then(|| signed(seed(), channels)),
        bias.then(|| signed(seed(), channels)),
    )
}

pub(super) fn group_norm(
    name: &str,
    x: &[usize],
    num_groups: usize,
    eps: f64,
    has: Affine,
) -> Case {
    case("group_norm", name, |seed| {
        let (weight, bias) = affine(has, x[1], seed);
        Operation::GroupNorm {
            x: signed(seed(), x),
            weight,
            bias,
            spec: GroupNormSpec { num_groups, eps },
        }
    })
}

pub(super) fn instance_norm(name: &str, x: &[usize], eps: f64, has: Affine) -> Case {
    case("instance_norm", name, |seed| {
        let (weight, bias) = affine(has, x[1], seed);
        Operation::InstanceNorm {
            x: signed(seed(), x),
            weight,
            bias,
            spec: InstanceNormSpec { eps },
        }
    })
}

pub(super) fn scale(name: &str, x: &[usize]) -> Case {
    case("scale", name, |seed| Operation::Scale {
        x: signed(seed(), x),
        scale: signed(seed(), x[1]),
    })
}

pub(super) fn max_pool2d(name: &str, x: [usize; 4], spec: MaxPool2dSpec) -> Case {
    case("max_pool2d", name, |seed| Operation::MaxPool2d {
        x: signed(seed(), x),
        spec,
    })
}

pub(super) fn clamp(name: &str, x: &[usize], min: Option<f64>, max: Option<f64>) -> Case {
    case("clamp", name, |seed| Operation::Clamp {
        x: signed(seed(), x),
        spec: ClampSpec { min, max },
    })
}

pub(super) fn channel_max(name: &str, x: &[usize]) -> Case {
    case("channel_max", name, |seed| Operation::ChannelMax {
        x: signed(seed(), x),
    })
}

/// Parameters of both signs, so that no factor's sign goes untested.
pub(super) fn pipeline_85(name: &str, x: [usize; 4], spec: Spec85) -> Case {
    case("conv2d_group_norm_scale_max_pool_clamp", name, |seed| {
        let k = spec.out_channels;
        let mut weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec, seed());
        weights.scale = signed(seed(), k) * 1.5;
        if spec.affine {
            weights.group_norm_weight = Some(signed(seed(), k) * 1.5);
            weights.group_norm_bias = Some(signed(seed(), k) * 0.5);
        }
        Operation::Conv2dGroupNormScaleMaxPoolClamp {
            x: fill(seed(), x),
            weights,
            spec,
        }
    })
}

pub(super) fn pipeline_79(name: &str, x: [usize; 5], spec: Spec79) -> Case {
    case(
        "conv3d_multiply_instance_norm_clamp_multiply_max",
        name,
        |seed| {
            let k = spec.out_channels;
            let mut weights =
                Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::init(&spec, seed());
            weights.multiplier = signed(seed(), k) * 2.0;
            if spec.affine {
                weights.instance_norm_weight = Some(signed(seed(), k) * 1.5);
                weights.instance_norm_bias = Some(signed(seed(), k) * 0.5);
            }
            Operation::Conv3dMultiplyInstanceNormClampMultiplyMax {
                x: fill(seed(), x),
                weights,
                spec,
            }
        },
    )
}

/// The case with `mean` added to its input.
pub(super) fn shifted(mut case: Case, mean: f32) -> Case {
    case.operation.map_input(|v| v + mean);
    case
}

/// The case with its input multiplied by `factor`.
pub(super) fn scaled(mut case: Case, factor: f32) -> Case {
    case.operation.map_input(|v| v * factor);
    case
}

/// The case with NaN and infinities strewn over its input, some windows and groups left free.
pub(super) fn special(mut case: Case) -> Case {
    let index = std::cell::Cell::new(0_usize);
    case.operation.map_input(|v| {
        index.set(index.get() + 1);
        match index.get() {
            i if i % 97 == 3 => f32::NAN,
            i if i % 89 == 5 => f32::INFINITY,
            i if i % 83 == 7 => f32::NEG_INFINITY,
            _ => v,
        }
    });
    case
}

/// The case with a single NaN near the start of its input.
pub(super) fn poisoned(mut case: Case) -> Case {
    let index = std::cell::Cell::new(0_usize);
    case.operation.map_input(|v| {
        index.set(index.get() + 1);
        if index.get() == 20 { f32::NAN } else { v }
    });
    case
}

//! Laws that hold for all shapes and values, on random ones. Seeded, and shrunk on failure.

mod blocks;
mod layers;
mod models;
mod residuals;
mod runner;

use convfuse::chain::{ConvLayer, GroupNormLayer, Layer};
use convfuse::spec::{
    ClampSpec, Conv2dSpec, Conv3dSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec,
};
use convfuse::{DType, Tensor, data, ops};
use layers::{paddings, ruled};
use libtest_mimic::Trial;
use ndarray::{Array1, ArrayD, IxDyn};
use oracle::Case;
use proptest::prelude::Just;
use runner::{agrees, check, device, refuses};

use crate::backend::{Backend, Outcome, Test};
use crate::fused;

pub(crate) fn trials() -> Vec<Trial> {
    const MATCHES: &str = "matches_reference_on_random_shapes";
    let tests: [(&str, &str, Test); 17] = [
        ("layer_norm", MATCHES, layers::random_layer_norm),
        ("conv1d", MATCHES, layers::random_conv1d),
        ("conv2d", MATCHES, random_conv2d),
        ("conv3d", MATCHES, random_conv3d),
        ("group_norm", MATCHES, random_group_norm),
        ("batch_norm", MATCHES, layers::random_batch_norm),
        ("max_pool2d", MATCHES, random_max_pool2d),
        ("channel_max", MATCHES, random_channel_max),
        (
            "group_norm",
            "gives_bias_for_constant_input",
            constant_input,
        ),
        ("group_norm", "ignores_a_shift_of_its_input", shift),
        ("clamp", "is_idempotent", idempotent),
        (
            "fused",
            "equals_its_operators_on_random_shapes",
            random_fused,
        ),
        ("kernelbench_85", MATCHES, models::random_85),
        ("kernelbench_79", MATCHES, models::random_79),
        ("blocks", MATCHES, blocks::random_blocks),
        ("residuals", MATCHES, residuals::random_chains),
        ("pool", MATCHES, residuals::random_pools),
    ];
    let trials = tests.into_iter().flat_map(|(group, name, test)| {
        let group = format!("properties::{group}");
        Backend::trials(&Backend::DEVICES, &group, &[(name, test)])
    });
    trials.collect()
}

fn random_conv2d(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..4usize,
        1..5usize,
        1..6usize,
        [1..18usize, 1..18],
        [1..5usize, 1..5],
    );
    let attributes = (
        [1..4usize, 1..4],
        [0..4usize, 0..4],
        [1..4usize, 1..4],
        paddings(),
    );
    check(
        backend,
        (shape, attributes),
        |bench, ((n, groups, c, k, image, filter), (stride, padding, dilation, rule))| {
            let (padding, padding_mode, stride) = ruled(rule, padding, stride);
            let layer = Layer::conv2d(ConvLayer {
                attributes: Conv2dSpec {
                    stride,
                    padding,
                    padding_mode,
                    dilation,
                    groups,
                },
                bias: n == 1,
                ..ConvLayer::new("conv", groups * k, filter)
            });
            let input = [n, groups * c, image[0], image[1]];
            agrees(bench, &of_layer("conv2d/random", layer, &input)?)
        },
    )
}

fn random_conv3d(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..3usize,
        1..3usize,
        1..4usize,
        [1..7usize, 1..8, 1..9],
        [1..4usize, 1..4, 1..4],
    );
    let attributes = (
        [1..3usize, 1..3, 1..3],
        [0..3usize, 0..3, 0..3],
        [1..3usize, 1..3, 1..3],
        paddings(),
    );
    check(
        backend,
        (shape, attributes),
        |bench, ((n, groups, c, k, v, f), (stride, padding, dilation, rule))| {
            let (padding, padding_mode, stride) = ruled(rule, padding, stride);
            let layer = Layer::conv3d(ConvLayer {
                attributes: Conv3dSpec {
                    stride,
                    padding,
                    padding_mode,
                    dilation,
                    groups,
                },
                bias: n == 1,
                ..ConvLayer::new("conv", groups * k, f)
            });
            let input = [n, groups * c, v[0], v[1], v[2]];
            agrees(bench, &of_layer("conv3d/random", layer, &input)?)
        },
    )
}

fn random_group_norm(backend: Backend) -> Outcome {
    let shape = (1..4usize, 1..5usize, 1..5usize, 1..1500usize);
    check(
        backend,
        (shape, -1000.0..1000.0f32),
        |bench, ((n, groups, channels, spatial), mean)| {
            let c = groups * channels;
            let layer = Layer::GroupNorm(GroupNormLayer {
                name: "group_norm".to_owned(),
                attributes: GroupNormSpec::new(groups),
                affine: n > 1,
            });
            let case = of_layer("group_norm/random", layer, &[n, c, spatial])?;
            agrees(bench, &case.shifted(mean))
        },
    )
}

fn random_max_pool2d(backend: Backend) -> Outcome {
    let shape = (
        (1..3usize, 1..5usize),
        [1..30usize, 1..30],
        [1..6usize, 1..6],
    );
    let attributes = (
        [1..5usize, 1..5],
        [0..3usize, 0..3],
        [1..4usize, 1..4],
        proptest::bool::ANY,
    );
    check(
        backend,
        (shape, attributes),
        |bench, (((n, c), image, kernel_size), (stride, padding, dilation, ceil_mode))| {
            let spec = MaxPool2dSpec {
                kernel_size,
                stride: Some(stride),
                padding,
                dilation,
                ceil_mode,
            };
            let input = [n, c, image[0], image[1]];
            match Case::of_layer("max_pool2d/random", Layer::max_pool2d(spec), &input) {
                Ok(case) => agrees(bench, &case),
                // No chain has such a layer; an operator may still be asked for it, and names the first rule that is broken,
                // be it about the layer or about the input.
                Err(_) => {
                    let Err(refusal) = spec.problem(&input) else {
                        return Err("a chain refuses what the specification accepts".to_owned());
                    };
                    let x = Tensor::from_array(&bench.stream, &data::signed(1, input));
                    refuses(x.and_then(|x| ops::max_pool2d(&x, &spec)), &refusal)
                }
            }
        },
    )
}

fn random_channel_max(backend: Backend) -> Outcome {
    check(
        backend,
        (1..4usize, 1..300usize, 1..200usize),
        |bench, (n, c, spatial)| {
            let input = [n, c, spatial];
            agrees(
                bench,
                &of_layer("channel_max/random", Layer::channel_max(), &input)?,
            )
        },
    )
}

/// The case of a layer that no input can make wrong.
pub(super) fn of_layer(name: &str, layer: Layer, input: &[usize]) -> Result<Case, String> {
    Case::of_layer(name, layer, input).map_err(|refusal| refusal.to_string())
}

/// Without any deviation only the bias is left: a mean that is off in its last bit would be blown up by 1/sqrt(eps).
fn constant_input(backend: Backend) -> Outcome {
    let values = (1..3usize, 1..4usize, 2..900usize, -1e4..1e4f32);
    check(backend, values, |bench, (n, c, spatial, value)| {
        device(|| {
            let x = Tensor::from_array(
                &bench.stream,
                &ndarray::Array3::from_elem((n, c, spatial), value),
            )?;
            let bias: Array1<f32> = data::signed(1, c);
            let bias_tensor = Tensor::from_array(&bench.stream, &bias)?;
            let y = ops::group_norm(&x, None, Some(&bias_tensor), &GroupNormSpec::new(1))?
                .to_array::<f32>()?;
            let off = y
                .indexed_iter()
                .map(|(index, value)| (value - bias[index[1]]).abs())
                .fold(0.0, f32::max);
            // The mean of equal values may be off by one rounding of theirs.
            let allowed = value.abs() * f32::EPSILON / 1e-5f32.sqrt();
            Ok(if off <= allowed {
                Ok(())
            } else {
                Err(format!("off by {off:e}, allowed {allowed:e}"))
            })
        })
    })
}

fn shift(backend: Backend) -> Outcome {
    // Eighths of a small range stay exact under shifts by whole numbers, so only the norm itself can differ.
    check(
        backend,
        (1..3usize, 2..700usize, -500..500i32),
        |bench, (c, spatial, by)| {
            device(|| {
                let x = data::signed(1, (2, c, spatial)).mapv(|value| (value * 64.0).round() / 8.0);
                let norm = |x: &ndarray::Array3<f32>| -> convfuse::Result<ArrayD<f32>> {
                    let x = Tensor::from_array(&bench.stream, x)?;
                    ops::instance_norm(&x, None, None, &InstanceNormSpec::default())?
                        .to_array::<f32>()
                };
                let (plain, shifted) = (norm(&x)?, norm(&(&x + by as f32))?);
                let difference = (&plain - &shifted)
                    .iter()
                    .fold(0.0f32, |worst, value| worst.max(value.abs()));
                let allowed = 1e-5 + by.abs() as f32 * 4.0 * f32::EPSILON;
                Ok(if difference <= allowed {
                    Ok(())
                } else {
                    Err(format!("differs by {difference:e}, allowed {allowed:e}"))
                })
            })
        },
    )
}

fn idempotent(backend: Backend) -> Outcome {
    check(
        backend,
        (1..5000usize, -1.0..1.0f64, -1.0..1.0f64),
        |bench, (len, min, max)| {
            device(|| {
                let x = Tensor::from_array(&bench.stream, &data::signed(1, len))?;
                let once = ops::clamp(&x, &ClampSpec::new(min, max))?;
                let twice = ops::clamp(&once, &ClampSpec::new(min, max))?;
                let same = once.to_array::<f32>()? == twice.to_array::<f32>()?;
                Ok(if same {
                    Ok(())
                } else {
                    Err("clamp(clamp(x)) is not clamp(x)".to_owned())
                })
            })
        },
    )
}

fn random_fused(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..4usize,
        1..5usize,
        [4..20usize, 4..20],
        [1..5usize, 1..5],
    );
    check(
        backend,
        (shape, Just(())),
        |bench, ((n, groups, channels, image, kernel_size), ())| {
            device(|| {
                let (scale, clamp) = (Layer::scale("scale"), Layer::clamp(-0.3, 0.8));
                let pool = Layer::max_pool2d(MaxPool2dSpec::new(kernel_size));
                let norm = fused::group_norm(groups, false);
                for (row, layers) in [
                    (
                        "norm-scale-pool-clamp",
                        vec![norm, scale.clone(), pool, clamp.clone()],
                    ),
                    (
                        "clamp-scale-max",
                        vec![clamp.clone(), scale.clone(), Layer::channel_max()],
                    ),
                ] {
                    let case = fused::case(layers, &[n, groups * channels, image[0], image[1]]);
                    let y = fused::fused(&bench.stream, &case, row, DType::F32)?;
                    let wanted = fused::composed(&bench.stream, &case, DType::F32)?;
                    let verdict = near(&y.to_array::<f32>()?, &wanted.to_array::<f32>()?);
                    if verdict.is_err() {
                        return Ok(verdict);
                    }
                }
                Ok(Ok(()))
            })
        },
    )
}

/// Equal up to a few roundings of numbers around 1.
fn near(fused: &ArrayD<f32>, composed: &ArrayD<f32>) -> Result<(), String> {
    debug_assert_eq!(fused.raw_dim(), IxDyn(composed.shape()));
    let near = fused
        .iter()
        .zip(composed)
        .all(|(a, b)| (a - b).abs() <= 4e-6);
    if near {
        Ok(())
    } else {
        Err(format!("fused {fused}\ncomposed {composed}"))
    }
}

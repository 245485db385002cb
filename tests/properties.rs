//! Properties for all shapes and values, tested on seeded random ones that are reduced on failure; and the
//! first cases of a campaign, which `convfuse campaign` continues.

mod runner;

use std::time::Duration;

use convfuse::graph::Layer;
use convfuse::spec::{ClampSpec, GroupNormSpec, InstanceNormSpec};
use convfuse::{DType, Tensor, data, ops};
use convfuse_cli::campaign::{FAMILIES, Family, GeneratedCase, Target};
use libtest_mimic::Trial;
use ndarray::{Array1, ArrayD};
use oracle::Precision;
use proptest::prelude::Just;
use runner::{check, device};

use crate::backend::{Backend, Outcome, Test};
use crate::fused;
use crate::suite::EMULATED;

pub(crate) fn trials() -> Vec<Trial> {
    let laws: [(&str, &str, Test); 4] = [
        (
            "group_norm",
            "gives_bias_for_constant_input",
            constant_input,
        ),
        ("group_norm", "ignores_a_shift_of_its_input", shift),
        ("clamp", "is_idempotent", idempotent),
        (
            "fused",
            "matches_reference_as_its_operators_do",
            random_fused,
        ),
    ];
    let mut trials: Vec<Trial> = laws
        .into_iter()
        .flat_map(|(group, name, test)| {
            let group = format!("properties::{group}");
            Backend::trials(&Backend::DEVICES, &group, &[(name, test)])
        })
        .collect();
    for family in FAMILIES {
        for backend in Backend::DEVICES {
            // Its smallest case takes the emulator a minute; `batches` and `models` have such cases.
            if backend == Backend::Emulator && family.name == "one_launch_85" {
                continue;
            }
            let group = format!("properties::{}", family.name);
            let name = "matches_reference_on_random_cases";
            trials.push(backend.trial(&group, name, move |backend| campaign(backend, family)));
        }
    }
    trials
}

/// The cases of a family in every test run.
fn campaign(backend: Backend, family: &'static Family) -> Outcome {
    const SEED: u64 = 7;
    let (cases, most) = match backend {
        // Graphs differ in more than their sizes.
        Backend::Emulator if family.name == "graphs" => (40, EMULATED / 6),
        Backend::Emulator => (8, EMULATED / 6),
        // A case of the single-launch kernel for problem 85 has 4.6 million multiplications.
        _ => (24, 6_000_000),
    };
    let target = match backend {
        Backend::Emulator => Target::Emulator,
        backend => Target::Device(backend.device()?),
    };
    let mut runs = 0;
    for number in 0..cases {
        let Some(generated) = GeneratedCase::numbered(&[family], SEED, number, most) else {
            continue;
        };
        let verdict = generated.judge(&target);
        runs += verdict.runs;
        if verdict.trouble.is_some() {
            let smaller = generated.smaller(&target, most, Duration::from_secs(30));
            let trouble = smaller.judge(&target).trouble;
            let text = trouble.map_or("it comes and goes".to_owned(), |trouble| trouble.text);
            let what = format!("case {number}: {text}\n{}", smaller.summary());
            return Err(format!("{what}\nchoices {:?}", smaller.choices).into());
        }
    }
    if runs == 0 {
        return Err("none of the cases is affordable".into());
    }
    Ok(())
}

/// Without any deviation only the bias remains: an error in the last bit of the mean would be multiplied by
/// 1/sqrt(eps).
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
            // The mean of equal values may have an error of one rounding.
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
    // Eighths of a small range stay exact under integer shifts, so only the norm itself can differ.
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
            let (scale, clamp) = (Layer::scale("scale"), Layer::clamp(-0.3, 0.8));
            let pool = Layer::max_pool2d(kernel_size);
            let norm = fused::group_norm(groups, false);
            for (row, layers) in [
                (
                    "norm-scale-pool-clamp",
                    vec![norm, scale.clone().into(), pool.into(), clamp.clone()],
                ),
                (
                    "clamp-scale-max",
                    vec![clamp.clone(), scale.clone().into(), Layer::max(&[1]).into()],
                ),
            ] {
                let case = fused::case(layers, &[n, groups * channels, image[0], image[1]]);
                let expected = case.expected(&Precision::F32);
                let expected = expected.map_err(|refusal| refusal.to_string())?;
                device(|| {
                    let y = fused::fused(&bench.stream, &case, row, DType::F32)?;
                    let composed = fused::composed(&bench.stream, &case, DType::F32)?;
                    let judged = |y: ArrayD<f32>| {
                        let verdict = expected.check(y.view());
                        verdict.map(drop).map_err(|error| format!("{row}: {error}"))
                    };
                    Ok(judged(y.to_array()?).and(judged(composed.to_array()?)))
                })?;
            }
            Ok(())
        },
    )
}

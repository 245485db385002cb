//! The model of KernelBench 85.

use convfuse::spec::Conv2dGroupNormScaleMaxPoolClampSpec as Spec;
use convfuse::verify::Operation;
use convfuse::verify::on_device::Way;
use convfuse::weights::Conv2dGroupNormScaleMaxPoolClampWeights as Weights;
use convfuse::{DType, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::suite;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = suite::of(GROUP);
    for backend in Backend::KERNELS {
        let name = "matches_reference_in_one_launch_on_small_images";
        trials.push(backend.trial(GROUP, name, |backend| {
            // The smallest; more rows than the ring of slots holds, and some that the pooling leaves over.
            one_launch(backend, &[[2, 8, 10, 128], [1, 8, 37, 128]])
        }));
        // In a development build the reference takes longer than the kernel.
        if !cfg!(debug_assertions) {
            let name = "matches_reference_in_one_launch_on_a_whole_sample";
            trials.push(backend.trial(GROUP, name, |backend| {
                one_launch(backend, &[[1, 8, 128, 128]])
            }));
        }
    }
    trials
}

const GROUP: &str = "conv2d_group_norm_scale_max_pool_clamp";

/// Images of these shapes, with the fused kernel of every element type and precision.
fn one_launch(backend: Backend, shapes: &[[usize; 4]]) -> Outcome {
    let stream = backend.stream()?;
    let spec = Spec::kernelbench();
    let mut weights = Weights::init(&spec, 1);
    weights.scale = data::signed(2, spec.out_channels) * 1.5;
    weights.group_norm_weight = Some(data::signed(3, spec.out_channels) * 1.5);
    weights.group_norm_bias = Some(data::signed(4, spec.out_channels) * 0.5);
    let mut complaints = Vec::new();
    for &shape in shapes {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let operation = Operation::Conv2dGroupNormScaleMaxPoolClamp {
                x: data::fill(5, shape),
                weights: weights.clone(),
                spec,
            };
            let operation = operation.rounded(dtype);
            let fused = |way: &Way| way.to_string().starts_with("fused");
            let ways: Vec<Way> = Way::all(&operation, dtype)
                .into_iter()
                .filter(fused)
                .collect();
            assert!(!ways.is_empty(), "the model has a fused strategy");
            for way in ways {
                let expected = operation.expected(&way.precision())?;
                stream.take_counts();
                let got = backend.run(&operation, &way, &stream)?;
                let launches = stream.take_counts().launches;
                // Two make a model and prepare its parameters. A GPU that is no Hopper has no such kernel.
                if backend == Backend::Emulator && launches != 3 {
                    complaints.push(format!("{shape:?} {way}: {launches} launches"));
                }
                let verdict = expected.check(got.view());
                complaints.extend(
                    verdict
                        .err()
                        .map(|complaint| format!("{shape:?} {way}: {complaint}")),
                );
            }
        }
    }
    suite::all_right(&complaints)
}

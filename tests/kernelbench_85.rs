//! KernelBench 85: conv2d, group_norm, scale, max_pool2d, clamp.

use convfuse::DType;
use convfuse::graph::presets::KernelBench85;
use convfuse_cli::{ExecutionMode, rounded};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::KERNELS {
        let name = "matches_reference_in_one_launch_on_small_images";
        trials.push(backend.trial(GROUP, name, |backend| {
            // The smallest shape, and one with more rows than the pipeline holds, some of which the pooling
            // drops.
            one_launch(backend, &[[2, 8, 10, 128], [1, 8, 37, 128]])
        }));
        // In a development build, the reference takes longer than the kernel.
        if !cfg!(debug_assertions) {
            let name = "matches_reference_in_one_launch_on_a_whole_sample";
            trials.push(backend.trial(GROUP, name, |backend| {
                one_launch(backend, &[[1, 8, 128, 128]])
            }));
        }
    }
    trials
}

const GROUP: &str = "kernelbench_85";

/// Images of these shapes, with the single-launch kernel for every element type and precision.
fn one_launch(backend: Backend, shapes: &[[usize; 4]]) -> Outcome {
    let stream = backend.stream()?;
    let chain = KernelBench85::default().chain()?;
    let mut complaints = Vec::new();
    for shape in shapes {
        let case = Case::of_graph("kernelbench_85/one_launch", chain.clone(), shape);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let case = rounded(&case, dtype);
            let fused = |mode: &ExecutionMode| mode.to_string().starts_with("fused");
            let modes: Vec<ExecutionMode> = ExecutionMode::all(&case, dtype)
                .into_iter()
                .filter(fused)
                .collect();
            assert!(!modes.is_empty(), "there is a fused strategy");
            for mode in modes {
                let expected = case.expected(&mode.precision())?;
                stream.take_counts();
                let got = mode.run(&case, &stream)?;
                let launches = stream.take_counts().launches;
                // One launch prepares the parameters. GPUs before Hopper have no such kernel.
                if backend == Backend::Emulator && launches != 2 {
                    complaints.push(format!("{shape:?} {mode}: {launches} launches"));
                }
                let verdict = expected.check_all(&got);
                complaints.extend(
                    verdict
                        .err()
                        .map(|complaint| format!("{shape:?} {mode}: {complaint}")),
                );
            }
        }
    }
    suite::all_right(&complaints)
}

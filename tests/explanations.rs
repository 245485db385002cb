//! Explanations: the selected kernels, the reasons, and the launches.

use convfuse::graph::presets::KernelBench85;
use convfuse::graph::{Chain, Layer};
use convfuse::model::Verdict;
use convfuse::{DType, DeviceProperties, Model, Options, Parameters, lab};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::chains::{preset_79, preset_85, presets};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |backend: Backend, name, test: fn(Backend) -> Outcome| {
        trials.push(backend.trial("explanations", name, test));
    };
    // On a GPU, the rows depend on the model.
    add(Backend::Emulator, "name_rows_and_rules", rows_and_rules);
    add(Backend::Emulator, "name_launches_and_bytes", launches);
    add(
        Backend::Emulator,
        "leave_few_moments_to_the_norm",
        few_moments,
    );
    add(Backend::Cpu, "are_refused_where_there_are_no_kernels", none);
    for backend in Backend::KERNELS {
        add(backend, "are_the_same_of_a_plan", of_a_plan);
    }
    trials
}

fn model(backend: Backend, dtype: DType) -> Result<Model, libtest_mimic::Failed> {
    let chain = preset_85().chain;
    let parameters = Parameters::init(&chain, 1)?;
    Ok(Model::with_dtype(
        &backend.stream()?,
        &chain,
        &parameters,
        dtype,
    )?)
}

fn rows_and_rules(backend: Backend) -> Outcome {
    let model = model(backend, DType::F32)?;
    let explanation = model.explain(&[1, 8, 20, 120], &Options::default())?;
    let [run] = &explanation.regions[..] else {
        return Err(format!("one run does all: {explanation}").into());
    };
    assert_eq!(run.kernels, "implicit-gemm");
    assert_eq!(run.layers, "conv2d group_norm scale max_pool2d clamp");
    let considered = run.considered.iter();
    let considered: Vec<_> = considered.map(|c| (c.kernels, c.verdict.clone())).collect();
    let refused = |rule: &str| Verdict::Refused(rule.to_owned());
    let wanted = [
        ("one-launch-2d", refused("width is 120, expected 128")),
        ("depthwise", refused("channels of a group is 8, expected 1")),
        ("implicit-gemm", Verdict::Taken),
    ];
    assert_eq!(considered, wanted);
    let text = explanation.to_string();
    for line in [
        "conv2d group_norm scale max_pool2d clamp, [1, 8, 20, 120] to [1, 64, 4, 29], f32",
        "normal form: convolution, moments of 16 groups, affine, max_pool2d, clamp",
        "  one-launch-2d              no: width is 120, expected 128",
        "  implicit-gemm              yes",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    // A problem that another row supports, but should not run.
    let few = KernelBench85 {
        in_channels: 1,
        out_channels: 16,
        ..KernelBench85::default()
    };
    let few = Model::init(model.stream(), &few.chain()?, 1)?;
    let explanation = few.explain(&[1, 1, 20, 30], &Options::default())?;
    let rows: Vec<&str> = explanation.regions.iter().map(|run| run.kernels).collect();
    assert_eq!(rows, ["direct", "tensor"]);
    let text = explanation.to_string();
    let line = "  implicit-gemm              could, but: too few products for each value of the input to pay for its layout";
    assert!(text.lines().any(|other| other == line), "{text}");
    Ok(())
}

fn launches(backend: Backend) -> Outcome {
    for (dtype, size) in [(DType::F32, 4), (DType::F16, 2)] {
        let model = model(backend, dtype)?;
        let explanation = model.explain(&[3, 8, 14, 128], &Options::default())?;
        assert_eq!(explanation.regions[0].kernels, "one-launch-2d");
        let [launch] = &explanation.launches[..] else {
            return Err(format!("one launch does all: {explanation}").into());
        };
        assert!(
            launch
                .kernel
                .starts_with("conv2d_group_norm_scale_max_pool_clamp_wgmma")
        );
        assert!(launch.blocks > 0 && launch.threads % 32 == 0 && launch.shared_bytes > 0);
        let input_and_output = (3 * 8 * 14 * 128 + 3 * 64 * 3 * 31) * size;
        assert!(launch.bytes_moved > input_and_output);
        let parameters = (64 * 8 * 9 + 4 * 64) * size;
        assert_eq!(explanation.bytes, input_and_output + parameters);
        assert_eq!(explanation.flop, 2 * 3 * 64 * 12 * 126 * 72);
        assert_eq!(explanation.workspace_bytes, 0);
        let h200 = DeviceProperties::named("h200").expect("an H200 has a name");
        let on_h200 = model.explain_for(&[3, 8, 14, 128], &Options::default(), &h200)?;
        assert!(on_h200.least_s.is_some_and(|least| least >= 5e-6));
        let text = explanation.to_string();
        assert!(text.contains(launch.kernel), "{text}");
        let moved = format!("{} bytes moved", launch.bytes_moved);
        assert!(text.contains(&moved), "{text}");
        let bytes = format!(
            "\n{} bytes of inputs, output and parameters",
            explanation.bytes
        );
        assert!(text.contains(&bytes), "{text}");
    }
    Ok(())
}

/// The reader of up to 64 moments per row combines them; more require another launch. The only large tensor
/// in the workspace is the reformatted input.
fn few_moments(backend: Backend) -> Outcome {
    let layers = [
        Layer::from(Layer::conv2d("conv", 256, 3)),
        Layer::from(Layer::group_norm("norm", 32)),
        Layer::relu(),
    ];
    let chain = Chain::new(256, layers)?;
    let parameters = Parameters::init(&chain, 1)?;
    let model = Model::with_dtype(&backend.stream()?, &chain, &parameters, DType::F16)?;
    for ([h, w], combining) in [([15, 21], 0), ([52, 78], 0), ([102, 154], 1)] {
        let explanation = model.explain(&[2, 256, h, w], &Options::default())?;
        let launches = explanation.launches.iter();
        let combine = launches.filter(|launch| launch.kernel == "implicit_gemm_combine");
        assert_eq!(combine.count(), combining, "{h} by {w}: {explanation}");
        // The reformatted input and some small tensors. The norm's input shares the output's memory.
        let input = (2 * 256 * h * w * 2) as u64;
        assert!(
            explanation.workspace_bytes < input + input / 2,
            "{explanation}"
        );
    }
    Ok(())
}

fn none(backend: Backend) -> Outcome {
    says(
        model(backend, DType::F32)?.explain(&[1, 8, 14, 128], &Options::default()),
        "conv2d group_norm scale max_pool2d clamp: no kernels: the cpu device runs none; `explain_for` lists those of a GPU",
    )
}

fn of_a_plan(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for preset in presets() {
        let model = Model::init(&stream, &preset.chain, 1)?;
        let plan = model.plan(&stream, preset.small, &Options::default())?;
        let explanation = plan.explain()?;
        assert_eq!(
            explanation,
            model.explain(preset.small, &Options::default())?
        );
        assert_eq!(explanation.workspace_bytes, plan.workspace_bytes());
        assert_eq!(explanation.output, plan.output_shape());
        let launched = lab::launched_kernels(&model, preset.small, &Options::default())?;
        let explained = explanation.launches.iter().map(|launch| launch.kernel);
        assert!(explained.eq(launched), "{explanation}");
    }
    // An input that the chain refuses has no explanation.
    says(
        Model::init(&stream, &preset_79().chain, 1)?.explain(&[1, 3, 2, 9, 9], &Options::default()),
        "layer 0: conv3d: the dilated window spans 3 elements of spatial axis 0, the padded input has 2",
    )
}

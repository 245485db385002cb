//! The launches that regions announce with their configurations match the launches of programs.

use std::collections::BTreeSet;

use convfuse::graph::{BroadcastParameter, Graph, Layer};
use convfuse::model::{Explanation, Precision, Strategy};
use convfuse::spec::PaddingMode;
use convfuse::{DType, DeviceProperties, Model, Parameters, Stream, lab};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::channels_last;
use crate::{chains, layer_graphs, networks, other_chains};

pub(crate) fn trials() -> Vec<Trial> {
    let name = "are_all_in_the_configurations_of_regions";
    vec![Backend::Emulator.trial("planned_launches", name, announced)]
}

/// The graphs of the standard tables and of the tests of graphs and chains, with their input shapes; and
/// large graphs that do not run.
fn problems() -> Result<Vec<(String, Graph, Vec<usize>)>, libtest_mimic::Failed> {
    let standard = oracle::smoke().into_iter().chain(oracle::ragged());
    let chains = other_chains::cases().into_iter().map(|(case, _)| case);
    let graphs = layer_graphs::cases().into_iter().chain(networks::cases());
    let cases = standard.chain(graphs).chain(chains);
    let mut problems: Vec<_> = cases
        .map(|case| {
            (
                case.name.clone(),
                case.graph.clone(),
                case.x.shape().to_vec(),
            )
        })
        .collect();
    let conv = |filters, extent| Layer::conv2d("conv", filters, extent);
    let norm = || Layer::group_norm("norm", 8);
    let [batch_norm, again] = ["norm", "again"].map(Layer::batch_norm);
    let [gain, shift, divisor] = ["gain", "shift", "divisor"].map(BroadcastParameter::new);
    let silu = Layer::silu;
    for (name, chain, input, ()) in chains::table! {
        "alone": [conv(64, 3)], [2, 64, 64, 64];
        "moments": [conv(64, 3), norm()], [1, 64, 512, 512];
        "moments_of_128": [conv(128, 3), norm(), Layer::scale("scale")], [8, 64, 96, 96];
        "long_lists": [conv(64, 3), norm(), silu(), silu(), silu(), silu(), silu(), silu(), silu(),
            silu(), silu(), silu()], [1, 64, 64, 64];
        "rows": [norm(), Layer::scale("scale")], [32, 64, 80, 80];
        "batch_norm": [conv(64, 1), batch_norm.clone(), Layer::relu()], [2, 64, 40, 40];
        "batch_norm_by_the_batch": [conv(64, 3), batch_norm.clone().training(true), silu(),
            again.track_running_stats(false)], [2, 64, 40, 40];
        "arithmetic": [conv(64, 1), batch_norm, Layer::mul(gain), Layer::sub(shift.shape(&[1])),
            Layer::relu(), Layer::div(divisor)], [2, 64, 40, 40];
        "few_samples": [conv(512, 3), norm()], [1, 512, 8, 8];
    } {
        problems.push((name.to_owned(), chain.into(), input));
    }
    problems.extend(shared_inputs()?);
    Ok(problems)
}

/// Graphs with several convolutions of one input, which one launch reformats for all of them.
fn shared_inputs() -> Result<Vec<(String, Graph, Vec<usize>)>, libtest_mimic::Failed> {
    let conv = |name: &str, extent| Layer::conv2d(name, 64, extent).padding(extent / 2);
    let up = |name: &str| Layer::conv_transpose2d(name, 64, 4).stride(2).padding(1);
    let two = |second: Layer, joined: Layer| {
        let graph = Graph::builder("x", 64)
            .layer("first", "x", conv("first", 3))
            .layer("second", "x", second)
            .layer("sum", "first", joined);
        graph.build("sum")
    };
    let transposed = Graph::builder("x", 64)
        .layer("up", "x", up("up"))
        .layer("again", "x", up("again"))
        .layer("sum", "up", Layer::add("again"));
    let padded = conv("second", 3).padding_mode(PaddingMode::Reflect);
    let graphs = [
        (
            "convolutions",
            two(conv("second", 3).into(), Layer::add("second"))?,
        ),
        (
            "filters",
            two(conv("second", 5).into(), Layer::add("second"))?,
        ),
        ("padded", two(padded.into(), Layer::add("second"))?),
        ("transposed", transposed.build("sum")?),
    ];
    let named =
        graphs.map(|(name, graph)| (format!("shared_by_{name}"), graph, vec![2, 64, 40, 40]));
    Ok(named.into())
}

/// Fails unless the launches of all regions, in order, equal the launches of the program.
fn compare(what: &str, explanation: &Explanation, seen: &mut BTreeSet<&'static str>) {
    let regions = explanation.regions.iter();
    let announced: Vec<&str> = regions
        .flat_map(|region| region.launches.iter().copied())
        .collect();
    let launched: Vec<&str> = (explanation.launches.iter())
        .map(|launch| launch.kernel)
        .collect();
    assert_eq!(announced, launched, "{what}: {explanation}");
    seen.extend(explanation.launches.iter().map(|launch| launch.kernel));
    for region in &explanation.regions {
        seen.extend(&region.preparations);
    }
}

fn announced(backend: Backend) -> Outcome {
    let stream: Stream = backend.stream()?;
    let mut seen = BTreeSet::new();
    for (name, graph, input) in problems()? {
        for dtype in [DType::F32, DType::F16] {
            let parameters = Parameters::init(&graph, 1)?;
            let model = Model::with_dtype(&stream, &graph, &parameters, dtype)?;
            for strategy in Strategy::all(&graph) {
                for device in ["a100", "h200"] {
                    let properties = DeviceProperties::named(device).expect("it has a name");
                    let what = format!("{name} {dtype} {} on {device}", strategy.name);
                    let options = strategy.options();
                    let explanation = model.explain_for(&input, &options, &properties)?;
                    compare(&what, &explanation, &mut seen);
                    let axes = channels_last(input.len());
                    let options = options.precision(Precision::Fast);
                    let explanation =
                        lab::explain_axes(&graph, dtype, &input, &axes, &options, &properties)?;
                    compare(&format!("{what}, channels last"), &explanation, &mut seen);
                }
            }
        }
    }
    // Launches that a configuration might omit.
    for kernel in [
        "conv_pad",
        "copy_strided",
        "copy_rows",
        "upsample_nhwc",
        "gate_nhwc",
        "implicit_gemm_reformat",
        "implicit_gemm_rescale",
        "implicit_gemm_combine",
        "implicit_gemm_filters",
        "implicit_gemm_sm90",
        "group_norm_scale_resident",
        "group_norm_stats",
        "norm_nhwc",
        "row_reduction",
        "pointwise",
        "fold_batch_norm",
        "fold_arithmetic",
        "fold_scale",
    ] {
        let is_seen = seen.iter().any(|seen| seen.starts_with(kernel));
        assert!(is_seen, "{kernel} is in no program");
    }
    Ok(())
}

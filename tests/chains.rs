//! Chains for the tests of models.

use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::{DType, Model, Parameters, Stream};
use oracle::Case;

/// A named chain with input shapes.
pub(crate) struct Preset {
    /// The kind in the names of its cases.
    pub(crate) name: &'static str,
    /// The problem's number.
    pub(crate) number: u32,
    pub(crate) chain: Chain,
    /// The benchmark's input.
    pub(crate) full: &'static [usize],
    /// An input small enough for the emulator under every strategy.
    pub(crate) small: &'static [usize],
}

/// KernelBench's problem 85.
pub(crate) fn preset_85() -> Preset {
    let chain = KernelBench85::default().chain();
    Preset {
        name: "kernelbench_85",
        number: 85,
        chain: chain.expect("the preset is a chain"),
        full: &KernelBench85::INPUT,
        small: &[2, 8, 11, 14],
    }
}

/// KernelBench's problem 79.
pub(crate) fn preset_79() -> Preset {
    let chain = KernelBench79::default().chain();
    Preset {
        name: "kernelbench_79",
        number: 79,
        chain: chain.expect("the preset is a chain"),
        full: &KernelBench79::INPUT,
        small: &[2, 3, 5, 6, 7],
    }
}

/// Both presets.
pub(crate) fn presets() -> [Preset; 2] {
    [preset_85(), preset_79()]
}

/// The parameter values of a case by name.
pub(crate) fn parameters(case: &Case) -> convfuse::Result<Parameters> {
    let table = case.graph.parameters().iter();
    let names = table.map(|parameter| parameter.name.clone());
    let named = names.zip(case.parameters.iter().cloned());
    Ok(Parameters::new(&case.graph, named)?)
}

/// The model of a case.
pub(crate) fn model(stream: &Stream, case: &Case, dtype: DType) -> convfuse::Result<Model> {
    Model::with_dtype(stream, &case.graph, &parameters(case)?, dtype)
}

/// The chain of these layers, for inputs with this number of channels.
macro_rules! chain {
    ($channels:expr; $($layer:expr),+) => {
        convfuse::graph::Chain::new($channels, [$(convfuse::graph::Layer::from($layer)),+])
            .expect("a chain")
    };
}

/// A table of chains, each with its layers, the input's shape and what the test expects, if anything.
macro_rules! table {
    ($($name:literal: [$($layer:expr),+], $shape:expr $(=> $expected:expr)?;)+) => {
        vec![$({
            let shape: &[usize] = &$shape;
            let chain = $crate::chains::chain!(shape[1]; $($layer),+);
            ($name, chain, shape.to_vec(), ($($expected)?))
        }),+]
    };
}

pub(crate) use {chain, table};

/// The cases of a table, each with what the test expects.
pub(crate) fn cases<E>(group: &str, table: Vec<(&str, Chain, Vec<usize>, E)>) -> Vec<(Case, E)> {
    let case = |(name, chain, shape, expected): (&str, _, Vec<usize>, _)| {
        let name = format!("{group}/{name}");
        (Case::of_graph(&name, chain, &shape), expected)
    };
    table.into_iter().map(case).collect()
}

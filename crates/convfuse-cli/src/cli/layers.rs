//! The layers that a command runs: those of a chain or of a network, in a file.

use std::path::{Path, PathBuf};

use convfuse::graph::{Chain, Graph};

use super::bench::read;
use super::failure::Failure;
use super::files::Target;
use super::json::must_not_replace;

/// Options of commands that run layers.
#[derive(clap::Args)]
#[group(id = "layers", multiple = false)]
pub(super) struct LayersFile {
    /// The chain in this JSON file
    #[arg(long, value_name = "FILE")]
    chain: Option<PathBuf>,
    /// The network in this JSON file, a graph of layers
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
}

/// The operators of layers, or how many there are where a line would not hold them.
pub(super) fn summary(graph: &Graph) -> String {
    match graph.layers().len() {
        0..=12 => graph.operators(),
        many => format!("{many} layers"),
    }
}

impl LayersFile {
    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.chain.as_deref().or(self.network.as_deref())
    }

    /// The layers in the file, if there is one.
    pub(super) fn read(&self) -> Result<Option<Graph>, Failure> {
        Ok(match (&self.chain, &self.network) {
            (Some(chain), _) => Some(read::<Chain>(chain)?.into()),
            (None, Some(network)) => Some(read(network)?),
            (None, None) => None,
        })
    }

    /// Refuses what is written where this is read.
    pub(super) fn must_stay(&self, written: (&str, Option<&Target>)) -> Result<(), Failure> {
        must_not_replace(written, ("--chain", self.chain.as_deref()))?;
        must_not_replace(written, ("--network", self.network.as_deref()))
    }
}

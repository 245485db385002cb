//! The layers of a command, from a chain or network file, and the options for running them.

use std::path::{Path, PathBuf};

use convfuse::DType;
use convfuse::graph::{Chain, Graph};
use convfuse::model::{Options, Precision, Strategy};
use convfuse::spec::Layout;
use convfuse_cli::bench::Description;
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::files::Target;
use super::json::must_not_replace;
use super::request::{Attributes, Request, Shape, describe, dtype, read, shape};

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

/// The operators of the layers, or the number of layers if a line would be too short.
pub(super) fn summary(graph: &Graph) -> String {
    match graph.layers().len() {
        0..=12 => graph.operators(),
        many => format!("{many} layers"),
    }
}

impl LayersFile {
    /// The path of the file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.chain.as_deref().or(self.network.as_deref())
    }

    /// Reads the layers of the file, if there is one.
    pub(super) fn read(&self) -> Result<Option<Graph>, Failure> {
        Ok(match (&self.chain, &self.network) {
            (Some(chain), _) => {
                Some(read_or_hint::<Chain, Graph>(chain, "a network: use --network")?.into())
            }
            (None, Some(network)) => Some(read_or_hint::<Graph, Chain>(
                network,
                "a chain: use --chain",
            )?),
            (None, None) => None,
        })
    }

    /// Refuses an output that would replace the file of layers.
    pub(super) fn must_stay(&self, written: (&str, Option<&Target>)) -> Result<(), Failure> {
        must_not_replace(written, ("--chain", self.chain.as_deref()))?;
        must_not_replace(written, ("--network", self.network.as_deref()))
    }
}

/// Reads a file of layers. The error for a file of the other kind is `hint`.
fn read_or_hint<T: DeserializeOwned, Other: DeserializeOwned>(
    path: &Path,
    hint: &str,
) -> Result<T, Failure> {
    read(path).map_err(|failure| match read::<Other>(path) {
        Ok(_) => Failure::from(format!("is {hint}")).of(path.display()),
        Err(_) => failure,
    })
}

/// Options of commands about one run of layers by kernels.
#[derive(clap::Args)]
pub(super) struct RunRequest {
    #[command(flatten)]
    layers: LayersFile,
    /// The input's shape, such as 16,8,64,64; without a file of layers, its rank tells the problem, 85 for
    /// four extents and 79 for five
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape)]
    shape: Shape,
    /// Element type of input, output and parameters: f32, f16, bf16
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: DType,
    /// For an input whose channels are neighbours in memory, as in PyTorch's channels_last
    #[arg(long)]
    channels_last: bool,
    /// A strategy's name, or a partition such as "conv2d | group_norm scale | max_pool2d clamp"
    #[arg(long, default_value = Strategy::FUSED)]
    strategy: String,
    /// Math mode of fused f32 convolutions: accurate, fast
    #[arg(long, default_value_t)]
    precision: Precision,
    /// Let kernels be chosen by the batch
    #[arg(long)]
    batch_dependent: bool,
    #[command(flatten)]
    attributes: Attributes,
}

/// The error message for the CPU, which runs no kernels.
pub(super) const NO_KERNELS: &str = "--device: the cpu runs no kernels; name another device";

impl RunRequest {
    /// Returns the description of the layers, and at least one strategy with its options.
    pub(super) fn read(&self) -> Result<(Description, Vec<(Strategy, Options)>), Failure> {
        let request = Request {
            title: None,
            input: self.shape.0.clone(),
            attributes: self.attributes.clone(),
            layers: self.layers.read()?,
        };
        let mut description = describe(&request, self.dtype, 0)?;
        description.channels_last = self.channels_last;
        let strategies = Strategy::parse(&description.graph, &self.strategy)?;
        if strategies.is_empty() {
            return Err(Failure::Refused(format!(
                "--strategy {}: only other chains have it",
                self.strategy
            )));
        }
        // An input with one channel is also NCHW, so the output's layout must be requested.
        let is_both = self.channels_last && description.input.get(1) == Some(&1);
        let ways = strategies.into_iter().map(|strategy| {
            let mut options = strategy.options().precision(self.precision);
            if is_both {
                options = options.output_layout(Layout::Nhwc);
            }
            (strategy, options.batch_invariant(!self.batch_dependent))
        });
        Ok((description, ways.collect()))
    }

    /// Refuses an output that would replace the file of layers.
    pub(super) fn must_stay(&self, written: (&str, Option<&Target>)) -> Result<(), Failure> {
        self.layers.must_stay(written)
    }
}

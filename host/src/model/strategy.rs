//! Named partitions.

use std::fmt;

use op_spec::graph::{Graph, Layer, Partition, PartitionError};

use super::Options;

/// A named partition of a graph, which shows a user the benefit of each step of fusion.
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench85;
/// use convfuse::model::Strategy;
///
/// let chain = KernelBench85::default().chain()?;
/// let names: Vec<_> = Strategy::all(&chain).iter().map(|strategy| strategy.name).collect();
/// assert_eq!(names.first(), Some(&"unfused-direct"));
/// assert_eq!(names.last(), Some(&Strategy::FUSED));
/// # Ok::<(), convfuse::graph::GraphError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strategy {
    /// Its name, such as `unfused-direct`.
    pub name: &'static str,
    /// The partition; `None` for the fewest possible launches.
    pub partition: Option<Partition>,
}

/// Named partitions, from the least fused to the most. They apply to graphs with exactly these layers.
const NAMED: [(&str, &str); 5] = [
    (
        "folded-scale",
        "conv2d @direct | group_norm scale @folded | max_pool2d clamp",
    ),
    (
        "norm-scale",
        "conv2d @direct | group_norm scale | max_pool2d clamp",
    ),
    (
        "norm-scale-pool-clamp",
        "conv2d @direct | group_norm scale max_pool2d clamp",
    ),
    (
        "clamp-multiply-max",
        "conv3d @direct | scale | instance_norm | clamp scale max",
    ),
    (
        "norm-clamp-multiply-max",
        "conv3d @direct | scale instance_norm clamp scale max",
    ),
];

impl Strategy {
    /// The name of the default strategy: the fewest possible launches.
    pub const FUSED: &'static str = "fused";

    /// The word that selects every strategy in [`parse`](Self::parse).
    pub const ALL: &'static str = "all";

    /// Returns every strategy for a graph, from one run per layer to the most fused: `unfused-direct` (direct
    /// convolutions), the named partial fusions of the graph, `fused`.
    #[must_use]
    pub fn all(graph: &Graph) -> Vec<Strategy> {
        let parsed = |name, text: &str| {
            let partition = Some(Partition::parse(graph, text).ok()?);
            Some(Strategy { name, partition })
        };
        let layer = |layer: &Layer| match layer.is_convolution() {
            true => format!("{} @direct", layer.operator()),
            false => layer.operator().to_owned(),
        };
        let layers: Vec<String> = graph.layers().iter().map(layer).collect();
        let unfused = parsed("unfused-direct", &layers.join(" | "));
        let named = NAMED.iter().filter_map(|&(name, text)| parsed(name, text));
        let fused = Strategy {
            name: Strategy::FUSED,
            partition: None,
        };
        unfused.into_iter().chain(named).chain([fused]).collect()
    }

    /// Returns the strategies of `graph` that a text selects: a name (no strategies if only other chains have
    /// it), `all`, or a written partition.
    ///
    /// # Errors
    /// [`PartitionError`] for any other text.
    pub fn parse(graph: &Graph, text: &str) -> Result<Vec<Strategy>, PartitionError> {
        let mut all = Strategy::all(graph);
        let mut names = NAMED.iter().map(|&(name, _)| name);
        if text == Strategy::ALL {
            return Ok(all);
        }
        if names.any(|name| name == text) || all.iter().any(|strategy| strategy.name == text) {
            all.retain(|strategy| strategy.name == text);
            return Ok(all);
        }
        let partition = Partition::parse(graph, text)?;
        Ok(vec![Strategy {
            name: "partition",
            partition: Some(partition),
        }])
    }

    /// Returns whether a [`Precision`](super::Precision) affects the strategy.
    #[must_use]
    pub fn has_precision(&self) -> bool {
        self.partition.is_none()
    }

    /// Returns the runs of layers, separated by `|`.
    #[must_use]
    pub fn summary(&self, graph: &Graph) -> String {
        match &self.partition {
            Some(partition) => partition.display(graph),
            None => graph.operators(),
        }
    }

    /// Returns the default options with this strategy's partition.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            partition: self.partition.clone(),
            ..Options::default()
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

//! Partitions that have a name.

use std::fmt;

use op_spec::graph::{Graph, Layer, Partition, PartitionError};

use super::Options;

/// A partition of a graph with a name, by which a user sees what each step of fusion buys.
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
    /// The partition; nothing for the fewest launches that can be had.
    pub partition: Option<Partition>,
}

/// Partitions with a name of their own, from the least fused to the most. A graph with these layers has them.
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
    /// The name of the default, the fewest launches that can be had.
    pub const FUSED: &'static str = "fused";

    /// What stands for every strategy where [`parse`](Self::parse) reads it.
    pub const ALL: &'static str = "all";

    /// Every strategy for a graph, from a run for each layer to the most fused: `unfused-direct` (direct
    /// convolutions), partial fusions where the graph has some with names, `fused`.
    #[must_use]
    pub fn all(graph: &Graph) -> Vec<Strategy> {
        let parsed = |name, text: &str| {
            let partition = Some(Partition::parse(graph, text).ok()?);
            Some(Strategy { name, partition })
        };
        let layer = |layer: &Layer| match layer {
            Layer::Linear(_) | Layer::Conv1d(_) | Layer::Conv2d(_) | Layer::Conv3d(_) => {
                format!("{} @direct", layer.operator())
            }
            _ => layer.operator().to_owned(),
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

    /// The strategies of `graph` that a text asks for: those of a name (none if only other chains have it),
    /// `all` of them, or a partition written down.
    ///
    /// # Errors
    /// [`PartitionError`] for a text that is none of these.
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

    /// Whether a [`Precision`](super::Precision) changes anything.
    #[must_use]
    pub fn has_precision(&self) -> bool {
        self.partition.is_none()
    }

    /// The runs, separated by `|`.
    #[must_use]
    pub fn summary(&self, graph: &Graph) -> String {
        match &self.partition {
            Some(partition) => partition.display(graph),
            None => graph.operators(),
        }
    }

    /// The default options with this strategy.
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

//! Partitions that have a name.

use std::fmt;

use op_spec::chain::{Chain, Partition, PartitionError};

use super::Options;

/// A partition of a chain with a name, by which a user sees what each step of fusion buys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strategy {
    /// Its name, such as `unfused`.
    pub name: &'static str,
    /// The partition; nothing for the fewest launches that can be had.
    pub partition: Option<Partition>,
}

/// Partitions of the chains that have some with a name of their own, from the least fused to the most.
const NAMED: [(&str, &[(&str, &str)]); 2] = [
    (
        "conv2d group_norm scale max_pool2d clamp",
        &[
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
        ],
    ),
    (
        "conv3d scale instance_norm clamp scale channel_max",
        &[
            (
                "clamp-multiply-max",
                "conv3d @direct | scale | instance_norm | clamp scale channel_max",
            ),
            (
                "norm-clamp-multiply-max",
                "conv3d @direct | scale instance_norm clamp scale channel_max",
            ),
        ],
    ),
];

impl Strategy {
    /// The name of the default, the fewest launches that can be had.
    pub const FUSED: &'static str = "fused";

    /// What stands for every strategy where [`parse`](Self::parse) reads it.
    pub const ALL: &'static str = "all";

    /// Every strategy for a chain, from a run for each layer to the most fused: `unfused` (convolutions by a column
    /// matrix), `unfused-direct`, partial fusions where the chain has some with names, `fused`.
    #[must_use]
    pub fn all(chain: &Chain) -> Vec<Strategy> {
        let single = |algorithm: &str| {
            let layer = |layer: &op_spec::chain::Layer| match layer.operator() {
                operator @ ("conv2d" | "conv3d") => format!("{operator} @{algorithm}"),
                operator => operator.to_owned(),
            };
            let layers: Vec<String> = chain.layers().iter().map(layer).collect();
            Partition::parse(chain, &layers.join(" | ")).ok()
        };
        let operators = chain.operators();
        let named = NAMED.iter().filter(|(of, _)| *of == operators);
        let named = named.flat_map(|(_, partitions)| partitions.iter());
        let named = named.map(|&(name, text)| Strategy {
            name,
            partition: Partition::parse(chain, text).ok(),
        });
        let unfused = [("unfused", "im2col"), ("unfused-direct", "direct")];
        let unfused = unfused.map(|(name, algorithm)| Strategy {
            name,
            partition: single(algorithm),
        });
        let fused = Strategy {
            name: Strategy::FUSED,
            partition: None,
        };
        unfused.into_iter().chain(named).chain([fused]).collect()
    }

    /// The strategies of `chain` that a text asks for: those of a name (none if only other chains have it), `all` of them,
    /// or a partition written down.
    ///
    /// # Errors
    /// [`PartitionError`] for a text that is none of these.
    pub fn parse(chain: &Chain, text: &str) -> Result<Vec<Strategy>, PartitionError> {
        let mut all = Strategy::all(chain);
        if text == Strategy::ALL {
            return Ok(all);
        }
        let of_others = NAMED.iter().flat_map(|(_, partitions)| partitions.iter());
        if of_others.map(|(name, _)| *name).any(|name| name == text) {
            all.retain(|strategy| strategy.name == text);
            return Ok(all);
        }
        if let Some(strategy) = all.into_iter().find(|strategy| strategy.name == text) {
            return Ok(vec![strategy]);
        }
        let partition = Partition::parse(chain, text)?;
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
    pub fn summary(&self, chain: &Chain) -> String {
        match &self.partition {
            Some(partition) => partition.display(chain),
            None => chain.operators(),
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

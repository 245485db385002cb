//! Partitions of a graph into runs of layers that are computed together.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::Graph;

/// Consecutive layers, and the kernels that are to compute them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Run {
    /// The layers, counted from 0.
    pub layers: Range<usize>,
    /// The requested row of the kernel table. `None` selects the first row that is applicable and worthwhile.
    pub kernel: Option<String>,
}

/// A division of a graph into runs: each layer is in one of them, in order.
///
/// As text, runs are separated by `|` and layers by spaces. The kernels of a run follow an `@`:
/// `conv2d @direct | group_norm scale | max_pool2d clamp`.
///
/// # Examples
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Chain, Layer, Partition};
///
/// let chain = Chain::new(3, (Layer::conv2d("conv", 8, 3), Layer::relu()))?;
/// let partition = Partition::parse(&chain, "conv2d @direct | relu")?;
/// assert_eq!(partition.runs().len(), 2);
/// assert_eq!(partition.runs()[0].kernel.as_deref(), Some("direct"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    runs: Vec<Run>,
}

impl Partition {
    /// Returns the partition with all layers in one run.
    #[must_use]
    pub fn whole(graph: &Graph) -> Partition {
        let run = Run {
            layers: 0..graph.layers().len(),
            kernel: None,
        };
        Partition {
            runs: alloc::vec![run],
        }
    }

    /// Returns the partition with each layer in a run by itself.
    #[must_use]
    pub fn single(graph: &Graph) -> Partition {
        let run = |layer| Run {
            layers: layer..layer + 1,
            kernel: None,
        };
        Partition {
            runs: (0..graph.layers().len()).map(run).collect(),
        }
    }

    /// Returns the partition of a graph of one layer, with these kernels.
    #[must_use]
    pub fn of_layer(kernel: &str) -> Partition {
        let run = Run {
            layers: 0..1,
            kernel: Some(kernel.to_owned()),
        };
        Partition {
            runs: alloc::vec![run],
        }
    }

    /// Parses a partition of `graph` in the form that [`display`](Self::display) writes.
    ///
    /// # Errors
    /// Layers that differ from the graph's layers, in order.
    pub fn parse(graph: &Graph, text: &str) -> Result<Partition, PartitionError> {
        let mut runs = Vec::new();
        let mut next = 0;
        for part in text.split('|') {
            let (layers, kernel) = match part.split_once('@') {
                Some((layers, kernel)) => (layers, Some(kernel.trim().to_owned())),
                None => (part, None),
            };
            let start = next;
            for actual in layers.split_whitespace() {
                let expected = graph.layers().get(next).map(|layer| layer.operator());
                if expected != Some(actual) {
                    return Err(PartitionError::Layer {
                        layer: next,
                        actual: actual.to_owned(),
                        expected,
                    });
                }
                next += 1;
            }
            if start == next {
                return Err(PartitionError::EmptyRun { run: runs.len() });
            }
            let layers = start..next;
            runs.push(Run { layers, kernel });
        }
        if let Some(layer) = graph.layers().get(next) {
            return Err(PartitionError::Missing {
                layer: next,
                operator: layer.operator(),
            });
        }
        Ok(Partition { runs })
    }

    /// The runs, in order.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Writes the partition in the form that [`parse`](Self::parse) reads.
    #[must_use]
    pub fn display(&self, graph: &Graph) -> String {
        let mut text = String::new();
        for (index, run) in self.runs.iter().enumerate() {
            if index > 0 {
                text.push_str(" | ");
            }
            for layer in run.layers.clone() {
                if layer > run.layers.start {
                    text.push(' ');
                }
                text.push_str(
                    graph
                        .layers()
                        .get(layer)
                        .map_or("?", |layer| layer.operator()),
                );
            }
            if let Some(kernel) = &run.kernel {
                text.push_str(" @");
                text.push_str(kernel);
            }
        }
        text
    }
}

/// The errors of a partition in text form. Layers and runs are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionError {
    /// A layer differs from the graph's layer at this position.
    Layer {
        /// Index of the layer.
        layer: usize,
        /// The operator in the text.
        actual: String,
        /// The operator in the graph; `None` behind its last layer.
        expected: Option<&'static str>,
    },
    /// A run has no layers.
    EmptyRun {
        /// Index of the run.
        run: usize,
    },
    /// The text ends before the last layer of the graph.
    Missing {
        /// Index of the first missing layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
    },
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer {
                layer,
                actual,
                expected: Some(expected),
            } => write!(
                f,
                "partition: layer {layer} is {actual}, the graph has {expected} there"
            ),
            Self::Layer { layer, actual, .. } => {
                write!(
                    f,
                    "partition: layer {layer} is {actual}, the graph ends before it"
                )
            }
            Self::EmptyRun { run } => write!(f, "partition: run {run} has no layers, minimum 1"),
            Self::Missing { layer, operator } => {
                write!(
                    f,
                    "partition: layer {layer} is missing, the graph has {operator} there"
                )
            }
        }
    }
}

impl core::error::Error for PartitionError {}

//! Cutting a graph into runs of layers that are done together.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::Graph;

/// Some layers in a row, and the kernels that are to do them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Run {
    /// The layers, counted from 0.
    pub layers: Range<usize>,
    /// The requested row of the table; without one, the first row that can and pays.
    pub kernel: Option<String>,
}

/// A graph cut into runs: every layer in one of them, in order.
///
/// Written down, runs are separated by `|` and layers by spaces, and the kernels of a run follow an `@`:
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
    /// All layers in one run.
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

    /// Each layer by itself.
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

    /// The only layer of a graph, by these kernels.
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

    /// Reads a partition of `graph` in the form that it is displayed in.
    ///
    /// # Errors
    /// Layers that are not the graph's, in their order.
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

    /// The partition as [`parse`](Self::parse) reads it.
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

/// Why a text is no partition of a graph. Layers and runs are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionError {
    /// A layer is not the one that the graph has there.
    Layer {
        /// Which one.
        layer: usize,
        /// The text's.
        actual: String,
        /// The graph's layer in that place; nothing after its last.
        expected: Option<&'static str>,
    },
    /// A run has no layers.
    EmptyRun {
        /// Which one.
        run: usize,
    },
    /// The chain has more layers.
    Missing {
        /// The first that is missing.
        layer: usize,
        /// Its operator.
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

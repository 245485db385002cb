//! Chains: lists of layers, each of which takes the output of the layer before it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::file::ChainFile;
use super::naming::object;
use super::{Graph, GraphError, Layer, Node, Operand, earlier};

/// A list of layers that fit one another: the simplest kind of [`Graph`].
///
/// A layer with several operands, such as [`Layer::add`], takes the output of the layer before it as the
/// first one. Its further operands are further inputs of the chain, by name, or outputs of earlier layers, by
/// number: [`OtherTensor::Layer`](super::OtherTensor::Layer).
///
/// As JSON, a chain is an object with `in_channels` and `layers`, a list of objects with one key each. The
/// key is the operator; its value has the layer's name and the attributes that differ from PyTorch's
/// defaults:
///
/// ```json
/// {"in_channels": 3, "layers": [
///     {"conv3d": {"name": "conv", "out_channels": 16, "kernel_size": 3}},
///     {"scale": {"name": "multiplier", "initialisation": "normal"}},
///     {"instance_norm": {"name": "instance_norm"}},
///     {"clamp": {"min": -1.0, "max": 1.0}},
///     {"scale": {"name": "multiplier", "initialisation": "normal"}},
///     {"max": {"dim": 1}}]}
/// ```
///
/// # Examples
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Chain, Layer};
///
/// let chain = Chain::new(8, (
///     Layer::conv2d("conv", 64, 3),
///     Layer::group_norm("group_norm", 16),
///     Layer::scale("scale"),
///     Layer::max_pool2d(4),
///     Layer::clamp(0.0, 1.0),
/// ))?;
/// assert_eq!(chain.problem(&[128, 8, 128, 128])?.output_shape(), [128, 64, 31, 31]);
/// assert_eq!(chain.parameters()[0].name, "conv.weight");
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, PartialEq, Serialize)]
#[serde(into = "ChainFile")]
pub struct Chain(Graph);

impl Chain {
    /// Returns the chain of these layers for inputs with `in_channels` channels. The layers are a tuple of
    /// layers of different types, or an array, a vector or an iterator of one type. The further inputs come
    /// in the order in which the layers name them.
    ///
    /// # Errors
    /// No layers; attributes that a layer refuses for any input; a layer for images after one that gives
    /// volumes; a layer that needs channels after a reduction over them; layers that share a parameter of
    /// different shapes; a further input without a name; a layer number that no earlier layer has.
    pub fn new<By>(in_channels: usize, layers: impl Layers<By>) -> Result<Chain, GraphError> {
        let (mut inputs, mut nodes) = (Vec::<String>::new(), Vec::<Node>::new());
        let mut known = BTreeMap::<String, usize>::new();
        for layer in layers.layers() {
            let mut operands = vec![match nodes.len() {
                0 => Operand::Input(0),
                index => Operand::Layer(index - 1),
            }];
            for name in layer.kind().operands() {
                if name.is_empty() {
                    return Err(GraphError::NoInputName {
                        layer: nodes.len(),
                        operator: layer.operator(),
                    });
                }
                let index = *known.entry(name.clone()).or_insert_with(|| {
                    inputs.push(name.clone());
                    inputs.len() - 1
                });
                operands.push(Operand::Input(1 + index));
            }
            operands.extend(earlier(&layer, nodes.len())?);
            nodes.push(Node {
                name: String::new(),
                layer,
                operands,
            });
        }
        Graph::new(in_channels, String::new(), inputs, nodes, Vec::new()).map(Chain)
    }
}

/// Types that give the layers of a [`Chain`]: tuples of up to 16 layers, and iterables of layers. `By` only
/// keeps these two implementations apart; callers never name it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no layers",
    note = "up to 16 layers of different types are a tuple, `(Layer::conv2d(..), Layer::relu())`",
    note = "more are an array or a vector of `Layer`, into which `Layer::from` turns each"
)]
pub trait Layers<By> {
    /// Returns the layers, in order.
    fn layers(self) -> Vec<Layer>;
}

/// The marker of iterables for [`Layers`].
#[derive(Debug)]
pub struct ByIteration(());

/// The marker of tuples for [`Layers`].
#[derive(Debug)]
pub struct ByTuple(());

impl<I: IntoIterator<Item: Into<Layer>>> Layers<ByIteration> for I {
    fn layers(self) -> Vec<Layer> {
        self.into_iter().map(Into::into).collect()
    }
}

/// Implements [`Layers`] for tuples of all lengths up to this one.
macro_rules! tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        tuples!($($rest)*);

        impl<$first: Into<Layer>, $($rest: Into<Layer>),*> Layers<ByTuple> for ($first, $($rest,)*) {
            #[allow(non_snake_case, reason = "a type's name is its value's, too")]
            fn layers(self) -> Vec<Layer> {
                let ($first, $($rest,)*) = self;
                vec![$first.into(), $($rest.into()),*]
            }
        }
    };
}

tuples!(A B C D E F G H I J K L M N O P);

impl Deref for Chain {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.0
    }
}

impl AsRef<Graph> for Chain {
    fn as_ref(&self) -> &Graph {
        &self.0
    }
}

impl From<Chain> for Graph {
    fn from(chain: Chain) -> Graph {
        chain.0
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Chain, D::Error> {
        let file: ChainFile = object(file)?;
        Chain::new(file.in_channels, file.layers).map_err(D::Error::custom)
    }
}

impl From<Chain> for ChainFile {
    fn from(Chain(graph): Chain) -> ChainFile {
        ChainFile {
            in_channels: graph.in_channels,
            layers: graph.layers,
        }
    }
}

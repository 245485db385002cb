//! The inputs of a run.

use op_spec::graph::{Graph, GraphInput, GraphProblem};

use crate::device::{DType, Order, Stream, Tensor, must_have_shape};
use crate::error::{InputsError, Result};

/// The inputs of a model's run: the first input of its graph, and the further ones
/// ([`Graph::inputs`](crate::graph::Graph::inputs)) by their names. `T` is a tensor, an array or a reference
/// to one.
///
/// Where a function takes `impl Into<Inputs<T>>`, pass just the `T` for a graph without further inputs.
///
/// # Examples
/// ```
/// use convfuse::graph::{Chain, Layer};
/// use convfuse::{Device, Inputs, Model, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let chain = Chain::new(3, (Layer::relu(), Layer::add("residual")))?;
/// let model = Model::init(&stream, &chain, 7)?;
/// let x = Tensor::from_array(&stream, &data::signed(1, (2, 3, 5)))?;
/// let y = model.forward(Inputs::new(&x).with("residual", &x))?;
/// assert_eq!(y.shape(), [2, 3, 5]);
/// assert!(model.forward(&x).is_err());
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Inputs<T> {
    first: T,
    further: Vec<(String, T)>,
}

impl<T> Inputs<T> {
    /// Holds the first input and no further ones.
    #[must_use]
    pub const fn new(first: T) -> Self {
        Inputs {
            first,
            further: Vec::new(),
        }
    }

    /// Adds the further input of this name.
    #[must_use]
    pub fn with(mut self, name: &str, value: T) -> Self {
        self.further.push((name.to_owned(), value));
        self
    }

    /// Returns the first input, followed by the further inputs in the order of `names`.
    ///
    /// # Errors
    /// [`InputsError`].
    pub(super) fn arranged(self, operator: &'static str, names: &[String]) -> Result<Vec<T>> {
        let Inputs { first, mut further } = self;
        let mut all = Vec::with_capacity(1 + names.len());
        all.push(first);
        for name in names {
            let index = further.iter().position(|(given, _)| given == name);
            let index = index.ok_or_else(|| InputsError::Missing {
                operator,
                name: name.clone(),
                given: {
                    let rest = further.iter().map(|(given, _)| given);
                    names[..all.len() - 1].iter().chain(rest).cloned().collect()
                },
            })?;
            all.push(further.remove(index).1);
        }
        match further.into_iter().next() {
            None => Ok(all),
            Some((name, _)) if names.contains(&name) => {
                Err(InputsError::Repeated { operator, name }.into())
            }
            Some((name, _)) => Err(InputsError::Unknown {
                operator,
                name,
                known: names.to_vec(),
            }
            .into()),
        }
    }

    /// Converts each input with `map`.
    pub(super) fn map<U>(self, mut map: impl FnMut(T) -> U) -> Inputs<U> {
        let first = map(self.first);
        let further = self.further.into_iter();
        Inputs {
            first,
            further: further.map(|(name, value)| (name, map(value))).collect(),
        }
    }
}

impl<T> From<T> for Inputs<T> {
    fn from(first: T) -> Self {
        Inputs::new(first)
    }
}

impl<'a> From<&'a mut Tensor> for Inputs<&'a Tensor> {
    fn from(first: &'a mut Tensor) -> Self {
        Inputs::new(first)
    }
}

impl<'a> From<&&'a Tensor> for Inputs<&'a Tensor> {
    fn from(first: &&'a Tensor) -> Self {
        Inputs::new(first)
    }
}

impl<'a> From<&'a Vec<Tensor>> for Inputs<&'a [Tensor]> {
    fn from(first: &'a Vec<Tensor>) -> Self {
        Inputs::new(first)
    }
}

impl<'a, const N: usize> From<&'a [Tensor; N]> for Inputs<&'a [Tensor]> {
    fn from(first: &'a [Tensor; N]) -> Self {
        Inputs::new(first)
    }
}

/// Names the input in an error about a further one. `index` counts all inputs, `names` only the further ones.
pub(super) fn of_input<T>(names: &[String], index: usize, result: Result<T>) -> Result<T> {
    match index.checked_sub(1) {
        Some(further) => result.map_err(|error| error.of_input(&names[further])),
        None => result,
    }
}

/// Returns the memory orders of a graph's inputs. Refuses an input that has another element type, is not on
/// the device of `stream`, or could not be copied by kernels, and a further input whose shape contradicts the
/// first one's.
pub(super) fn orders(
    operator: &'static str,
    inputs: &[&Tensor],
    graph: &Graph,
    dtype: DType,
    stream: &Stream,
) -> Result<Vec<Order>> {
    let names = graph.inputs();
    for (index, input) in inputs.iter().enumerate() {
        let is_ours = input
            .must_hold(dtype, (operator, "input"))
            .and_then(|()| input.same_device((operator, "input"), stream));
        of_input(names, index, is_ours)?;
    }
    if !names.is_empty() {
        let problem = graph.problem(inputs[0].shape())?;
        let shapes = inputs.iter().map(|input| input.shape());
        must_have_shapes(operator, &problem, shapes.skip(1))?;
    }
    let orders = inputs.iter().enumerate();
    orders
        .map(|(index, input)| of_input(names, index, input.order()))
        .collect()
}

/// Refuses further inputs whose shapes contradict the first one's.
pub(super) fn must_have_shapes<'a>(
    operator: &'static str,
    problem: &GraphProblem,
    actual: impl Iterator<Item = &'a [usize]>,
) -> Result<()> {
    for (GraphInput { name, shape, .. }, actual) in problem.inputs.iter().zip(actual) {
        must_have_shape(shape, actual, (operator, "input"))
            .map_err(|error| error.of_input(name))?;
    }
    Ok(())
}

//! Models with reproducible parameters and inputs.

use convfuse::model::Model;
use convfuse::{DType, Inputs, Parameters, Result, Stream, Tensor};
use convfuse::{data, lab, ops};
use ndarray::{ArrayD, IxDyn};
use op_spec::graph::{Graph, Initialisation, Layer};
use oracle::{Case, Expected};

use super::description::{Description, Part};
use crate::execution_mode::{OperandFormat, named, precision, rounded};

/// A model with its inputs on a device.
#[derive(Debug)]
pub struct Subject {
    pub(super) model: Model,
    pub(super) x: Tensor,
    further: Vec<Tensor>,
    case: Case,
}

impl Subject {
    /// Creates the described model. Its first input is uniform in [0, 1), further inputs in [-1, 1).
    ///
    /// Norm weights, and factors with initial value 1, are random in (-1.5, 1.5); norm biases are random in
    /// (-0.5, 0.5). With their initial values, 1 and 0, half of the arithmetic would have no effect.
    ///
    /// # Errors
    /// Errors of uploading.
    pub fn new(stream: &Stream, description: &Description) -> Result<Self> {
        let Description {
            graph, dtype, seed, ..
        } = description;
        let (shape, dtype, seed) = (&description.input[..], *dtype, *seed);
        let problem = graph.problem(shape)?;
        let parameters = parameters(graph, seed)?;
        let model = Model::with_dtype(stream, graph, &parameters, dtype)?;
        let further = problem.inputs.iter().zip(0u64..);
        let further = further.map(|(input, index)| {
            let seed = Part::Further.seed(seed.wrapping_add(index << 32));
            data::try_signed(seed, IxDyn(&input.shape))
        });
        let case = Case {
            inputs: further.collect::<Result<_>>()?,
            name: graph.operators(),
            graph: graph.clone(),
            parameters: parameters.values().to_vec(),
            x: data::try_fill(description.input_seed(), IxDyn(shape))?,
        };
        let case = rounded(&case, dtype);
        let x = match description.channels_last {
            true => channels_last(stream, &case.x, usize::from(problem.is_batched), dtype)?,
            false => Tensor::from_f32_array(stream, &case.x, dtype)?,
        };
        let upload = |values| Tensor::from_f32_array(stream, values, dtype);
        let further = case.inputs.iter().map(upload).collect::<Result<_>>()?;
        Ok(Subject {
            model,
            x,
            further,
            case,
        })
    }

    /// The layers.
    pub fn graph(&self) -> &Graph {
        self.model.graph()
    }

    /// Computes the float64 reference of all outputs, with the tolerance of the element type's arithmetic.
    ///
    /// # Errors
    /// None for a subject that was created successfully.
    pub fn expected(&self, math_mode: ops::Precision) -> Result<Expected> {
        self.expected_with_progress(math_mode, &|_, _| ())
    }

    /// As [`expected`](Self::expected), and reports to `progress` how many layers of samples are done, and
    /// of how many.
    ///
    /// # Errors
    /// As [`expected`](Self::expected).
    pub fn expected_with_progress(
        &self,
        math_mode: ops::Precision,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Expected> {
        let math_mode = OperandFormat::of(self.graph(), math_mode);
        let precision = precision(self.model.dtype(), math_mode);
        Ok(self.case.expected_with_progress(&precision, progress)?)
    }

    /// The element type of the model.
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }

    /// The inputs of the model.
    pub(super) fn inputs(&self) -> Inputs<&Tensor> {
        named(self.graph(), &self.x, &self.further)
    }

    /// The parameters, rounded to the element type, under PyTorch's names.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &ArrayD<f32>)> {
        let table = self.case.graph.parameters().iter();
        let names = table.map(|parameter| parameter.name.as_str());
        names.zip(&self.case.parameters)
    }
}

/// Uploads an array whose axis `channels` is innermost in memory.
fn channels_last(
    stream: &Stream,
    array: &ArrayD<f32>,
    channels: usize,
    dtype: DType,
) -> Result<Tensor> {
    let rank = array.ndim();
    let mut outermost_first: Vec<usize> = (0..rank).collect();
    outermost_first[channels..].rotate_left(1);
    let behind = array.view().permuted_axes(outermost_first.clone());
    let memory = Tensor::from_f32_array(stream, &behind.as_standard_layout(), dtype)?;
    let mut strides = vec![0; rank];
    for (&axis, stride) in outermost_first.iter().zip(memory.strides()) {
        strides[axis] = stride;
    }
    let same = lab::as_strided(&memory, 0, array.shape(), &strides);
    Ok(same.expect("the same elements"))
}

/// PyTorch's initialisation, with random numbers in place of parameters that are all 1 or 0.
fn parameters(graph: &Graph, seed: u64) -> Result<Parameters> {
    let mut parameters = Parameters::init(graph, seed)?;
    let mut earlier = [0; 2];
    for (index, layer) in graph.layers().iter().enumerate() {
        let of_layer = graph.parameters_of(index);
        let sources: &[(Part, f32)] = match layer {
            Layer::GroupNorm(_) | Layer::InstanceNorm(_) | Layer::LayerNorm(_) => {
                &[(Part::NormWeight, 1.5), (Part::NormBias, 0.5)]
            }
            Layer::BatchNorm(norm) if norm.is_by_batch() => &[
                (Part::NormWeight, 1.5),
                (Part::NormBias, 0.5),
                (Part::Mean, 0.5),
                (Part::Variance, 1.5),
            ],
            Layer::BatchNorm(_) => &[
                (Part::Mean, 0.5),
                (Part::Variance, 1.5),
                (Part::NormWeight, 1.5),
                (Part::NormBias, 0.5),
            ],
            Layer::Scale(layer) if layer.initialisation == Initialisation::Ones => {
                &[(Part::Scale, 1.5)]
            }
            _ => continue,
        };
        // The second norm of a chain gets other numbers than the first.
        let earlier = &mut earlier[usize::from(sources.len() == 1)];
        let seed = seed.wrapping_add(*earlier << 32);
        *earlier += 1;
        for (&slot, &(part, bound)) in of_layer.iter().zip(sources) {
            let parameter = &graph.parameters()[slot];
            let values: ArrayD<f32> = data::try_signed(part.seed(seed), IxDyn(&parameter.shape))?;
            let values = match part {
                Part::Variance => values.mapv(|value| 0.1 + value.abs() * bound),
                _ => values * bound,
            };
            parameters.set(&parameter.name, values)?;
        }
    }
    Ok(parameters)
}

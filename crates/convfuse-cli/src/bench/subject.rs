//! Models with parameters and inputs that can be made again anywhere.

use std::path::Path;

use convfuse::model::{Explanation, Model, Options};
use convfuse::{
    DType, DeviceProperties, Inputs, Parameters, Result, Stream, Tensor, data, lab, ops,
};
use ndarray::{ArrayD, IxDyn};
use op_spec::Padding;
use op_spec::chain::presets::{KernelBench79, KernelBench85};
use op_spec::chain::{Chain, Initialisation, Layer};
use oracle::{Case, Expected};
use serde_json::{Value, json};

use super::report::Products;
use crate::way::{named, precision, rounded};

/// A model with an input, ready to be run.
#[derive(Debug)]
pub struct Subject {
    pub(super) model: Model,
    pub(super) x: Tensor,
    further: Vec<Tensor>,
    pub(super) number: Option<u32>,
    pub(super) seed: u64,
    pub(super) flop: u64,
    pub(super) bytes: u64,
    pub(super) output: Vec<usize>,
    pub(super) attributes: serde_json::Value,
    case: Case,
}

/// What a subject is made of besides the parameters of its model's initialisation, by offset from the subject's seed.
#[derive(Clone, Copy)]
enum Part {
    Input = 1,
    NormWeight = 2,
    NormBias = 3,
    Scale = 4,
    Mean = 5,
    Variance = 6,
    Further = 7,
}

impl Part {
    /// Mixed, so that no two parts share their numbers, nor a part and a parameter of the initialisation. Of 32 bits, as
    /// records had them when a seed had no more.
    const fn seed(self, of_subject: u64) -> u64 {
        let mixed = op_spec::data::splitmix64(of_subject.wrapping_mul(8).wrapping_add(self as u64));
        // The product has lost the upper three bits.
        mixed.wrapping_add(of_subject >> 61) % (1 << 32)
    }
}

impl Subject {
    /// Problem 85 of KernelBench's level 2 with these attributes on an input of this shape; `[128, 8, 128, 128]` is the problem's own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_85(
        stream: &Stream,
        problem: &KernelBench85,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let (conv, pool, clamp) = (&problem.conv, &problem.max_pool, &problem.clamp);
        let attributes = json!({
            "out_channels": problem.out_channels,
            "kernel_size": problem.kernel_size,
            "stride": conv.stride,
            "padding": written(conv.padding),
            "dilation": conv.dilation,
            "groups": conv.groups,
            "bias": problem.bias,
            "affine": problem.affine,
            "num_groups": problem.group_norm.num_groups,
            "eps": problem.group_norm.eps,
            "max_pool": pool.kernel_size,
            "max_pool_stride": pool.stride.unwrap_or(pool.kernel_size),
            "max_pool_padding": pool.padding,
            "max_pool_dilation": pool.dilation,
            "ceil_mode": pool.ceil_mode,
            "clamp": [clamp.min, clamp.max],
        });
        let subject = Self::new(stream, &problem.chain()?, shape, dtype, seed)?;
        Ok(Subject {
            number: Some(85),
            attributes,
            ..subject
        })
    }

    /// Problem 79 of KernelBench's level 2 with these attributes on an input of this shape; `[128, 3, 16, 32, 32]` is the problem's own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_79(
        stream: &Stream,
        problem: &KernelBench79,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let (conv, clamp) = (&problem.conv, &problem.clamp);
        let attributes = json!({
            "out_channels": problem.out_channels,
            "kernel_size": problem.kernel_size,
            "stride": conv.stride,
            "padding": written(conv.padding),
            "dilation": conv.dilation,
            "groups": conv.groups,
            "bias": problem.bias,
            "affine": problem.affine,
            "eps": problem.instance_norm.eps,
            "clamp": [clamp.min, clamp.max],
        });
        let subject = Self::new(stream, &problem.chain()?, shape, dtype, seed)?;
        Ok(Subject {
            number: Some(79),
            attributes,
            ..subject
        })
    }

    /// A chain on an input of this shape, uniform in [0, 1), and further ones in [-1, 1).
    ///
    /// The norms' weights and the factors that are initialised with 1 are random in (-1.5, 1.5), the norms' biases in
    /// (-0.5, 0.5): of their initial values, 1 and 0, half the arithmetic would not show.
    ///
    /// # Errors
    /// [`Error::Chain`](convfuse::Error::Chain) for a shape that the chain refuses; what uploading may run into.
    pub fn new(
        stream: &Stream,
        chain: &Chain,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let problem = chain.problem(shape)?;
        let parameters = parameters(chain, seed)?;
        let model = Model::with_dtype(stream, chain, &parameters, dtype)?;
        let further = problem.inputs.iter().zip(0u64..);
        let further = further.map(|(input, index)| {
            let seed = Part::Further.seed(seed.wrapping_add(index << 32));
            data::try_signed(seed, IxDyn(&input.shape))
        });
        let case = Case {
            inputs: further.collect::<Result<_>>()?,
            name: chain.operators(),
            chain: chain.clone(),
            parameters: parameters.values().to_vec(),
            x: data::try_fill(Part::Input.seed(seed), IxDyn(shape))?,
        };
        let case = rounded(&case, dtype);
        let x = Tensor::from_f32_array(stream, &case.x, dtype)?;
        let upload = |values| Tensor::from_f32_array(stream, values, dtype);
        let further = case.inputs.iter().map(upload).collect::<Result<_>>()?;
        let output = problem.output_shape().to_vec();
        let (bytes, flop) = lab::bytes_and_flop(chain, &problem, dtype);
        Ok(Subject {
            bytes,
            flop,
            model,
            x,
            further,
            number: None,
            seed,
            output,
            attributes: serde_json::to_value(chain).unwrap_or_default(),
            case,
        })
    }

    /// What runs under these options on a device of these properties, and why.
    ///
    /// # Errors
    /// As [`Model::explain_for`].
    pub fn explain(&self, options: &Options, properties: &DeviceProperties) -> Result<Explanation> {
        self.model.explain_for(self.x.shape(), options, properties)
    }

    /// The layers.
    pub fn chain(&self) -> &Chain {
        self.model.chain()
    }

    /// The float64 reference of the output, with the tolerance of the element type's arithmetic.
    ///
    /// # Errors
    /// None for a subject that could be made.
    pub fn expected(&self, products: ops::Precision) -> Result<Expected> {
        let precision = precision(self.model.dtype(), products == ops::Precision::Fast);
        Ok(self.case.expected(&precision)?)
    }

    /// The element type of the model.
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }

    /// The products that the model's convolution has at its element type.
    pub fn products(&self, products: ops::Precision) -> Products {
        match self.model.dtype() {
            DType::F32 if products == ops::Precision::Fast => Products::Fast,
            DType::F32 => Products::Accurate,
            _ => Products::Half,
        }
    }

    /// Operations of one pass of the convolution.
    pub fn flop(&self) -> u64 {
        self.flop
    }

    /// What [`data::fill`] made the input from.
    pub fn input_seed(&self) -> u64 {
        Part::Input.seed(self.seed)
    }

    /// What the model is run on.
    pub(super) fn inputs(&self) -> Inputs<&Tensor> {
        named(self.chain(), &self.x, &self.further)
    }

    /// Bytes that any implementation must move: inputs, output, parameters.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the parameters, as rounded to the element type, under PyTorch's names.
    ///
    /// # Errors
    /// [`Error::Weights`](convfuse::Error::Weights).
    pub fn save_parameters(&self, path: &Path) -> Result<()> {
        let table = self.case.chain.parameters().iter();
        let names = table.map(|parameter| parameter.name.clone());
        let named = names.zip(self.case.parameters.iter().cloned());
        Parameters::new(&self.case.chain, named)?.save(path)?;
        Ok(())
    }

    /// The operators' names.
    pub fn name(&self) -> String {
        self.chain().operators()
    }
}

/// A padding as PyTorch is given it.
fn written<const D: usize>(padding: Padding<D>) -> Value {
    match padding {
        Padding::Each(each) => json!(each.as_slice()),
        Padding::Same => json!("same"),
        Padding::Valid => json!("valid"),
    }
}

/// PyTorch's initialisation, with random numbers for what would be all 1 or 0.
fn parameters(chain: &Chain, seed: u64) -> Result<Parameters> {
    let mut parameters = Parameters::init(chain, seed)?;
    let mut earlier = [0; 2];
    for (index, layer) in chain.layers().iter().enumerate() {
        let of_layer = chain.parameters_of(index);
        let sources: &[(Part, f32)] = match layer {
            Layer::GroupNorm(_) | Layer::InstanceNorm(_) | Layer::LayerNorm(_) => {
                &[(Part::NormWeight, 1.5), (Part::NormBias, 0.5)]
            }
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
        // The second norm of a chain has other numbers than the first.
        let earlier = &mut earlier[usize::from(sources.len() == 1)];
        let seed = seed.wrapping_add(*earlier << 32);
        *earlier += 1;
        for (&slot, &(part, bound)) in of_layer.iter().zip(sources) {
            let parameter = &chain.parameters()[slot];
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

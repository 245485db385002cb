//! Pipelines with parameters and inputs that can be made again anywhere.

use std::path::Path;

use ndarray::{Array, Array1, Dimension, IxDyn};
use oracle::{Case, Expected, Precision};
use serde_json::json;

use super::report::Products;
use crate::data;
use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::lab::{case_79, case_85, rounded};
use crate::models::{
    Conv2dGroupNormScaleMaxPoolClamp, Conv3dMultiplyInstanceNormClampMultiplyMax, Pipeline,
};
use crate::ops;
use crate::parameters::Parameters;
use crate::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};

/// A pipeline with parameters and an input, ready to be run.
#[derive(Debug)]
pub struct Subject<M> {
    pub(super) model: M,
    pub(super) x: Tensor,
    pub(super) number: u32,
    pub(super) seed: u64,
    pub(super) flop: u64,
    pub(super) bytes: u64,
    pub(super) output: Vec<usize>,
    pub(super) attributes: serde_json::Value,
    case: Case,
}

/// Operations of a convolution from `output`, its output's elements, and the filter's shape.
fn conv_flop(output: impl IntoIterator<Item = usize>, weight: &[usize]) -> u64 {
    let product = |extents: &mut dyn Iterator<Item = usize>| {
        extents.map(|extent| extent as u64).product::<u64>()
    };
    2 * product(&mut output.into_iter()) * product(&mut weight[1..].iter().copied())
}

/// Uniform values in [0, 1), of a shape whose rank has been checked.
fn input<D: Dimension>(seed: u64, shape: &[usize]) -> Array<f32, D> {
    data::fill(seed, IxDyn(shape))
        .into_dimensionality()
        .expect("the specification checked the rank")
}

/// The channels of an input; none if it has no such axis, which the specification will refuse.
fn channels(shape: &[usize]) -> usize {
    shape.get(1).copied().unwrap_or(0)
}

/// What a subject is made of besides the parameters of its model's initialisation, by offset from the subject's seed.
#[derive(Clone, Copy)]
enum Part {
    Input = 1,
    NormWeight = 2,
    NormBias = 3,
    Scale = 4,
}

impl Part {
    /// Mixed, so that no two parts share their numbers, nor a part and a parameter of the initialisation.
    const fn seed(self, of_subject: u64) -> u64 {
        data::splitmix64(of_subject.wrapping_mul(8).wrapping_add(self as u64))
    }
}

/// Weight and bias of a norm, where it is to have them.
fn random_affine(affine: bool, k: usize, seed: u64) -> (Option<Array1<f32>>, Option<Array1<f32>>) {
    let vector = |part: Part, bound: f32| data::signed(part.seed(seed), k) * bound;
    let random = |part, bound| affine.then(|| vector(part, bound));
    (random(Part::NormWeight, 1.5), random(Part::NormBias, 0.5))
}

impl Subject<Conv2dGroupNormScaleMaxPoolClamp> {
    /// Problem 85 of KernelBench's level 2 on an input of this shape; `[128, 8, 128, 128]` is the problem's own.
    ///
    /// # Errors
    /// As [`new_85`](Self::new_85).
    pub fn kernelbench_85(
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let spec = Spec85 {
            in_channels: channels(shape),
            ..Spec85::kernelbench()
        };
        Self::new_85(stream, &spec, shape, dtype, seed)
    }

    /// The pipeline with these attributes on an input of this shape.
    ///
    /// The norm's weight and the scale are random in (-1.5, 1.5), the norm's bias in (-0.5, 0.5): of their initial values, 1 and
    /// 0, half the arithmetic would not show.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) for a shape that the pipeline refuses; what uploading may run into.
    pub fn new_85(
        stream: &Stream,
        spec: &Spec85,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let problem = spec.problem(shape)?;
        let mut weights = Weights85::init(spec, seed);
        let norm = random_affine(spec.affine, spec.out_channels, seed);
        (weights.group_norm_weight, weights.group_norm_bias) = norm;
        weights.scale = data::signed(Part::Scale.seed(seed), spec.out_channels) * 1.5;
        let model = Conv2dGroupNormScaleMaxPoolClamp::with_dtype(stream, spec, &weights, dtype)?;
        let flop = conv_flop(problem.conv_shape().to_vec(), &spec.weight_shape());
        let (conv, pool) = (&spec.conv, &spec.max_pool);
        let attributes = json!({
            "out_channels": spec.out_channels,
            "kernel_size": spec.kernel_size,
            "stride": conv.stride,
            "padding": conv.padding,
            "dilation": conv.dilation,
            "groups": conv.groups,
            "bias": spec.bias,
            "affine": spec.affine,
            "num_groups": spec.group_norm.num_groups,
            "eps": spec.group_norm.eps,
            "max_pool": pool.kernel_size,
            "max_pool_stride": pool.stride.unwrap_or(pool.kernel_size),
            "max_pool_padding": pool.padding,
            "max_pool_dilation": pool.dilation,
            "ceil_mode": pool.ceil_mode,
            "clamp": [spec.clamp.min, spec.clamp.max],
        });
        let x = input(Part::Input.seed(seed), shape);
        let case = case_85(spec, &weights, x);
        Subject::new(85, model, &case, flop, attributes, seed)
    }
}

impl Subject<Conv3dMultiplyInstanceNormClampMultiplyMax> {
    /// Problem 79 of KernelBench's level 2 on an input of this shape; `[128, 3, 16, 32, 32]` is the problem's own.
    ///
    /// # Errors
    /// As [`new_79`](Self::new_79).
    pub fn kernelbench_79(
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let spec = Spec79 {
            in_channels: channels(shape),
            ..Spec79::kernelbench()
        };
        Self::new_79(stream, &spec, shape, dtype, seed)
    }

    /// The pipeline with these attributes on an input of this shape. The norm's weight and bias, if there are such, are
    /// random, as those of [`new_85`](Subject::new_85) are.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) for a shape that the pipeline refuses; what uploading may run into.
    pub fn new_79(
        stream: &Stream,
        spec: &Spec79,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Self> {
        let problem = spec.problem(shape)?;
        let mut weights = Weights79::init(spec, seed);
        let norm = random_affine(spec.affine, spec.out_channels, seed);
        (weights.instance_norm_weight, weights.instance_norm_bias) = norm;
        let model =
            Conv3dMultiplyInstanceNormClampMultiplyMax::with_dtype(stream, spec, &weights, dtype)?;
        let flop = conv_flop(problem.conv_shape().to_vec(), &spec.weight_shape());
        let conv = &spec.conv;
        let attributes = json!({
            "out_channels": spec.out_channels,
            "kernel_size": spec.kernel_size,
            "stride": conv.stride,
            "padding": conv.padding,
            "dilation": conv.dilation,
            "groups": conv.groups,
            "bias": spec.bias,
            "affine": spec.affine,
            "eps": spec.instance_norm.eps,
            "clamp": [spec.clamp.min, spec.clamp.max],
        });
        let x = input(Part::Input.seed(seed), shape);
        let case = case_79(spec, &weights, x);
        Subject::new(79, model, &case, flop, attributes, seed)
    }
}

impl<M: Pipeline> Subject<M> {
    fn new(
        number: u32,
        model: M,
        case: &Case,
        flop: u64,
        attributes: serde_json::Value,
        seed: u64,
    ) -> Result<Self> {
        let case = rounded(case, model.dtype());
        let parameters: usize = case.parameters.iter().map(|values| values.len()).sum();
        let x = Tensor::from_f32_array(model.stream(), &case.x, model.dtype())?;
        let output = model.output_shape(x.shape())?;
        let elements = x.len() + output.iter().product::<usize>() + parameters;
        Ok(Subject {
            bytes: elements as u64 * model.dtype().size() as u64,
            model,
            x,
            number,
            seed,
            flop,
            output,
            attributes,
            case,
        })
    }

    /// The float64 reference of the output, with the tolerance of the element type's arithmetic.
    ///
    /// # Errors
    /// None for a subject that could be made.
    pub fn expected(&self, products: ops::Precision) -> Result<Expected> {
        let precision = match self.model.dtype() {
            DType::F32 if products == ops::Precision::Fast => Precision::TF32,
            DType::F32 => Precision::F32,
            DType::F16 => Precision::F16,
            DType::BF16 => Precision::BF16,
        };
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
            DType::F16 | DType::BF16 => Products::Half,
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

    /// Bytes that any implementation must move: input, output, parameters.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the parameters, as rounded to the element type, under PyTorch's names.
    ///
    /// # Errors
    /// [`Error::Weights`](crate::Error::Weights).
    pub fn save_parameters(&self, path: &Path) -> Result<()> {
        let table = self.case.chain.parameters().iter();
        let names = table.map(|parameter| parameter.name.clone());
        let named = names.zip(self.case.parameters.iter().cloned());
        Parameters::new(&self.case.chain, named)?.save(path)?;
        Ok(())
    }

    /// The operator's name, as its functions and files have it.
    pub fn name(&self) -> &'static str {
        match self.number {
            85 => "conv2d_group_norm_scale_max_pool_clamp",
            _ => "conv3d_multiply_instance_norm_clamp_multiply_max",
        }
    }
}

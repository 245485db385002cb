//! Arithmetic with tensors as layers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::de::{DeserializeSeed, Error};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Flow, GraphLayer, Layer, LayerProblem, Role};
use crate::graph::ChannelAffine;
use crate::graph::Initialisation;
use crate::graph::parameters::Wanted;
use crate::setters::setters;
use crate::{
    ArithmeticOp, ArithmeticOperand, ArithmeticProblem, ArithmeticSpec, PointwiseSpec, Quantity,
    ScaleProblem, SpecError,
};

/// A parameter that is the other operand of an operation, broadcast by PyTorch's rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BroadcastParameter {
    /// The parameter's name. Layers that give the same name share the parameter.
    pub name: String,
    /// The parameter's shape: one element, or one for each channel. `None` stands for one for each channel,
    /// such as `(c, 1, 1)` for images.
    pub shape: Option<Vec<usize>>,
    /// The initial values before training. `None` stands for the operation's neutral element.
    pub initialisation: Option<Initialisation>,
}

impl BroadcastParameter {
    /// Returns a parameter with one value for each channel, initialised to the operation's neutral element.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            shape: None,
            initialisation: None,
        }
    }
}

setters! {
    [] BroadcastParameter {
        /// Sets the shape.
        shape(shape: &[usize]) |parameter| parameter.shape = Some(shape.to_vec());
        /// Sets the initial values before training.
        initialisation(initialisation: Initialisation) |parameter|
            parameter.initialisation = Some(initialisation);
    }
}

/// The tensor that is the other operand of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OtherTensor {
    /// A broadcast parameter.
    Parameter(BroadcastParameter),
    /// The value of this name, with exactly the shape of the first operand. In a
    /// [`Graph`](crate::graph::Graph) it is any value, in a [`Chain`](crate::graph::Chain) a further input.
    Input(String),
    /// The output of the layer of this number, with exactly the shape of the first operand. Layers are
    /// counted from 0; the layer must come before this one.
    Layer(usize),
}

/// The other operand of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Other {
    /// A constant.
    Value(f64),
    /// A tensor.
    Tensor(OtherTensor),
}

impl From<f64> for Other {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for Other {
    fn from(input: &str) -> Self {
        Self::Tensor(OtherTensor::Input(input.into()))
    }
}

impl From<String> for Other {
    fn from(input: String) -> Self {
        Self::Tensor(OtherTensor::Input(input))
    }
}

impl From<OtherTensor> for Other {
    fn from(tensor: OtherTensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<BroadcastParameter> for Other {
    fn from(parameter: BroadcastParameter) -> Self {
        Self::Tensor(OtherTensor::Parameter(parameter))
    }
}

/// An operation on the first operand and another tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ArithmeticLayer {
    /// The operation.
    pub operation: ArithmeticOp,
    /// The other operand.
    pub other: OtherTensor,
}

impl ArithmeticOp {
    /// Returns the operation with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    /// Returns the layer with this other operand. A constant makes it a pointwise function.
    fn layer(self, other: Other) -> Layer {
        match other {
            Other::Value(value) => Layer::Pointwise(match self {
                Self::Add => PointwiseSpec::Add { value },
                Self::Sub => PointwiseSpec::Sub { value },
                Self::Mul => PointwiseSpec::Mul { value },
                Self::Div => PointwiseSpec::Div { value },
            }),
            Other::Tensor(other) => Layer::Arithmetic(ArithmeticLayer {
                operation: self,
                other,
            }),
        }
    }

    /// Returns the initialisation by the operation's neutral element.
    const fn neutral(self) -> Initialisation {
        match self {
            Self::Add | Self::Sub => Initialisation::Zeros,
            Self::Mul | Self::Div => Initialisation::Ones,
        }
    }
}

impl Layer {
    /// Adds a constant, a parameter, the value of this name, or the output of an earlier layer.
    ///
    /// ```
    /// # use op_spec as convfuse;
    /// use convfuse::graph::{BroadcastParameter, Layer, OtherTensor};
    ///
    /// let half = Layer::add(0.5);
    /// let bias = Layer::add(BroadcastParameter::new("bias").shape(&[64, 1, 1]));
    /// let shortcut = Layer::add("shortcut");
    /// let first = Layer::add(OtherTensor::Layer(0));
    /// assert!([half, bias, shortcut, first].iter().all(|layer| layer.operator() == "add"));
    /// ```
    #[must_use]
    pub fn add(other: impl Into<Other>) -> Layer {
        ArithmeticOp::Add.layer(other.into())
    }

    /// Subtracts a constant, a parameter, or another value; see [`add`](Self::add) for the operands.
    #[must_use]
    pub fn sub(other: impl Into<Other>) -> Layer {
        ArithmeticOp::Sub.layer(other.into())
    }

    /// Multiplies by a constant, a parameter, or another value; see [`add`](Self::add) for the operands.
    #[must_use]
    pub fn mul(other: impl Into<Other>) -> Layer {
        ArithmeticOp::Mul.layer(other.into())
    }

    /// Divides by a constant, a parameter, or another value; see [`add`](Self::add) for the operands.
    #[must_use]
    pub fn div(other: impl Into<Other>) -> Layer {
        ArithmeticOp::Div.layer(other.into())
    }
}

/// The attributes in a file: a value, a parameter with its name, an input, or a layer.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object of attributes")]
struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initialisation: Option<Initialisation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<usize>,
}

#[doc(hidden)] // only for serde
impl<'de> DeserializeSeed<'de> for ArithmeticOp {
    type Value = Layer;

    fn deserialize<D: Deserializer<'de>>(self, file: D) -> Result<Layer, D::Error> {
        let file = File::deserialize(file)?;
        let is_parameter = file.shape.is_some() || file.initialisation.is_some();
        let other = match (file.value, file.name, file.input, file.layer) {
            (Some(value), None, None, None) => Other::Value(value),
            (None, None, Some(input), None) => Other::from(input),
            (None, None, None, Some(layer)) => Other::from(OtherTensor::Layer(layer)),
            (None, Some(name), None, None) => {
                return Ok(self.layer(Other::from(BroadcastParameter {
                    name,
                    shape: file.shape,
                    initialisation: file.initialisation,
                })));
            }
            (None, None, None, None) => {
                return Err(D::Error::custom(
                    "missing field `value`, `name`, `input` or `layer`",
                ));
            }
            _ => {
                return Err(D::Error::custom(
                    "expected only one of value, name, input and layer",
                ));
            }
        };
        match is_parameter {
            true => Err(D::Error::custom(
                "shape and initialisation are those of a parameter, which has a name",
            )),
            false => Ok(self.layer(other)),
        }
    }
}

impl Serialize for ArithmeticLayer {
    fn serialize<S: Serializer>(&self, file: S) -> Result<S::Ok, S::Error> {
        let mut attributes = File::default();
        match self.other.clone() {
            OtherTensor::Input(input) => attributes.input = Some(input),
            OtherTensor::Layer(layer) => attributes.layer = Some(layer),
            OtherTensor::Parameter(parameter) => {
                attributes.name = Some(parameter.name);
                attributes.shape = parameter.shape;
                attributes.initialisation = parameter.initialisation;
            }
        }
        let mut layer = file.serialize_map(Some(1))?;
        layer.serialize_entry(self.operation.name(), &attributes)?;
        layer.end()
    }
}

impl ArithmeticLayer {
    /// The parameter that is the other operand, if it is one.
    pub(crate) const fn parameter(&self) -> Option<&BroadcastParameter> {
        match &self.other {
            OtherTensor::Parameter(parameter) => Some(parameter),
            OtherTensor::Input(_) | OtherTensor::Layer(_) => None,
        }
    }

    /// The shape of the parameter, if there is one and its shape is given.
    fn shape(&self) -> Option<&[usize]> {
        self.parameter()?.shape.as_deref()
    }
}

impl GraphLayer for ArithmeticLayer {
    fn needs_channels(&self) -> bool {
        let is_one = |shape: &[usize]| shape.iter().all(|&extent| extent == 1);
        self.parameter().is_some() && !self.shape().is_some_and(is_one)
    }

    fn needs_batch(&self) -> bool {
        // The parameter has an axis for the batch, and the broadcast output gets that axis.
        self.shape()
            .is_some_and(|shape| matches!(shape, [1, _, ..]))
    }

    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        if let Some(shape) = self.shape() {
            let actual = shape.iter().copied().fold(1, usize::saturating_mul);
            if actual != 1 && actual != channels {
                return Err(SpecError::OneOrEach {
                    operator: self.operation.name(),
                    quantity: Quantity::scalar("the product of shape"),
                    actual,
                    channels,
                });
            }
        }
        Ok(Some(channels))
    }

    fn name(&self) -> &str {
        self.parameter().map_or("", |parameter| &parameter.name)
    }

    fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
        let Some(parameter) = self.parameter() else {
            return Vec::new();
        };
        let shape = parameter.shape.clone().unwrap_or_else(|| {
            let mut shape = vec![flow.channels.unwrap_or(0)];
            shape.resize(1 + flow.dimensions.unwrap_or(0), 1);
            shape
        });
        let neutral = self.operation.neutral();
        vec![Wanted {
            suffix: "",
            shape,
            initialisation: parameter.initialisation.unwrap_or(neutral),
            absent_without: None,
        }]
    }

    fn operands(&self) -> &[String] {
        match &self.other {
            OtherTensor::Parameter(_) | OtherTensor::Layer(_) => &[],
            OtherTensor::Input(input) => core::slice::from_ref(input),
        }
    }

    fn earlier(&self) -> Option<usize> {
        match &self.other {
            OtherTensor::Layer(layer) => Some(*layer),
            OtherTensor::Parameter(_) | OtherTensor::Input(_) => None,
        }
    }

    fn is_pointwise(&self) -> bool {
        true
    }

    fn commutes(&self) -> bool {
        matches!(self.operation, ArithmeticOp::Add | ArithmeticOp::Mul)
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let spec = ArithmeticSpec::new(self.operation);
        let problem = match (self.parameter(), self.shape()) {
            (None, _) => spec.elementwise(input)?,
            (Some(_), Some(shape)) => spec.broadcast(input, shape)?,
            (Some(_), None) => {
                let mut shape = vec![1; input.len().saturating_sub(1)];
                if let ([_, c, ..], Some(first)) = (input, shape.first_mut()) {
                    *first = *c;
                }
                spec.broadcast(input, &shape)?
            }
        };
        Ok((LayerProblem::Arithmetic(problem), input.to_vec()))
    }
}

impl ArithmeticProblem {
    /// Returns the operation's role in a normal form.
    pub(crate) fn role(self) -> Role {
        match self.operand {
            ArithmeticOperand::Elements(_) => Role::Residual(self),
            ArithmeticOperand::Channels { shape, values }
                if self.operation == ArithmeticOp::Mul && values == shape.c =>
            {
                Role::Factors(ScaleProblem { shape })
            }
            ArithmeticOperand::Channels { .. } => Role::Affine(ChannelAffine::Arithmetic(self)),
        }
    }
}

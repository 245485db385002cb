//! Parameters that are the same in every run.

use super::ProgramBuilder;
use crate::device::{DType, Order, Tensor};
use crate::error::Result;
use crate::program::{Place, Value, ValueFacts};

impl ProgramBuilder {
    /// A parameter: a tensor of the program's device that is the same in every run.
    pub(crate) fn parameter(&mut self, tensor: &Tensor) -> Value {
        let value = self.absent(tensor.shape(), tensor.dtype());
        let value = value.expect("the device has a tensor of this size");
        self.provide(value, tensor);
        value
    }

    /// A parameter whose tensor is [provided](Self::provide) later, or never, if the program is only
    /// explained.
    pub(crate) fn absent(&mut self, shape: &[usize], dtype: DType) -> Result<Value> {
        let place = Place::Parameter(self.parameters.len());
        self.parameters.push(None);
        self.value(shape, dtype, place, Order::Dense)
    }

    /// Provides the tensor of a parameter.
    pub(crate) fn provide(&mut self, parameter: Value, tensor: &Tensor) {
        assert_eq!(
            *tensor.device(),
            self.device,
            "who makes a program has checked where its parameters are"
        );
        let ValueFacts {
            shape,
            dtype,
            place,
            ..
        } = &self.values[parameter.0];
        assert_eq!((&**shape, *dtype), (tensor.shape(), tensor.dtype()));
        if let Place::Parameter(index) = *place {
            self.parameters[index] = Some(tensor.clone());
        }
    }

    /// [`parameter`](Self::parameter) for an optional tensor.
    pub(crate) fn optional_parameter(&mut self, tensor: Option<&Tensor>) -> Option<Value> {
        tensor.map(|tensor| self.parameter(tensor))
    }

    /// Whether a value is a parameter that is the same in every run.
    pub(crate) fn keeps(&self, value: Value) -> bool {
        matches!(self.values[value.0].place, Place::Parameter(_))
    }

    /// The tensor of a parameter, if it was provided.
    pub(crate) fn known(&self, parameter: Value) -> Option<&Tensor> {
        match self.values[parameter.0].place {
            Place::Parameter(index) => self.parameters[index].as_ref(),
            _ => None,
        }
    }
}

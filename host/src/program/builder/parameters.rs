//! Parameters that are the same in every run.

use super::ProgramBuilder;
use crate::device::{DType, Order, Tensor};
use crate::error::Result;
use crate::program::{Place, Value};

impl ProgramBuilder {
    /// A parameter: a tensor of the program's device that is the same in every run.
    pub(crate) fn parameter(&mut self, tensor: &Tensor) -> Value {
        assert_eq!(
            *tensor.device(),
            self.device,
            "who makes a program has checked where its parameters are"
        );
        let place = Place::Parameter(self.parameters.len());
        self.parameters.push(tensor.clone());
        let value = self.value(tensor.shape(), tensor.dtype(), place, Order::Dense);
        value.expect("the device has a tensor of this size")
    }

    /// An absent parameter, of a program that is only explained and has no tensors.
    pub(crate) fn absent(&mut self, shape: &[usize], dtype: DType) -> Result<Value> {
        assert!(self.is_explained, "a program that runs has its parameters");
        self.value(shape, dtype, Place::Parameter(0), Order::Dense)
    }

    /// [`parameter`](Self::parameter) for an optional tensor.
    pub(crate) fn optional_parameter(&mut self, tensor: Option<&Tensor>) -> Option<Value> {
        tensor.map(|tensor| self.parameter(tensor))
    }

    /// Whether a value is a parameter that is the same in every run.
    pub(crate) fn keeps(&self, value: Value) -> bool {
        matches!(self.values[value.0].place, Place::Parameter(_))
    }

    /// The tensor behind a parameter, if it is the same in every run.
    pub(crate) fn known(&self, parameter: Value) -> Option<&Tensor> {
        match self.values[parameter.0].place {
            Place::Parameter(index) => self.parameters.get(index),
            _ => None,
        }
    }
}

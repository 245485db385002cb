//! What the models have in common.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::sync::Arc;

use ndarray::{Array4, ArrayBase, Data, Dimension, Ix4};

use super::Plan;
use crate::device::{DType, Stream, Tensor};
use crate::error::{Error, Result};
use crate::ops::{ConvAlgorithm, ConvOptions, FusedOptions, Precision};
use crate::program::Program;

/// A way to run a pipeline. All give the same values up to rounding.
pub trait Strategy:
    Copy + Debug + Default + Display + Eq + FromStr<Err = String> + Send + Sync + 'static
{
    /// Every strategy, from a kernel per operator to the most fused.
    const ALL: &'static [Self];

    /// The most fused, the one that a [`Precision`] concerns.
    const FUSED: Self;

    /// The kernels that follow one another, in a few words.
    fn summary(self) -> &'static str;
}

/// How a pipeline is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options<S> {
    /// Which operators share kernels.
    pub strategy: S,
    /// The products of the fully fused strategy.
    pub precision: Precision,
    /// Whether kernels are chosen without regard to the batch (the default), so that the results of a sample are the same
    /// bits in any batch. Where they need not be, the fully fused strategy has faster kernels for small batches.
    pub batch_invariant: bool,
    /// The most bytes that the column matrix of a convolution may take at a time, where the strategy has one.
    pub workspace_bytes: u64,
}

impl<S: Strategy> Default for Options<S> {
    fn default() -> Self {
        Options::strategy(S::default())
    }
}

impl<S: Strategy> Options<S> {
    /// The defaults with this strategy.
    pub fn strategy(strategy: S) -> Options<S> {
        let workspace_bytes = ConvOptions::default().workspace_bytes;
        Options {
            strategy,
            precision: Precision::default(),
            batch_invariant: true,
            workspace_bytes,
        }
    }

    /// The same with other products.
    #[must_use]
    pub fn precision(self, precision: Precision) -> Options<S> {
        Options { precision, ..self }
    }

    /// The same with kernels that depend on the batch, or not.
    #[must_use]
    pub fn batch_invariant(self, batch_invariant: bool) -> Options<S> {
        Options {
            batch_invariant,
            ..self
        }
    }

    /// What the fully fused strategy is told.
    pub(super) fn fused(&self) -> FusedOptions {
        FusedOptions {
            precision: self.precision,
            batch_invariant: self.batch_invariant,
        }
    }

    /// The same with another limit.
    #[must_use]
    pub fn workspace_bytes(self, workspace_bytes: u64) -> Options<S> {
        Options {
            workspace_bytes,
            ..self
        }
    }
}

/// A model that is ready to run.
pub trait Pipeline: Clone + Send + Sync {
    /// The attributes.
    type Spec;
    /// The ways to run it.
    type Strategy: Strategy;
    /// The rank of the input, as ndarray says it.
    type Input: Dimension;

    /// The pipeline's name, as errors have it.
    #[doc(hidden)]
    const NAME: &'static str;

    /// The launches for inputs of this shape, on a device that runs kernels.
    #[doc(hidden)]
    fn program(&self, input: &[usize], options: &Options<Self::Strategy>) -> Result<Arc<Program>>;

    /// One pass of the CPU backend, for an input whose shape was checked.
    #[doc(hidden)]
    fn run_on_cpu(&self, x: &Tensor) -> Result<Tensor>;

    /// The stream that the parameters were uploaded on.
    fn stream(&self) -> &Stream;

    /// The attributes.
    fn spec(&self) -> &Self::Spec;

    /// The element type of parameters, inputs and outputs.
    fn dtype(&self) -> DType;

    /// The shape of the output for an input of this shape.
    ///
    /// # Errors
    /// [`Error::Spec`] for an input that the pipeline refuses.
    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>>;

    /// The output for `x`, on the stream of `x`, under the default strategy. Nothing waits for the device.
    ///
    /// # Errors
    /// [`Error::Spec`] for an input that the pipeline refuses; [`Error::DTypeMismatch`], [`Error::DeviceMismatch`],
    /// [`Error::OutOfMemory`].
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, &Options::default())
    }

    /// [`forward`](Pipeline::forward) under a chosen strategy.
    fn forward_with(&self, x: &Tensor, options: &Options<Self::Strategy>) -> Result<Tensor> {
        if x.dtype() != self.dtype() {
            return Err(Error::DTypeMismatch {
                operator: Self::NAME,
                argument: "input",
                actual: x.dtype(),
                expected: self.dtype(),
            });
        }
        x.same_device(Self::NAME, "input", self.stream())?;
        if x.device().is_cpu() {
            self.output_shape(x.shape())?;
            return self.run_on_cpu(x);
        }
        let program = self.program(x.shape(), options)?;
        let mut outputs = program.run_once(Self::NAME, x.stream(), &[x])?;
        Ok(outputs.remove(0))
    }

    /// [`forward`](Pipeline::forward) for an array: copies it to the model's device, runs, waits, copies back.
    fn forward_array<S: Data<Elem = f32>>(
        &self,
        x: &ArrayBase<S, Self::Input>,
    ) -> Result<Array4<f32>> {
        let x = Tensor::from_f32_array(self.stream(), x, self.dtype())?;
        let y = self.forward(&x)?.to_f32_array()?;
        Ok(y.into_dimensionality::<Ix4>()
            .expect("both pipelines give four dimensions"))
    }

    /// Prepares runs on inputs of one shape, on one stream: kernels are chosen and loaded, and memory is allocated.
    ///
    /// # Errors
    /// As [`forward`](Pipeline::forward); [`Error::DeviceMismatch`] for another device's stream.
    fn plan(
        &self,
        stream: &Stream,
        input: &[usize],
        options: &Options<Self::Strategy>,
    ) -> Result<Plan<Self>>
    where
        Self: Sized,
    {
        Plan::new(self, stream, input, options)
    }
}

/// How a strategy convolves.
pub(super) fn convolution<S>(options: &Options<S>, im2col: bool) -> ConvOptions {
    let algorithm = if im2col {
        ConvAlgorithm::Im2col
    } else {
        ConvAlgorithm::Direct
    };
    ConvOptions::algorithm(algorithm).workspace_bytes(options.workspace_bytes)
}

/// Implements what a strategy's name gives: `Display`, `FromStr`, `Strategy`.
macro_rules! strategies {
    ($Strategy:ident { $($Variant:ident = $name:literal: $summary:literal,)* }) => {
        impl std::fmt::Display for $Strategy {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $($Strategy::$Variant => $name,)* })
            }
        }

        impl std::str::FromStr for $Strategy {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                match name {
                    $($name => Ok($Strategy::$Variant),)*
                    _ => Err(format!("strategy: {name} is unknown, must be one of {}", [$($name),*].join(", "))),
                }
            }
        }

        impl $crate::models::Strategy for $Strategy {
            const ALL: &'static [Self] = &[$($Strategy::$Variant),*];
            const FUSED: Self = $Strategy::Fused;

            fn summary(self) -> &'static str {
                match self { $($Strategy::$Variant => $summary,)* }
            }
        }
    };
}
pub(super) use strategies;

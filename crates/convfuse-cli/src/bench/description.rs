//! What is to be measured, before anything of it is made.

use convfuse::{DType, Result, lab, ops};
use op_spec::Padding;
use op_spec::graph::Graph;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use oracle::Case;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::report::MathMode;

/// Layers on an input of a shape that they take, and what the numbers are made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// Its number in KernelBench's level 2, if it is one of its problems.
    pub number: Option<u32>,
    /// The layers.
    #[serde(skip)]
    pub graph: Graph,
    /// The input's shape.
    pub input: Vec<usize>,
    /// The first output's shape.
    pub output: Vec<usize>,
    /// Element type of inputs, output and parameters.
    #[serde(serialize_with = "shown")]
    pub dtype: DType,
    /// Whether the channels of the input are neighbours in memory, as in PyTorch's `channels_last`.
    pub channels_last: bool,
    /// What parameters and inputs are made from.
    pub seed: u64,
    /// Attributes under PyTorch's names.
    pub attributes: Value,
    /// Operations of one pass of the convolutions.
    pub flop: u64,
    /// Bytes that any implementation must move: inputs, outputs, parameters.
    pub bytes: u64,
}

/// The attributes that both problems have, and further ones.
macro_rules! attributes {
    ($problem:ident, { $($further:tt)* }) => {
        json!({
            "out_channels": $problem.out_channels,
            "kernel_size": $problem.kernel_size,
            "stride": $problem.conv.stride,
            "padding": written_padding($problem.conv.padding),
            "dilation": $problem.conv.dilation,
            "groups": $problem.conv.groups,
            "bias": $problem.bias,
            "affine": $problem.affine,
            "clamp": [$problem.clamp.min, $problem.clamp.max],
            $($further)*
        })
    };
}

impl Description {
    /// Problem 85 of KernelBench's level 2 with these attributes on an input of this shape.
    ///
    /// # Errors
    /// As [`new`](Self::new), and attributes that no chain can have.
    pub fn of_85(
        problem: &KernelBench85,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Description> {
        let pool = &problem.max_pool;
        let attributes = attributes!(problem, {
            "num_groups": problem.group_norm.num_groups,
            "eps": problem.group_norm.eps,
            "max_pool": pool.kernel_size,
            "max_pool_stride": pool.stride.unwrap_or(pool.kernel_size),
            "max_pool_padding": pool.padding,
            "max_pool_dilation": pool.dilation,
            "ceil_mode": pool.ceil_mode,
        });
        Ok(Description {
            number: Some(85),
            attributes,
            ..Self::new(&problem.chain()?.into(), shape, dtype, seed)?
        })
    }

    /// Problem 79 of KernelBench's level 2 with these attributes on an input of this shape.
    ///
    /// # Errors
    /// As [`new`](Self::new), and attributes that no chain can have.
    pub fn of_79(
        problem: &KernelBench79,
        shape: &[usize],
        dtype: DType,
        seed: u64,
    ) -> Result<Description> {
        let attributes = attributes!(problem, { "eps": problem.instance_norm.eps });
        Ok(Description {
            number: Some(79),
            attributes,
            ..Self::new(&problem.chain()?.into(), shape, dtype, seed)?
        })
    }

    /// Layers on an input of this shape.
    ///
    /// # Errors
    /// [`Error::Graph`](convfuse::Error::Graph) for a shape that they refuse.
    pub fn new(graph: &Graph, shape: &[usize], dtype: DType, seed: u64) -> Result<Description> {
        let problem = graph.problem(shape)?;
        let (bytes, flop) = lab::bytes_and_flop(graph, &problem, dtype);
        Ok(Description {
            number: None,
            input: shape.to_vec(),
            output: problem.output_shape().to_vec(),
            dtype,
            channels_last: false,
            seed,
            attributes: written(graph).1,
            graph: graph.clone(),
            flop,
            bytes,
        })
    }

    /// The problem's number, or what the kind of file is called that the layers are from.
    #[must_use]
    pub fn kind(&self) -> String {
        let kind = || written(&self.graph).0.to_owned();
        self.number.map_or_else(kind, |number| number.to_string())
    }

    /// What [`data::fill`](convfuse::data::fill) makes the input from.
    #[must_use]
    pub const fn input_seed(&self) -> u64 {
        Part::Input.seed(self.seed)
    }

    /// The math mode of the convolutions at the element type.
    #[must_use]
    pub fn math_mode(&self, math_mode: ops::Precision) -> MathMode {
        match self.dtype {
            DType::F32 if math_mode == ops::Precision::Fast => MathMode::Fast,
            DType::F32 => MathMode::Accurate,
            _ => MathMode::Half,
        }
    }

    /// Refuses what there is no memory for on the host: inputs and parameters, and what the float64 reference
    /// takes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](convfuse::Error::OutOfMemory)
    pub fn must_have_memory(&self) -> Result<()> {
        let bytes = Case::bytes_of_graph(&self.graph, &self.input)?;
        lab::must_have_memory(bytes.unwrap_or(usize::MAX))
    }
}

/// Layers as JSON: what the kind of their file is called, and what is in it.
#[must_use]
pub fn written(graph: &Graph) -> (&'static str, Value) {
    match graph.input() {
        // A chain, whose values have no names.
        "" => (
            "chain",
            json!({"in_channels": graph.in_channels(), "layers": graph.layers()}),
        ),
        _ => ("network", json!(graph)),
    }
}

/// What a subject is made of besides the parameters of its model's initialisation, by offset from the
/// subject's seed.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Input = 1,
    NormWeight = 2,
    NormBias = 3,
    Scale = 4,
    Mean = 5,
    Variance = 6,
    Further = 7,
}

impl Part {
    /// Mixed, so that no two parts share their numbers, nor a part and a parameter of the initialisation. Of
    /// 32 bits, as records had them when a seed had no more.
    pub(super) const fn seed(self, of_subject: u64) -> u64 {
        let mixed = op_spec::data::splitmix64(of_subject.wrapping_mul(8).wrapping_add(self as u64));
        // The product has lost the upper three bits.
        mixed.wrapping_add(of_subject >> 61) % (1 << 32)
    }
}

/// An element type by its name.
fn shown<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

/// A padding as PyTorch is given it.
fn written_padding<const D: usize>(padding: Padding<D>) -> Value {
    match padding {
        Padding::Each(each) => json!(each.as_slice()),
        Padding::Same => json!("same"),
        Padding::Valid => json!("valid"),
        _ => unreachable!("every padding has a name"),
    }
}

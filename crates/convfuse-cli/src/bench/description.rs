//! The description of a benchmark subject, without tensors.

use convfuse::{DType, Result, lab, ops};
use op_spec::Padding;
use op_spec::graph::Graph;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use oracle::Case;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::math_mode::MathMode;

/// A graph of layers, a valid input shape for it, and the seed of all values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// The problem's number in KernelBench's level 2, if it is one of them.
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
    /// Whether the input is channels-last (NHWC), as in PyTorch's `channels_last`.
    pub channels_last: bool,
    /// The seed of parameters and inputs.
    pub seed: u64,
    /// Attributes under PyTorch's names.
    pub attributes: Value,
    /// Floating-point operations of all convolutions in one pass.
    pub flop: u64,
    /// Bytes of inputs, outputs and parameters, which any implementation must move.
    pub bytes: u64,
}

/// The attributes common to both problems, and further ones.
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
    /// As [`new`](Self::new), and attributes that the chain refuses.
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
    /// As [`new`](Self::new), and attributes that the chain refuses.
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

    /// Describes layers on an input of this shape.
    ///
    /// # Errors
    /// [`Error::Graph`](convfuse::Error::Graph) if the layers refuse the shape.
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

    /// Returns the problem's number, or the kind of the file that the layers come from.
    #[must_use]
    pub fn kind(&self) -> String {
        let kind = || written(&self.graph).0.to_owned();
        self.number.map_or_else(kind, |number| number.to_string())
    }

    /// Returns the seed that [`data::fill`](convfuse::data::fill) takes for the input.
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

    /// Refuses a subject that exceeds the host's memory: inputs, parameters and the float64 reference.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](convfuse::Error::OutOfMemory)
    pub fn must_have_memory(&self) -> Result<()> {
        let bytes = Case::bytes_of_graph(&self.graph, &self.input)?;
        lab::must_have_memory(bytes.unwrap_or(usize::MAX))
    }
}

/// Returns layers as JSON: the kind of their file, and its contents.
#[must_use]
pub fn written(graph: &Graph) -> (&'static str, Value) {
    match graph.input() {
        // A chain has no value names.
        "" => (
            "chain",
            json!({"in_channels": graph.in_channels(), "layers": graph.layers()}),
        ),
        _ => ("network", json!(graph)),
    }
}

/// The parts of a subject besides the initial parameters of its model. The discriminant is an offset from
/// the subject's seed.
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
    /// Returns the seed of this part. Mixing keeps the random numbers of the parts, and of the initial
    /// parameters, apart. The result has 32 bits for compatibility with records from before 64-bit seeds.
    pub(super) const fn seed(self, of_subject: u64) -> u64 {
        let mixed = op_spec::data::splitmix64(of_subject.wrapping_mul(8).wrapping_add(self as u64));
        // The multiplication by 8 dropped the upper three bits.
        mixed.wrapping_add(of_subject >> 61) % (1 << 32)
    }
}

/// Serializes an element type by its name.
fn shown<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

/// Returns a padding in PyTorch's notation.
fn written_padding<const D: usize>(padding: Padding<D>) -> Value {
    match padding {
        Padding::Each(each) => json!(each.as_slice()),
        Padding::Same => json!("same"),
        Padding::Valid => json!("valid"),
        _ => unreachable!("every padding has a name"),
    }
}

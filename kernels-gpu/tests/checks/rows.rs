//! Tables of convolutions, a line each.

use op_spec::graph::ConvLayer;
use op_spec::{ConvSpec, PointwiseSpec};

/// What is convolved, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<const D: usize = 3> {
    /// `[n, c, k]`.
    pub(super) channels: [usize; 3],
    pub(super) input: [usize; D],
    pub(super) filter: [usize; D],
    pub(super) attributes: ConvSpec<D>,
    pub(super) has_bias: bool,
    /// Windows that are pooled behind it.
    pub(super) pool: Option<[u32; 2]>,
    /// A batch norm and a function behind it.
    pub(super) batch_norm: bool,
    pub(super) function: Option<PointwiseSpec>,
    /// What the input is multiplied by.
    pub(super) factor: f32,
    /// How many blocks split a sum.
    pub(super) split_k: u32,
}

/// What may stand behind a row's extents.
impl<const D: usize> Row<D> {
    /// `[n, c, k]`, extents of input and filter; with a bias.
    pub(super) fn new(channels: [usize; 3], input: [usize; D], filter: [usize; D]) -> Self {
        Self {
            channels,
            input,
            filter,
            attributes: ConvSpec::default(),
            has_bias: true,
            pool: None,
            batch_norm: false,
            function: None,
            factor: 1.0,
            split_k: 1,
        }
    }

    pub(super) fn stride(mut self, stride: [usize; D]) -> Self {
        self.attributes.stride = stride;
        self
    }

    pub(super) fn padding(mut self, padding: [usize; D]) -> Self {
        self.attributes.padding = padding.into();
        self
    }

    pub(super) fn dilation(mut self, dilation: [usize; D]) -> Self {
        self.attributes.dilation = dilation;
        self
    }

    pub(super) fn groups(mut self, groups: usize) -> Self {
        self.attributes.groups = groups;
        self
    }

    pub(super) fn without_bias(mut self) -> Self {
        self.has_bias = false;
        self
    }

    pub(super) fn pool(mut self, h: u32, w: u32) -> Self {
        self.pool = Some([h, w]);
        self
    }

    pub(super) fn batch_norm(mut self) -> Self {
        self.batch_norm = true;
        self
    }

    pub(super) fn leaky_relu(mut self, negative_slope: f64) -> Self {
        self.function = Some(PointwiseSpec::LeakyRelu { negative_slope });
        self
    }

    pub(super) fn relu(mut self) -> Self {
        self.function = Some(PointwiseSpec::Relu {});
        self
    }

    pub(super) fn times(mut self, factor: f32) -> Self {
        self.factor = factor;
        self
    }

    pub(super) fn split(mut self, blocks: u32) -> Self {
        self.split_k = blocks;
        self
    }

    /// The convolution alone.
    pub(super) fn layer(&self) -> ConvLayer<D> {
        let mut layer = ConvLayer::new("conv", self.channels[2], self.filter);
        layer.attributes = self.attributes;
        layer.bias = self.has_bias;
        layer
    }

    /// The shape of its input.
    pub(super) fn shape(&self) -> Vec<usize> {
        [&self.channels[..2], &self.input].concat()
    }
}

/// Rows: `[n, c, k]`, extents of input and filter, and what else there is to each.
macro_rules! rows {
    ($($channels:tt, $input:tt, $filter:tt $(, $option:ident($($value:tt)*))*;)*) => {
        [$(Row::new($channels, $input, $filter)$(.$option($($value)*))*),*]
    };
}
pub(super) use rows;

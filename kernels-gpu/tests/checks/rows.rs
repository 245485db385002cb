//! Tables of convolutions, a line each.

use cuda_std::Storage;
use launch_config::pointwise::{OperandList, PointwiseList, Step};
use op_spec::graph::{ConvLayer, Layer};
use op_spec::{ClampSpec, ConvSpec, PointwiseSpec};
use oracle::Case;

use super::{case, stored};

/// A convolution with its input extents, attributes and epilogue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<const D: usize = 3> {
    /// `[n, c, k]`.
    pub(super) channels: [usize; 3],
    pub(super) input: [usize; D],
    pub(super) filter: [usize; D],
    pub(super) attributes: ConvSpec<D>,
    pub(super) has_bias: bool,
    /// Windows of a pool after the convolution.
    pub(super) pool: Option<[u32; 2]>,
    /// A batch norm and a function after the convolution.
    pub(super) batch_norm: bool,
    pub(super) function: Option<PointwiseSpec>,
    /// The steps of the epilogue's list after these.
    pub(super) list: &'static [Listed],
    /// A factor of the input.
    pub(super) factor: f32,
    /// The number of split-K blocks.
    pub(super) split_k: u32,
}

pub(super) const ADD: Listed = Listed::Add;
pub(super) const SILU: Listed = Listed::Function(PointwiseSpec::Silu {});
pub(super) const RELU: Listed = Listed::Function(PointwiseSpec::Relu {});
pub(super) const HARDSWISH: Listed = Listed::Function(PointwiseSpec::Hardswish {});

/// A step of an epilogue's list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed {
    /// The addition of a residual.
    Add,
    Function(PointwiseSpec),
}

impl Listed {
    pub(super) fn layer(&self) -> Layer {
        match self {
            Listed::Add => Layer::add("residual"),
            Listed::Function(function) => Layer::Pointwise(*function),
        }
    }
}

/// A list as kernels take it.
pub(super) fn residual_list(list: &[Listed]) -> OperandList {
    let steps = list.iter().filter_map(|step| match step {
        Listed::Add => None,
        Listed::Function(function) => Some(Step::of(function)),
    });
    let adds = |step: &Listed| matches!(step, Listed::Add);
    OperandList {
        functions: PointwiseList::take(&mut steps.into_iter()),
        residual_at: (list.iter().position(adds)).map_or(OperandList::ABSENT, |at| at as u32),
        ..OperandList::EMPTY
    }
}

/// The options of a row.
impl<const D: usize> Row<D> {
    /// A row of channels `[n, c, k]` and extents of input and filter, with a bias.
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
            list: &[],
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

    pub(super) fn clamp(mut self, min: f64, max: f64) -> Self {
        self.function = Some(PointwiseSpec::Clamp(ClampSpec::new(min, max)));
        self
    }

    pub(super) fn list(mut self, list: &'static [Listed]) -> Self {
        self.list = list;
        self
    }

    /// The layers of the list.
    pub(super) fn listed(&self) -> impl Iterator<Item = Layer> {
        self.list.iter().map(Listed::layer)
    }

    /// The list as kernels take it.
    pub(super) fn residual_list(&self) -> OperandList {
        residual_list(self.list)
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

    /// The shape of the input.
    pub(super) fn shape(&self) -> Vec<usize> {
        [&self.channels[..2], &self.input].concat()
    }
}

impl Row {
    /// A case of the row's layers.
    pub(super) fn case<T: Storage>(&self) -> Case {
        let mut layers = vec![Layer::from(self.layer())];
        if self.batch_norm {
            let norm = Layer::batch_norm("norm").eps(1e-3).affine(true);
            layers.push(norm.into());
        }
        layers.extend(self.function.map(Layer::Pointwise));
        layers.extend(self.listed());
        let mut case = case::<T>(layers, &self.shape());
        if self.batch_norm {
            let variance = 2 + usize::from(self.has_bias);
            case.parameters[variance].mapv_inplace(|v| stored::<T>(v.abs() + 0.1));
        }
        case
    }
}

/// Rows: `[n, c, k]`, extents of input and filter, and the options of each.
macro_rules! rows {
    ($($channels:tt, $input:tt, $filter:tt $(, $option:ident($($value:tt)*))*;)*) => {
        [$(Row::new($channels, $input, $filter)$(.$option($($value)*))*),*]
    };
}
pub(super) use rows;

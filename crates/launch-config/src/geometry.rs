//! Conversion of problems to the by-value arguments of kernels.
//!
//! A problem holds shapes and attributes as `usize` and `f64`. Kernels index with 32 bits inside a plane.
//! This step therefore refuses extents that no kernel can index, and nothing else.

use op_spec::{
    ArithmeticOperand, ArithmeticProblem, BatchNormProblem, ChannelShape, ClampProblem,
    ConvProblem, ConvSpec, ConvTransposeProblem, ConvTransposeSpec, GeluApproximation,
    GroupNormProblem, InstanceNormProblem, LayerNormProblem, Pad, Pass, PointwiseSpec, PoolProblem,
    Pooled, PreluProblem, Quantity, ReductionOp, ScaleProblem, SpecError,
};

use crate::Presence;
use crate::batch_norm::FoldGeometry;
use crate::channel_reduction::ChannelReductionGeometry;
use crate::conv::ConvGeometry;
use crate::conv_transpose::{InterleaveGeometry, MAX_STEP};
use crate::elementwise::{Bounds, ChannelGeometry};
use crate::max_pool2d::{PoolGeometry, PoolTask};
use crate::norm::{FAR, NormGeometry};
use crate::pad::PadGeometry;
use crate::pointwise::{Function, Step};
use crate::pool::{WindowGeometry, WindowResult};
use crate::reciprocal::Reciprocal;

/// A problem with a by-value kernel argument.
#[doc(hidden)] // The library's users see the pages of problems.
pub trait KernelGeometry {
    /// The argument type.
    type Geometry;

    /// Returns the argument, with extents of 1 for absent axes.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if a padded plane (or volume), a filter, the channels or an attribute
    /// exceeds the 32-bit range of kernels.
    fn geometry(&self) -> Result<Self::Geometry, SpecError>;
}

impl<const D: usize> KernelGeometry for ConvProblem<D> {
    type Geometry = ConvGeometry;

    fn geometry(&self) -> Result<ConvGeometry, SpecError> {
        let operator = ConvSpec::<D>::OPERATOR;
        check_plane(operator, "padded input plane", &self.input, &self.padding)?;
        check_plane(operator, "output plane", &self.output, &[0; D])?;
        check_plane(operator, "filter length", &[self.reduction()], &[0])?;
        // Axes are right-aligned: the last axis is the columns for any number of dimensions.
        let axes = |name, values: [usize; D], absent: u32| {
            let mut extents = [absent; 3];
            for (axis, value) in values.into_iter().enumerate() {
                let quantity = Quantity::entry(name, axis);
                extents[axis + 3 - D] = kernel_extent(operator, quantity, value)?;
            }
            Ok(extents)
        };
        let [d, h, w] = axes("input extent", self.input, 1)?;
        let [t, r, s] = axes("kernel_size", self.kernel_size, 1)?;
        let [z, p, q] = axes("output extent", self.output, 1)?;
        let [stride_d, stride_h, stride_w] = axes("stride", self.stride, 1)?;
        let [pad_d, pad_h, pad_w] = axes("padding", self.padding, 0)?;
        let [dilation_d, dilation_h, dilation_w] = axes("dilation", self.dilation, 1)?;
        let channels = |name, value| kernel_extent(operator, Quantity::scalar(name), value);
        Ok(ConvGeometry {
            n: self.n as u64,
            groups: channels("groups", self.groups)?,
            group_c: channels("in_channels", self.c)? / self.groups as u32,
            group_k: channels("out_channels", self.k)? / self.groups as u32,
            d,
            h,
            w,
            t,
            r,
            s,
            z,
            p,
            q,
            stride_d,
            stride_h,
            stride_w,
            pad_d,
            pad_h,
            pad_w,
            dilation_d,
            dilation_h,
            dilation_w,
            bias: Presence::of(self.bias),
        })
    }
}

impl<const D: usize> KernelGeometry for ConvTransposeProblem<D> {
    type Geometry = InterleaveGeometry;

    fn geometry(&self) -> Result<InterleaveGeometry, SpecError> {
        let operator = ConvTransposeSpec::<D>::OPERATOR;
        check_plane(operator, "input plane", &self.input, &[0; D])?;
        check_plane(operator, "filter plane", &self.kernel_size, &[0; D])?;
        // This plane is larger than the one that any class computes.
        check_plane(
            operator,
            "output plane with padding",
            &self.output,
            &self.padding,
        )?;
        for (name, steps) in [("stride", self.stride), ("dilation", self.dilation)] {
            for (axis, actual) in steps.into_iter().enumerate() {
                if actual > MAX_STEP {
                    return Err(SpecError::BeyondKernel {
                        operator,
                        quantity: Quantity::entry(name, axis),
                        actual,
                        limit: MAX_STEP,
                    });
                }
            }
        }
        kernel_extent(operator, Quantity::scalar("in_channels"), self.c)?;
        if self.k > FAR as usize {
            return Err(SpecError::BeyondKernel {
                operator,
                quantity: Quantity::scalar("out_channels"),
                actual: self.k,
                limit: FAR as usize,
            });
        }
        Ok(InterleaveGeometry::of(&self.as_conv_transpose3d()))
    }
}

impl KernelGeometry for PoolProblem {
    type Geometry = WindowGeometry;

    fn geometry(&self) -> Result<WindowGeometry, SpecError> {
        let operator = self.operator;
        check_plane(operator, "padded input plane", &self.input, &self.padding)?;
        check_plane(operator, "output plane", &self.output, &[0; 3])?;
        let all = |name, values: [usize; 3]| {
            let mut held = [0; 3];
            for (axis, (held, value)) in held.iter_mut().zip(values).enumerate() {
                // An image has no depth axis.
                let axis = axis.saturating_sub(3 - self.dimensions);
                *held = kernel_extent(operator, Quantity::entry(name, axis), value)?;
            }
            Ok(held)
        };
        let (result, divisor) = match self.pooled {
            Pooled::Maximum => (WindowResult::Maximum, 1.0),
            Pooled::DividedBy(divisor) => (WindowResult::Divided, divisor as f32),
            Pooled::Average {
                count_include_pad: true,
            } => (WindowResult::AverageOfPadded, 1.0),
            Pooled::Average {
                count_include_pad: false,
            } => (WindowResult::Average, 1.0),
            _ => unreachable!("every pool has a result"),
        };
        Ok(WindowGeometry {
            planes: (self.n * self.c) as u64,
            input: all("input extents", self.input)?,
            output: all("output extents", self.output)?,
            kernel: all("kernel_size", self.taps())?,
            stride: all("stride", self.stride)?,
            padding: all("padding", self.padding)?,
            dilation: all("dilation", self.dilation)?,
            result,
            divisor,
            columns: Reciprocal::of(1),
            slice: Reciprocal::of(1),
            near: Reciprocal::of(1),
        }
        .planned())
    }
}

impl PoolGeometry {
    /// Returns the argument of the kernels of `max_pool2d` and its fusions, for a pool of images.
    ///
    /// # Errors
    /// As [`KernelGeometry::geometry`].
    pub fn of(pool: &PoolProblem) -> Result<Self, SpecError> {
        let operator = pool.operator;
        check_plane(operator, "padded input plane", &pool.input, &pool.padding)?;
        check_plane(operator, "output plane", &pool.output, &[0; 3])?;
        let extent =
            |name, axis, value| kernel_extent(operator, Quantity::entry(name, axis), value);
        Ok(Self {
            planes: (pool.n * pool.c) as u64,
            channels: extent("input", 1, pool.c)?,
            h: extent("input", 2, pool.input[1])?,
            w: extent("input", 3, pool.input[2])?,
            p: extent("output", 2, pool.output[1])?,
            q: extent("output", 3, pool.output[2])?,
            r: extent("kernel_size", 0, pool.kernel_size[1])?,
            s: extent("kernel_size", 1, pool.kernel_size[2])?,
            stride_h: extent("stride", 0, pool.stride[1])?,
            stride_w: extent("stride", 1, pool.stride[2])?,
            pad_h: extent("padding", 0, pool.padding[1])?,
            pad_w: extent("padding", 1, pool.padding[2])?,
            dilation_h: extent("dilation", 0, pool.dilation[1])?,
            dilation_w: extent("dilation", 1, pool.dilation[2])?,
            columns: Reciprocal::of(1),
            near: Reciprocal::of(1),
            task: PoolTask::OUTPUT,
            block_tasks: 0,
        }
        .planned())
    }
}

impl KernelGeometry for GroupNormProblem {
    type Geometry = NormGeometry;

    fn geometry(&self) -> Result<NormGeometry, SpecError> {
        let (n, channels, spatial) = extents(&self.shape, "group_norm")?;
        let groups = Quantity::scalar("num_groups");
        let groups = kernel_extent("group_norm", groups, self.num_groups)?;
        let geometry = NormGeometry::new(n, channels, groups, spatial, self.eps as f32);
        Ok(geometry.affine(self.weight, self.bias))
    }
}

impl KernelGeometry for InstanceNormProblem {
    type Geometry = NormGeometry;

    fn geometry(&self) -> Result<NormGeometry, SpecError> {
        let (n, channels, spatial) = extents(&self.shape, "instance_norm")?;
        let groups = channels.max(1);
        let geometry = NormGeometry::new(n, channels, groups, spatial, self.eps as f32);
        Ok(geometry.affine(self.weight, self.bias))
    }
}

impl KernelGeometry for LayerNormProblem {
    type Geometry = NormGeometry;

    fn geometry(&self) -> Result<NormGeometry, SpecError> {
        Ok({
            let elements = self.shape.c as u64 * self.shape.spatial as u64;
            NormGeometry::new(self.shape.n as u64, 1, 1, elements, self.eps as f32)
        })
    }
}

impl ChannelReductionGeometry {
    /// Returns the argument of the kernels that reduce strided values.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if the number of reduced values exceeds 32 bits.
    pub fn of(operation: ReductionOp, pass: &Pass) -> Result<Self, SpecError> {
        let quantity = Quantity::scalar("reduced elements");
        let channels = kernel_extent(operation.name(), quantity, pass.reduced)?;
        let (n, spatial) = (pass.outer as u64, pass.inner as u64);
        Ok(Self::new(n, channels, spatial, operation.selects()))
    }
}

macro_rules! of_channels {
    ($($Problem:ident($operator:literal): $Geometry:ident;)+) => {$(
        impl KernelGeometry for $Problem {
            type Geometry = $Geometry;

            fn geometry(&self) -> Result<$Geometry, SpecError> {
                let (n, channels, spatial) = extents(&self.shape, $operator)?;
                Ok($Geometry::new(n, channels, spatial))
            }
        }
    )+};
}

of_channels! {
    BatchNormProblem("batch_norm"): ChannelGeometry;
    PreluProblem("prelu"): ChannelGeometry;
    ScaleProblem("scale"): ChannelGeometry;
}

impl PadGeometry {
    /// Returns the padding of `planes` planes (samples times channels), with extents of 1 for absent axes.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if padded planes (or volumes) exceed the 32-bit range of kernels.
    pub fn of<const D: usize>(
        operator: &'static str,
        pad: &Pad<D>,
        planes: usize,
    ) -> Result<Self, SpecError> {
        let outer = pad.outer();
        check_plane(operator, "padded input plane", &outer, &[0; D])?;
        // Axes are right-aligned.
        let axes = |values: &[usize; D], absent: u32| {
            let mut extents = [absent; 3];
            for (axis, &value) in values.iter().enumerate() {
                let quantity = Quantity::entry("padded input", axis);
                extents[axis + 3 - D] = kernel_extent(operator, quantity, value)?;
            }
            Ok(extents)
        };
        let plane: usize = outer.iter().product();
        let [_, rows, columns] = axes(&outer, 1)?;
        Ok(Self {
            elements: planes as u64 * plane as u64,
            planes: planes as u64,
            near: Self::near(plane as u64),
            rows: Reciprocal::of(rows),
            columns: Reciprocal::of(columns),
            plane: plane as u32,
            inner: axes(&pad.inner, 1)?,
            before: axes(&pad.before, 0)?,
            mode: pad.mode,
        })
    }
}

impl KernelGeometry for ArithmeticProblem {
    type Geometry = ChannelGeometry;

    /// Returns the argument of the kernel that applies a gain and a shift of each channel. An operand with a
    /// value for each element has neither; its elements count as one channel.
    fn geometry(&self) -> Result<ChannelGeometry, SpecError> {
        let shape = match self.operand {
            ArithmeticOperand::Channels { shape, .. } => shape,
            _ => ChannelShape {
                n: 1,
                c: 1,
                spatial: self.len(),
            },
        };
        let (n, channels, spatial) = extents(&shape, self.operation.name())?;
        Ok(ChannelGeometry::new(n, channels, spatial))
    }
}

impl FoldGeometry {
    /// Returns the argument of the kernel that folds the four parameters into two.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if the channels exceed 32 bits.
    pub fn of(problem: &BatchNormProblem) -> Result<Self, SpecError> {
        let (_, channels, _) = extents(&problem.shape, "batch_norm")?;
        Ok(Self {
            eps: problem.eps,
            channels,
            weight: Presence::of(problem.weight),
            bias: Presence::of(problem.bias),
            unused: 0,
        })
    }
}

impl Bounds {
    /// Returns the bounds of a clamp, rounded to f32.
    #[must_use]
    pub const fn of(clamp: &ClampProblem) -> Self {
        Self {
            min: clamp.min as f32,
            max: clamp.max as f32,
        }
    }
}

impl Step {
    /// Returns a pointwise function as a step of a list: as a clamp or an affine function, if possible. A
    /// clamp without bounds changes no value.
    #[must_use]
    pub fn of(function: &PointwiseSpec) -> Self {
        if let Some(clamp) = function.as_clamp() {
            let (min, max) = clamp.bounds().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
            return Self::new(Function::Clamp, [min, max, 0.0]);
        }
        if let Some([factor, summand]) = function.as_affine() {
            return Self {
                function: Function::Affine,
                attributes: [factor, summand, 0.0],
            };
        }
        let plain = |function| Self::new(function, [0.0; 3]);
        match *function {
            PointwiseSpec::LeakyRelu { negative_slope } => {
                Self::new(Function::LeakyRelu, [negative_slope, 0.0, 0.0])
            }
            PointwiseSpec::Silu {} => plain(Function::Silu),
            PointwiseSpec::Gelu {
                approximate: GeluApproximation::None,
            } => plain(Function::Gelu),
            PointwiseSpec::Gelu {
                approximate: GeluApproximation::Tanh,
            } => plain(Function::GeluTanh),
            PointwiseSpec::Sigmoid {} => plain(Function::Sigmoid),
            PointwiseSpec::Tanh {} => plain(Function::Tanh),
            PointwiseSpec::Hardswish {} => plain(Function::Hardswish),
            PointwiseSpec::Elu { alpha } => Self::new(Function::Elu, [alpha, 0.0, 0.0]),
            PointwiseSpec::Softplus { beta, threshold } => {
                Self::new(Function::Softplus, [beta, threshold, 1.0 / beta])
            }
            PointwiseSpec::Mish {} => plain(Function::Mish),
            PointwiseSpec::Hardsigmoid {} => plain(Function::Hardsigmoid),
            _ => unreachable!("every function has a step"),
        }
    }
}

/// Returns samples, channels and positions in the integer types of kernel arguments.
fn extents(shape: &ChannelShape, operator: &'static str) -> Result<(u64, u32, u64), SpecError> {
    let channels = kernel_extent(operator, Quantity::scalar("channels"), shape.c)?;
    Ok((shape.n as u64, channels, shape.spatial as u64))
}

/// Returns `value` in 32 bits.
pub(crate) fn kernel_extent(
    operator: &'static str,
    quantity: Quantity,
    value: usize,
) -> Result<u32, SpecError> {
    u32::try_from(value).map_err(|_| SpecError::BeyondKernel {
        operator,
        quantity,
        actual: value,
        limit: u32::MAX as usize,
    })
}

/// Refuses a padded plane (or volume) whose positions do not fit signed 32-bit integers.
pub(crate) fn check_plane(
    operator: &'static str,
    name: &'static str,
    extents: &[usize],
    padding: &[usize],
) -> Result<(), SpecError> {
    let limit = i32::MAX as usize;
    let positions = extents.iter().zip(padding).map(|(&extent, &padding)| {
        let pad = padding.saturating_mul(2);
        extent.saturating_add(pad).max(1)
    });
    let actual = positions.fold(1, usize::saturating_mul);
    if actual > limit {
        return Err(SpecError::BeyondKernel {
            operator,
            quantity: Quantity::scalar(name),
            actual,
            limit,
        });
    }
    Ok(())
}

//! Layout classes of tensors, as far as kernels distinguish them: dense, or strided. A strided tensor may
//! need a copy that makes it dense.

use std::fmt;

use launch_config::copy_strided::Collapsed;
use op_spec::Layout as MemoryFormat;

use super::{Layout, Tensor};
use crate::device::storage::{HostBuffer, Storage};
use crate::error::{At, Error, Result};

/// The alignment in bytes of dense tensors: the width of the kernels' vector accesses.
pub(crate) const ALIGNMENT: usize = 16;

/// The layout class of a tensor. It is equal for all tensors of a shape that the same kernels can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Dense, row-major and aligned, as every kernel reads it.
    Dense,
    /// Any other layout, which the copying kernel reads.
    Strided {
        /// The merged axes, without axes of extent 1.
        axes: Collapsed,
        /// Whether the element with all indices 0 has the alignment of dense tensors.
        is_aligned: bool,
    },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (axes, is_aligned) = match self {
            Order::Dense => return f.write_str("contiguous and aligned"),
            Order::Strided { axes, is_aligned } => (axes, is_aligned),
        };
        match axes.axes() {
            [axis] if axis.stride == 1 || axis.extent == 1 => f.write_str("contiguous")?,
            axes => {
                f.write_str("strided: ")?;
                for (index, axis) in axes.iter().enumerate() {
                    let between = if index > 0 { ", " } else { "" };
                    write!(f, "{between}{} by {}", axis.extent, axis.stride)?;
                }
            }
        }
        let article = if *is_aligned { "a" } else { "no" };
        write!(f, "; from {article} multiple of {ALIGNMENT} bytes")
    }
}

impl Order {
    /// The strides, in elements, of a tensor of this shape as a volume `(n, c, d, h, w)`, if it is not dense
    /// and its first element is aligned.
    pub(crate) fn strides(&self, shape: &[usize]) -> Option<[i64; 5]> {
        let Order::Strided {
            axes,
            is_aligned: true,
        } = self
        else {
            return None;
        };
        let [n, c, spatial @ ..] = shape else {
            return None;
        };
        let mut extents = [1; 5];
        (extents[0], extents[1]) = (*n as u64, *c as u64);
        // The spatial axes are the last ones.
        let first = extents.len() - spatial.len().min(4);
        let places = extents.get_mut(first..).filter(|_| first >= 2)?;
        for (place, &extent) in places.iter_mut().zip(spatial) {
            *place = extent as u64;
        }
        axes.strides(extents)
    }

    /// The order of a tensor with this layout.
    fn of(layout: &Layout, is_aligned: bool) -> Result<Order> {
        if layout.len() == 0 || (is_aligned && layout.is_contiguous()) {
            return Ok(Order::Dense);
        }
        Ok(Order::Strided {
            axes: Collapsed::new(layout.shape(), &layout.strides())?,
            is_aligned,
        })
    }

    /// The order of an aligned dense tensor of this layout.
    ///
    /// # Errors
    /// [`Error::Spec`] for more axes than the copying kernel supports.
    pub(crate) fn of_layout(shape: &[usize], layout: MemoryFormat) -> Result<Order> {
        Order::of_axes(shape, &axes_of(layout, shape.len()))
    }

    /// The order of an aligned tensor whose axes are dense in memory in the sequence `axes`, outermost first.
    ///
    /// # Errors
    /// [`Error::Spec`] for more axes than the copying kernel supports.
    pub(crate) fn of_axes(shape: &[usize], axes: &[usize]) -> Result<Order> {
        let mut strides = vec![0; shape.len()];
        let mut stride = 1isize;
        for &axis in axes.iter().rev() {
            strides[axis] = stride;
            stride = stride.wrapping_mul(shape[axis].max(1) as isize);
        }
        match Layout::strided(shape, &strides) {
            Some((layout, ..)) => Order::of(&layout, true),
            // A tensor of more elements than an address space has does not exist.
            None => Ok(Order::Dense),
        }
    }
}

/// Returns the axes of a tensor of this rank, in the sequence of a layout.
fn axes_of(layout: MemoryFormat, rank: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    if layout == MemoryFormat::Nhwc && rank > 1 {
        axes[1..].rotate_left(1);
    }
    axes
}

/// Returns the extents of a tensor of this shape in the order of a layout's axes, outermost first.
pub(crate) fn in_memory(shape: &[usize], layout: MemoryFormat) -> Vec<usize> {
    let axes = axes_of(layout, shape.len()).into_iter();
    axes.map(|axis| shape[axis]).collect()
}

impl Tensor {
    /// Views a tensor, whose axes are in the memory order of a layout, with its axes in logical (NCHW) order.
    pub(crate) fn laid_out(&self, layout: MemoryFormat) -> Result<Tensor> {
        let mut axes: Vec<usize> = (0..self.shape().len()).collect();
        if layout == MemoryFormat::Nhwc && axes.len() > 1 {
            axes[1..].rotate_right(1);
        }
        self.permute(&axes)
    }

    /// The tensor's order, for kernels that read it.
    ///
    /// # Errors
    /// [`Error::Spec`] for more axes than the copying kernel supports.
    pub(crate) fn order(&self) -> Result<Order> {
        Order::of(&self.layout, self.is_aligned())
    }

    /// Refuses a tensor whose order is not `expected`.
    pub(crate) fn must_lie(&self, expected: &Order, at: At) -> Result<()> {
        let actual = self.order()?;
        if actual == *expected {
            return Ok(());
        }
        let (operator, argument) = at;
        Err(Error::LayoutMismatch {
            operator,
            argument,
            actual: actual.to_string(),
            expected: expected.to_string(),
        })
    }

    /// Refuses a tensor whose memory kernels cannot write densely.
    pub(crate) fn must_be_aligned(&self, at: At) -> Result<()> {
        self.must_be_contiguous(at)?;
        if self.is_empty() || self.is_aligned() {
            return Ok(());
        }
        Err(Error::Misaligned {
            operator: at.0,
            address: self.place(),
            alignment: ALIGNMENT,
        })
    }

    fn is_aligned(&self) -> bool {
        self.place().is_multiple_of(ALIGNMENT)
    }

    /// Returns the address of the element with all indices 0. The CPU device's own memory counts from 0: a
    /// GPU's memory begins at a multiple of the alignment, and the host's need not.
    fn place(&self) -> usize {
        match self.storage() {
            Storage::Host(HostBuffer::Lent(memory)) => memory.address() + self.start(),
            Storage::Host(_) => self.start(),
            Storage::Emulated(_) | Storage::Gpu(_) => self.address().addr(),
        }
    }
}

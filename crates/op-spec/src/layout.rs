//! The order of a value's axes in memory.

use core::fmt;

/// The order of a value's axes in memory, the outermost first, for any number of spatial axes. Exhaustive:
/// these are PyTorch's memory formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Samples, channels, space: PyTorch's `contiguous_format`.
    #[default]
    Nchw,
    /// Samples, space, channels: PyTorch's `channels_last` and `channels_last_3d`.
    Nhwc,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nchw => "NCHW",
            Self::Nhwc => "NHWC",
        })
    }
}

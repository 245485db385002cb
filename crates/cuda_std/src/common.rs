//! What the public modules and the backends beneath them both name.

use half::{bf16, f16};

/// The most shared memory that a block can have, in bytes, on the devices with the most (sm_90 and
/// later). Above 48 KiB, the host must opt in to the dynamic part.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// A value that can lie in global or shared memory and travel in registers.
///
/// # Safety
/// Implementors are plain bits: no padding, every bit pattern valid, 1, 2, 4 or 8 bytes, aligned
/// to their size.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        // SAFETY: a primitive number without padding or niche, aligned to its size.
        unsafe impl Element for $ty {}
    )*};
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

/// How a shuffle finds its source lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpShuffleMode {
    /// The lane `own - delta`.
    Up,
    /// The lane `own + delta`.
    Down,
    /// The lane given.
    Idx,
    /// The lane `own ^ lane_mask`.
    Xor,
}

/// What a warp reduction computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WarpReductionOp {
    /// The sum, wrapping.
    Add,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The bitwise and.
    And,
    /// The bitwise or.
    Or,
    /// The bitwise exclusive or.
    Xor,
}

/// Axes of a tensor.
pub const AXES: usize = 5;

/// What a copy starts on in shared memory.
pub const TARGET_BYTES: u32 = 128;

/// The map of a tensor, as the device wants it, or the emulator. It lies on 64 bytes: on the device
/// `cuda_builder` sees to it, as the compiler passes nothing that takes more than 16.
#[cfg_attr(target_arch = "nvptx64", repr(C, align(16)))]
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap(pub [u64; 16]);

impl TensorMap {
    /// That of no tensor, for launches that do not look at it.
    pub const NONE: Self = Self([0; 16]);
}

/// The boxes of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boxes {
    /// The tensor's extents.
    pub extents: [u32; AXES],
    /// Bytes from an index to the next along each axis but the first: multiples of 16.
    pub strides: [u64; AXES - 1],
    /// Indices from a box's first to its last along each axis, both included.
    pub reaches: [u32; AXES],
    /// Strides of a box along each axis, in indices: 1 along the first axis.
    pub steps: [u32; AXES],
    /// 1 if chunks of 16 bytes are swizzled, else 0.
    pub is_swizzled: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Boxes {
    /// Indices that a box has along each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; AXES] {
        std::array::from_fn(|axis| self.reaches[axis].div_ceil(self.steps[axis].max(1)))
    }

    /// Bytes of a line.
    #[must_use]
    pub fn line_bytes(&self) -> u32 {
        2 * self.reaches[0]
    }

    /// The map of a tensor at `address`, for the emulator.
    #[must_use]
    pub fn emulated(&self, address: *const u8) -> TensorMap {
        let [a, b, c, d] = self.strides;
        let pair = |of: &[u32; AXES], first: usize| {
            u64::from(of[first]) | (of.get(first + 1).copied().map_or(0, u64::from)) << 32
        };
        let mut words = [0; 16];
        words[..5].copy_from_slice(&[address.addr() as u64, a, b, c, d]);
        for (i, of) in [&self.extents, &self.reaches, &self.steps]
            .into_iter()
            .enumerate()
        {
            for (j, word) in words[5 + 3 * i..8 + 3 * i].iter_mut().enumerate() {
                *word = pair(of, 2 * j);
            }
        }
        words[14] = self.is_swizzled.into();
        TensorMap(words)
    }

    /// Checks what `cuTensorMapEncodeTiled` asks of a tensor at `address` and its boxes
    /// ([its documentation](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html)),
    /// and what [`tensor_map`](crate::tensor_map) asks of a line.
    ///
    /// # Errors
    /// The rule that is broken, in words.
    #[cfg(feature = "emulator")]
    pub(crate) fn check(&self, address: usize) -> Result<(), String> {
        const MOST_STRIDE: u64 = (1 << 40) - 1;
        const MOST_OF_BOX: u64 = 256;
        const MOST_STEP: u64 = 8;
        let within = |value: u64, what: &str, axis: usize, at_most: u64| {
            if (1..=at_most).contains(&value) {
                return Ok(());
            }
            Err(format!("{what} {axis} is {value}, limit 1..={at_most}"))
        };
        let on_16_bytes = |value: u64, what: &str| match value.is_multiple_of(16) {
            true => Ok(()),
            false => Err(format!("{what} is {value}, no multiple of 16")),
        };
        on_16_bytes(address as u64, "the tensor's address")?;
        for axis in 0..AXES {
            let [extent, reach, step] =
                [self.extents, self.reaches, self.steps].map(|of| u64::from(of[axis]));
            within(extent, "the tensor's extent", axis, u64::from(u32::MAX))?;
            within(reach, "the box's extent", axis, MOST_OF_BOX)?;
            within(
                step,
                "the box's step",
                axis,
                if axis == 0 { 1 } else { MOST_STEP },
            )?;
        }
        for (axis, &stride) in self.strides.iter().enumerate() {
            within(stride, "the tensor's stride", axis + 1, MOST_STRIDE)?;
            on_16_bytes(stride, "a stride of the tensor")?;
        }
        let line = self.line_bytes();
        if !(line.is_power_of_two() && (16..=128).contains(&line)) {
            return Err(format!(
                "a line of {line} bytes, neither 16 nor a power of two up to 128"
            ));
        }
        Ok(())
    }

    /// What [`emulated`](Self::emulated) was made of.
    #[cfg(feature = "emulator")]
    pub(crate) fn of_emulated(map: &TensorMap) -> (usize, Self) {
        let words = &map.0;
        let of = |first: usize| {
            std::array::from_fn(|axis| (words[first + axis / 2] >> (32 * (axis % 2))) as u32)
        };
        let boxes = Self {
            strides: [words[1], words[2], words[3], words[4]],
            extents: of(5),
            reaches: of(8),
            steps: of(11),
            is_swizzled: words[14] as u32,
        };
        (words[0] as usize, boxes)
    }
}

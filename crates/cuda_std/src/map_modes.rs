//! Tensor maps, and what they are encoded from.

/// Axes of a tensor.
pub const AXES: usize = 5;

/// Axes of a tensor besides channels and samples.
pub const SPATIAL_AXES: usize = AXES - 2;

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

/// The boxes of a tensor, for a map in tiled mode.
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

/// The windows of a convolution over a channels-last tensor, for a map in im2col mode. The tensor's axes are
/// channels, columns, rows, slices and samples.
///
/// The windows of a sample begin at the points of a box: at the lower corner, and from there on by the steps
/// along each axis, up to the upper corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Im2col {
    /// The tensor's extents.
    pub extents: [u32; AXES],
    /// Bytes from an index to the next along each axis but the first: multiples of 16.
    pub strides: [u64; AXES - 1],
    /// Column, row and slice of the lower corner: below zero in the padding.
    pub lower_corner: [i32; SPATIAL_AXES],
    /// The same of the upper corner, counted from the tensor's last element.
    pub upper_corner: [i32; SPATIAL_AXES],
    /// Columns, rows and slices from a window to the next.
    pub steps: [u32; SPATIAL_AXES],
    /// Channels of a copy.
    pub channels_per_pixel: u32,
    /// Windows of a copy.
    pub pixels_per_column: u32,
    /// 1 if chunks of 16 bytes are swizzled, else 0.
    pub is_swizzled: u32,
}

/// What a tensor map is encoded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapMode {
    /// Boxes of the tensor.
    Tiled(Boxes),
    /// Elements of windows: rows of an im2col matrix.
    Im2col(Im2col),
}

impl From<Boxes> for MapMode {
    fn from(boxes: Boxes) -> Self {
        Self::Tiled(boxes)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Boxes {
    /// Indices that a box has along each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; AXES] {
        std::array::from_fn(|axis| self.reaches[axis].div_ceil(self.steps[axis].max(1)))
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl MapMode {
    /// Bytes of a line: what a copy brings of neighbouring channels.
    #[must_use]
    pub fn line_bytes(&self) -> u32 {
        2 * match self {
            Self::Tiled(boxes) => boxes.reaches[0],
            Self::Im2col(windows) => windows.channels_per_pixel,
        }
    }

    /// Whether chunks of 16 bytes are swizzled within lines.
    #[must_use]
    pub fn is_swizzled(&self) -> bool {
        let is_swizzled = match self {
            Self::Tiled(boxes) => boxes.is_swizzled,
            Self::Im2col(windows) => windows.is_swizzled,
        };
        is_swizzled == 1
    }

    /// The map of a tensor at `address`, for the emulator.
    #[must_use]
    pub fn emulated(&self, address: *const u8) -> TensorMap {
        let (mode, extents, strides, rest) = match self {
            Self::Tiled(of) => {
                let rest = [&of.reaches[..], &of.steps, &[of.is_swizzled]].concat();
                (0, of.extents, of.strides, rest)
            }
            Self::Im2col(of) => {
                let corners =
                    [of.lower_corner, of.upper_corner].map(|of| of.map(i32::cast_unsigned));
                let copied = [of.channels_per_pixel, of.pixels_per_column, of.is_swizzled];
                let rest = [corners[0], corners[1], of.steps, copied].concat();
                (1, of.extents, of.strides, rest)
            }
        };
        let long = [address.addr() as u64].into_iter().chain(strides);
        let halves = long.flat_map(|word| [word as u32, (word >> 32) as u32]);
        let words = [mode].into_iter().chain(extents).chain(halves).chain(rest);
        let mut map = TensorMap::NONE;
        for (i, word) in words.enumerate() {
            map.0[i / 2] |= u64::from(word) << (32 * (i % 2));
        }
        map
    }

    /// What [`emulated`](Self::emulated) was made of.
    #[cfg(feature = "emulator")]
    pub(crate) fn of_emulated(map: &TensorMap) -> (usize, Self) {
        let mut words = map
            .0
            .iter()
            .flat_map(|&word| [word as u32, (word >> 32) as u32]);
        let mut next = || words.next().unwrap_or(0);
        let mode = next();
        let extents = [(); AXES].map(|()| next());
        let [address, strides @ ..] =
            [(); AXES].map(|()| u64::from(next()) | u64::from(next()) << 32);
        let mode = if mode == 0 {
            Self::Tiled(Boxes {
                extents,
                strides,
                reaches: [(); AXES].map(|()| next()),
                steps: [(); AXES].map(|()| next()),
                is_swizzled: next(),
            })
        } else {
            Self::Im2col(Im2col {
                extents,
                strides,
                lower_corner: [(); SPATIAL_AXES].map(|()| next().cast_signed()),
                upper_corner: [(); SPATIAL_AXES].map(|()| next().cast_signed()),
                steps: [(); SPATIAL_AXES].map(|()| next()),
                channels_per_pixel: next(),
                pixels_per_column: next(),
                is_swizzled: next(),
            })
        };
        (address as usize, mode)
    }

    /// Checks what `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` ask of a tensor at `address`
    /// ([their
    /// documentation](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html)), and
    /// what [`tensor_map`](crate::tensor_map) asks of a line.
    ///
    /// # Errors
    /// The rule that is broken, in words.
    #[cfg(feature = "emulator")]
    pub(crate) fn check(&self, address: usize) -> Result<(), String> {
        const MOST_STRIDE: u64 = (1 << 40) - 1;
        const MOST_OF_BOX: u64 = 256;
        const MOST_STEP: u64 = 8;
        const MOST_PIXELS: u64 = 1024;
        const CORNERS: std::ops::RangeInclusive<i32> = -16..=15;
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
        let (extents, strides) = match self {
            Self::Tiled(of) => (of.extents, of.strides),
            Self::Im2col(of) => (of.extents, of.strides),
        };
        on_16_bytes(address as u64, "the tensor's address")?;
        for (axis, extent) in extents.into_iter().enumerate() {
            within(extent.into(), "the tensor's extent", axis, u32::MAX.into())?;
        }
        match self {
            Self::Tiled(of) => {
                for axis in 0..AXES {
                    let [reach, step] = [of.reaches, of.steps].map(|of| u64::from(of[axis]));
                    let most = if axis == 0 { 1 } else { MOST_STEP };
                    within(reach, "the box's extent", axis, MOST_OF_BOX)?;
                    within(step, "the box's step", axis, most)?;
                }
            }
            Self::Im2col(of) => {
                for axis in 0..SPATIAL_AXES {
                    within(of.steps[axis].into(), "the step", axis, MOST_STEP)?;
                    let corners = [of.lower_corner[axis], of.upper_corner[axis]];
                    if !corners.iter().all(|corner| CORNERS.contains(corner)) {
                        return Err(format!("corners {axis} are {corners:?}, limit {CORNERS:?}"));
                    }
                }
                let pixels = of.pixels_per_column.into();
                within(pixels, "the number of windows, of", 1, MOST_PIXELS)?;
            }
        }
        for (axis, stride) in strides.into_iter().enumerate() {
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
}

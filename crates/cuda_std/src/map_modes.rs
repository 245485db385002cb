//! Tensor maps, and the descriptions from which they are encoded.

/// The number of a tensor's axes.
pub const AXES: usize = 5;

/// The number of a tensor's spatial axes: all but channels and samples.
pub const SPATIAL_AXES: usize = AXES - 2;

/// The alignment in shared memory of a copy's destination, in bytes.
pub const TARGET_BYTES: u32 = 128;

/// The elements of a map's tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapElement {
    /// 16 bits, of any type.
    Bits16,
    /// f32.
    F32,
    /// f32 in memory. Copies to shared memory round to tf32, which has 10 fraction bits.
    Tf32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl MapElement {
    /// Returns the bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Bits16 => 2,
            Self::F32 | Self::Tf32 => 4,
        }
    }

    /// The number of an element type in the emulator's maps.
    const fn number(self) -> u32 {
        match self {
            Self::Bits16 => 0,
            Self::F32 => 1,
            Self::Tf32 => 2,
        }
    }

    /// The element type with this number.
    #[cfg(feature = "emulator")]
    const fn of_number(number: u32) -> Self {
        match number {
            0 => Self::Bits16,
            1 => Self::F32,
            _ => Self::Tf32,
        }
    }
}

/// A tensor map in the format of the device or of the emulator.
///
/// It must be aligned to 64 bytes. On the device `cuda_builder` aligns the kernel parameter, because the
/// compiler aligns no parameter to more than 16 bytes.
#[cfg_attr(target_arch = "nvptx64", repr(C, align(16)))]
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap(pub [u64; 16]);

impl TensorMap {
    /// A map of no tensor, for launches that do not read the map.
    pub const NONE: Self = Self([0; 16]);
}

/// The tensor and its boxes, for a map in tiled mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boxes {
    /// The tensor's elements.
    pub element: MapElement,
    /// The tensor's extents.
    pub extents: [u32; AXES],
    /// Strides in bytes along each axis but the first; multiples of 16.
    pub strides: [u64; AXES - 1],
    /// Extents of the box in the tensor along each axis, in elements, before the steps are applied.
    pub reaches: [u32; AXES],
    /// Element strides of the box along each axis; 1 along the first axis.
    pub steps: [u32; AXES],
    /// 1 if chunks of 16 bytes are swizzled, else 0.
    pub is_swizzled: u32,
}

/// The windows of a convolution over a channels-last tensor, for a map in im2col mode. The tensor's axes
/// are channels, columns, rows, slices and samples.
///
/// The windows of a sample start at the points of a box: from the lower corner to the upper corner, in
/// steps along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Im2col {
    /// The tensor's elements.
    pub element: MapElement,
    /// The tensor's extents.
    pub extents: [u32; AXES],
    /// Strides in bytes along each axis but the first; multiples of 16.
    pub strides: [u64; AXES - 1],
    /// Column, row and slice of the lower corner; negative in the padding.
    pub lower_corner: [i32; SPATIAL_AXES],
    /// Column, row and slice of the upper corner, relative to the tensor's last element.
    pub upper_corner: [i32; SPATIAL_AXES],
    /// Distance between neighbouring windows along columns, rows and slices.
    pub steps: [u32; SPATIAL_AXES],
    /// The number of channels in a copy.
    pub channels_per_pixel: u32,
    /// The number of windows in a copy.
    pub pixels_per_column: u32,
    /// 1 if chunks of 16 bytes are swizzled, else 0.
    pub is_swizzled: u32,
}

/// The mode of a tensor map, with the description that the map encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapMode {
    /// Tiled mode: copies of boxes.
    Tiled(Boxes),
    /// Im2col mode: copies of rows of an im2col matrix.
    Im2col(Im2col),
}

impl From<Boxes> for MapMode {
    fn from(boxes: Boxes) -> Self {
        Self::Tiled(boxes)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Boxes {
    /// Returns the number of elements of a box along each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; AXES] {
        std::array::from_fn(|axis| self.reaches[axis].div_ceil(self.steps[axis].max(1)))
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl MapMode {
    /// Returns the bytes of a line: the contiguous channels that a copy takes of one pixel.
    #[must_use]
    pub fn line_bytes(&self) -> u32 {
        self.element().bytes()
            * match self {
                Self::Tiled(boxes) => boxes.reaches[0],
                Self::Im2col(windows) => windows.channels_per_pixel,
            }
    }

    /// Returns the elements of the tensor.
    #[must_use]
    pub const fn element(&self) -> MapElement {
        match self {
            Self::Tiled(boxes) => boxes.element,
            Self::Im2col(windows) => windows.element,
        }
    }

    /// Returns whether 16-byte chunks are swizzled within lines.
    #[must_use]
    pub fn is_swizzled(&self) -> bool {
        let is_swizzled = match self {
            Self::Tiled(boxes) => boxes.is_swizzled,
            Self::Im2col(windows) => windows.is_swizzled,
        };
        is_swizzled == 1
    }

    /// Makes the emulator's map of a tensor at `address`.
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
        let kind = [mode, self.element().number()].into_iter();
        let words = kind.chain(extents).chain(halves).chain(rest);
        let mut map = TensorMap::NONE;
        for (i, word) in words.enumerate() {
            map.0[i / 2] |= u64::from(word) << (32 * (i % 2));
        }
        map
    }

    /// Decodes the address and the mode from a map that [`emulated`](Self::emulated) made.
    #[cfg(feature = "emulator")]
    pub(crate) fn of_emulated(map: &TensorMap) -> (usize, Self) {
        let mut words = map
            .0
            .iter()
            .flat_map(|&word| [word as u32, (word >> 32) as u32]);
        let mut next = || words.next().unwrap_or(0);
        let (mode, element) = (next(), MapElement::of_number(next()));
        let extents = [(); AXES].map(|()| next());
        let [address, strides @ ..] =
            [(); AXES].map(|()| u64::from(next()) | u64::from(next()) << 32);
        let mode = if mode == 0 {
            Self::Tiled(Boxes {
                element,
                extents,
                strides,
                reaches: [(); AXES].map(|()| next()),
                steps: [(); AXES].map(|()| next()),
                is_swizzled: next(),
            })
        } else {
            Self::Im2col(Im2col {
                element,
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

    /// Checks the requirements of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` for a tensor at
    /// `address` (see [their
    /// documentation](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html)), and
    /// the requirements of [`tensor_map`](crate::tensor_map) for a line.
    ///
    /// # Errors
    /// A description of the violated requirement.
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
        let is_span = line.is_power_of_two() && (16..=128).contains(&line);
        match self {
            Self::Tiled(_) if !self.is_swizzled() => {
                on_16_bytes(line.into(), "the bytes of a line")
            }
            _ if is_span => Ok(()),
            _ => Err(format!(
                "a line of {line} bytes, neither 16 nor a power of two up to 128"
            )),
        }
    }
}

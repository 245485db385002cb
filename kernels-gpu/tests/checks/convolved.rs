//! Expected results of kernels that convolve, take moments and keep extrema.

use cuda_std::{Storage, bf16, f16};
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{GemmDevice, OperandFormat};
use launch_config::{Arch, KernelGeometry};
use ndarray::{Array, ArrayD, Axis};
use op_spec::MaxPool2dSpec;
use op_spec::graph::{Layer, LayerProblem};
use oracle::data::signed;
use oracle::{Bounded, Case, Expected, Precision};

use super::rows::Row;
use super::{Failure, Run, Tensor, case, direct, precision, stored};

/// The math mode of a tensor core kernel.
pub(crate) trait Format {
    /// The storage type of tensors.
    type Stored: Storage;
    /// The name in kernel symbols.
    const LABEL: &'static str;
    /// Error bound of a product and its share of a sum, relative to the product.
    const PRODUCTS: f64;
}

/// f32 split into two f16 of together 22 bits.
pub(crate) struct F16x2;

/// f32 rounded to 11 bits.
pub(crate) struct ScaledF16;

/// f32 split into three bf16, which together have all of its bits.
pub(crate) struct Bf16x3;

/// A format with the operand format of its kernels.
pub(crate) trait Operand: Format {
    const OPERANDS: OperandFormat;
}

macro_rules! operands {
    ($($format:ty: $operands:ident;)+) => {
        $(impl Operand for $format {
            const OPERANDS: OperandFormat = OperandFormat::$operands;
        })+
    };
}

operands! { F16x2: F16X2; ScaledF16: SCALED_F16; Bf16x3: BF16X3; f16: STORED; bf16: STORED; }

/// A device on which a block has several tiles.
pub(super) const DEVICE: GemmDevice = GemmDevice {
    multiprocessors: 1,
    shared_bytes: 227 * 1024,
    arch: Arch::Sm90,
    tensor_rates: None,
};

/// The three bf16 products leave out `e * f` of factors `a + e` and `b + f` that are rounded to 16 bits and
/// to 8: twice `2^-8 * 2^-16` of the product.
const PARTS_UNIT: f64 = 1.0 / (1 << 23) as f64;

const SPLIT_UNIT: f64 = 1.0 / (1 << 22) as f64;
const ROUNDED_UNIT: f64 = 1.0 / (1 << 11) as f64;

macro_rules! formats {
    ($($format:ty: $stored:ty, $label:literal, $products:ident;)+) => {
        $(impl Format for $format {
            type Stored = $stored;
            const LABEL: &'static str = $label;
            const PRODUCTS: f64 = $products;
        })+
    };
}

formats! {
    Bf16x3: f32, "bf16x3_f32", PARTS_UNIT;
    F16x2: f32, "f16x2_f32", SPLIT_UNIT;
    ScaledF16: f32, "scaled_f16_f32", ROUNDED_UNIT;
    f16: f16, "f16", SPLIT_UNIT;
    bf16: bf16, "bf16", SPLIT_UNIT;
}

/// Gives samples, groups, channels and filters different magnitudes, by powers of two, which are exact. A
/// value that is multiplied by the scale of another then shows, and so does a scale that only one group
/// chose. The scale of the first group takes the others out of f16's range.
fn set_apart(case: &mut Case, groups: usize) {
    let of_group = case.x.shape()[1] / groups;
    for (sample, mut x) in case.x.outer_iter_mut().enumerate() {
        for (channel, mut plane) in x.outer_iter_mut().enumerate() {
            let in_first = groups > 1 && channel < of_group;
            let exponent = 4 * (sample % 2) + channel % 2 + 6 * usize::from(in_first);
            let factor = f32::exp2(-(exponent as f32));
            plane.mapv_inplace(|value| value * factor);
        }
    }
    set_filters_apart(&mut case.parameters[0], groups);
}

/// Gives filters alone different magnitudes. Filters at the same place of two groups differ as well, except
/// for some numbers of filters.
pub(super) fn set_filters_apart(filters: &mut ArrayD<f32>, groups: usize) {
    const EXPONENTS: [f32; 7] = [0.0, -3.0, 2.0, -1.0, 4.0, -2.0, 1.0];
    let of_group = filters.shape()[0] / groups;
    for (k, mut filter) in filters.outer_iter_mut().enumerate() {
        let factor = f32::exp2(EXPONENTS[(k + k / of_group) % EXPONENTS.len()]);
        filter.mapv_inplace(|value| value * factor);
    }
}

/// A convolution of volumes with a bias, and the weight of a norm and a factor for each channel. A pool needs
/// their signs.
pub(super) struct Convolution {
    pub(super) row: Row,
    /// The tolerance of a product, if it is not that of the format.
    pub(super) products: Option<f64>,
    pub(super) case: Case,
    pub(super) geometry: ConvGeometry,
    pub(super) scale: ArrayD<f32>,
    /// The norm's weight, if the number of channels is even; other norms have none.
    pub(super) norm_weight: Option<ArrayD<f32>>,
}

/// The factors after a convolution, on the device.
pub(super) struct Factors<T: Storage> {
    pub(super) norm_weight: Option<Tensor<T>>,
    pub(super) scale: Tensor<T>,
}

impl Convolution {
    /// The convolution of a row.
    pub(super) fn new<T: Storage>(row: Row) -> Self {
        let (groups, k) = (row.attributes.groups, row.channels[2]);
        let mut case = case::<T>([Layer::from(row.layer())], &row.shape());
        if size_of::<T>() == size_of::<f32>() {
            set_apart(&mut case, groups);
        }
        let problem = case.problem().expect("a sound problem").steps[0].problem;
        let LayerProblem::Conv3d(conv) = problem else {
            unreachable!("a convolution of volumes")
        };
        Self {
            row,
            products: None,
            geometry: conv.geometry().expect("a small problem"),
            scale: signed(4, &[k]).mapv(stored::<T>),
            norm_weight: (k % 2 == 0).then(|| signed(9, &[k]).mapv(stored::<T>)),
            case,
        }
    }

    /// Puts a NaN at each position of a window, each in a window of its own, for filters of one tap.
    pub(super) fn put_nan_in_windows(&mut self, channel: usize) {
        let [h, w] = self
            .row
            .pool
            .expect("windows")
            .map(|extent| extent as usize);
        for row in 0..h {
            for column in 0..w {
                self.case.x[[0, channel, 0, row * h + row, column * w + column]] = f32::NAN;
            }
        }
    }

    /// Norm weights, if there are any, and factors on the device.
    pub(super) fn factors<T: Storage>(&self, run: &Run) -> Result<Factors<T>, Failure> {
        let load =
            |values: &ArrayD<f32>| run.tensor::<T>(&values.iter().copied().collect::<Vec<_>>());
        Ok(Factors {
            norm_weight: self.norm_weight.as_ref().map(load).transpose()?,
            scale: load(&self.scale)?,
        })
    }

    /// The expected convolution, with a tolerance of `products` for each product.
    pub(super) fn values(&self, products: f64) -> Bounded {
        let precision = Precision {
            products,
            ..Precision::F32
        };
        let all = self.case.bounded_of_one_kernel(&precision);
        all.expect("a layer that takes this input")
    }

    /// The expected moments of `y` rounded to `T`, for each `channels` planes: count, mean, sum of squared
    /// deviations, 0.
    pub(super) fn moments<T: Storage>(&self, y: &Bounded, channels: u32) -> Expected {
        let y = y.clone().stored(&precision::<T>());
        let pixels = (self.geometry.output_pixels() * channels) as usize;
        let values: Vec<f64> = y.values.iter().copied().collect();
        let tolerance: Vec<f64> = y.tolerance.iter().copied().collect();
        let planes = values.chunks(pixels).zip(tolerance.chunks(pixels));
        let wanted = planes.flat_map(|(plane, tolerance)| {
            let count = plane.len() as f64;
            let mean = plane.iter().sum::<f64>() / count;
            let m2 = plane.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
            let largest = tolerance.iter().copied().fold(0.0, f64::max);
            // The values are summed in f32, in chains of at most 32 additions.
            let off = largest + 8.0 * f64::exp2(-24.0) * mean.abs();
            let m2_off = 2.0 * off * (m2 * count).sqrt() + count * off * off;
            [(count, 0.0), (mean, off), (m2, m2_off), (0.0, 0.0)]
        });
        direct::<f32>(wanted)
    }

    /// The expected stored results of `y`: all values, or of each window of these extents the value that is
    /// the largest after the multiplications by the channel's norm weight and factor.
    pub(super) fn results<T: Storage>(&self, mut y: Bounded, pool: Option<[u32; 2]>) -> Expected {
        if let Some([h, w]) = pool {
            let negative = |of: &ArrayD<f32>, channel: usize| of[channel] < 0.0;
            let sign = |channel: usize| {
                let norm = self.norm_weight.as_ref();
                let norm = norm.is_some_and(|weight| negative(weight, channel));
                if norm == negative(&self.scale, channel) {
                    1.0
                } else {
                    -1.0
                }
            };
            let signs = Array::from_shape_fn((self.scale.len(), 1, 1), |(k, ..)| sign(k));
            let depth = Axis(2);
            y = Bounded {
                values: y.values.remove_axis(depth) * &signs,
                tolerance: y.tolerance.remove_axis(depth),
            };
            let windows = MaxPool2dSpec::new([h as usize, w as usize]);
            let windows = windows.problem(y.values.shape()).expect("windows that fit");
            y = y.through(&LayerProblem::MaxPool2d(windows), &[], &Precision::F32);
            y.values *= &signs;
        }
        Expected::new(y.stored(&precision::<T>()), &precision::<T>())
    }
}

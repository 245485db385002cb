//! Checks of kernels against obvious loops in f64, in the emulator.
//!
//! Each check takes a [`Run`], so that it can be repeated under other schedules, and says what is
//! wrong instead of panicking. The kernels are those of the module `kernels` beside this one.

use std::any::{TypeId, type_name};
use std::fmt;

use cuda_std::emulator::{Buffer, Device, Fault, Launch};
use cuda_std::{Family, KernelArgs, Label, NoInstance, Storage, bf16, f16};
use op_spec::launch::LaunchShape;

pub(crate) mod channel_max;
pub(crate) mod conv;
pub(crate) mod conv2d_group_norm_scale_max_pool_clamp;
pub(crate) mod conv3d_multiply_instance_norm_clamp_multiply_max;
mod convolved;
pub(crate) mod elementwise;
pub(crate) mod implicit_gemm;
pub(crate) mod max_pool2d;
pub(crate) mod norm;
pub(crate) mod stencil;

/// Why a check failed: what the emulator reported, or what differs.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

impl From<NoInstance> for Failure {
    fn from(error: NoInstance) -> Self {
        Self(error.to_string())
    }
}

/// What a check comes to.
pub(crate) type Outcome = Result<(), Failure>;

/// More steps than any check needs, and few enough to end a kernel that hangs.
const STEP_LIMIT: u64 = 1 << 30;

/// An emulated device, and the order in which it runs threads and blocks.
pub(crate) struct Run {
    device: Device,
    seed: Option<u64>,
}

impl Run {
    /// In natural order, or one shuffled by `seed`.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            device: Device::new(),
            seed,
        }
    }

    /// A tensor of `values`, rounded to `T`.
    pub(crate) fn tensor<T: Storage>(&self, values: &[f32]) -> Result<Tensor<T>, Failure> {
        let tensor = self.empty(values.len())?;
        let mut bytes = Vec::with_capacity(size_of::<T>() * values.len());
        for &value in values {
            bytes.extend_from_slice(&bits(T::from_f32(value)));
        }
        tensor.buffer.write(0, &bytes)?;
        Ok(tensor)
    }

    /// A tensor that nobody has written.
    pub(crate) fn empty<T: Storage>(&self, len: usize) -> Result<Tensor<T>, Failure> {
        Ok(Tensor {
            buffer: self.device.alloc(size_of::<T>() * len)?,
            len,
            element: std::marker::PhantomData,
        })
    }

    /// Runs the instance of `family` with these labels.
    pub(crate) fn launch<A: KernelArgs>(
        &self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
        arguments: A,
    ) -> Outcome {
        let kernel = family.instance(labels)?;
        let shape = shape.expect("the checks' problems are small");
        assert!(!shape.is_empty(), "the checks' problems have outputs");
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            seed: self.seed,
            step_limit: STEP_LIMIT,
            ..Launch::default()
        };
        self.device.launch_instance(kernel, &launch, arguments)?;
        Ok(())
    }
}

/// Memory of the emulated device with a type.
pub(crate) struct Tensor<T> {
    buffer: Buffer,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Storage> Tensor<T> {
    /// Its first element, as a kernel writes it.
    pub(crate) fn ptr<P>(&self) -> *mut P {
        self.buffer.ptr()
    }

    /// Its first element, as a kernel reads it.
    pub(crate) fn source<P>(&self) -> *const P {
        self.ptr::<P>().cast_const()
    }

    /// Its bytes.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; self.len * size_of::<T>()];
        self.buffer.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Its values.
    pub(crate) fn values(&self) -> Result<Vec<f64>, Failure> {
        Ok(self
            .bytes()?
            .chunks_exact(size_of::<T>())
            .map(|bytes| f64::from(value::<T>(bytes).to_f32()))
            .collect())
    }
}

/// What kernels that store `T` are labelled.
pub(crate) fn label<T: Storage>() -> Label {
    let name = match TypeId::of::<T>() {
        one if one == TypeId::of::<f32>() => "f32",
        one if one == TypeId::of::<f16>() => "f16",
        one if one == TypeId::of::<bf16>() => "bf16",
        _ => panic!("no kernel stores {}", type_name::<T>()),
    };
    Label::Name(name)
}

/// The bytes of a stored value.
fn bits<T: Storage>(value: T) -> Vec<u8> {
    // SAFETY: `Element`s are plain bits of their size.
    unsafe { std::slice::from_raw_parts((&raw const value).cast(), size_of::<T>()) }.to_vec()
}

/// The stored value with these bytes.
fn value<T: Storage>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: there are as many bytes as `T` has, and every bit pattern is one.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// `len` reproducible numbers in `[-1, 1)` that `T` holds exactly.
pub(crate) fn signed<T: Storage>(seed: u64, len: usize) -> Vec<f32> {
    (0..len as u64)
        .map(|i| {
            let mut z = (seed << 32)
                .wrapping_add(i)
                .wrapping_add(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let unit = ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32;
            T::from_f32(2.0 * unit - 1.0).to_f32()
        })
        .collect()
}

/// A value that is wanted, and how far from it is still right.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The value; NaN wants NaN.
    pub(crate) value: f64,
    /// The error bound of the arithmetic, without that of storing the result.
    pub(crate) tolerance: f64,
}

impl Wanted {
    /// Exactly this.
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            value,
            tolerance: 0.0,
        }
    }

    /// This, up to the errors of a sum of `length` terms whose magnitudes add up to `condition`.
    pub(crate) fn sum(value: f64, length: usize, condition: f64) -> Self {
        let epsilon = f64::from(f32::EPSILON) / 2.0;
        Self {
            value,
            tolerance: (4.0 + (length as f64).sqrt()) * epsilon * condition,
        }
    }
}

/// Compares a tensor with what is wanted of it.
pub(crate) fn compare<T: Storage>(what: &str, tensor: &Tensor<T>, wanted: &[Wanted]) -> Outcome {
    let got = tensor.values()?;
    assert_eq!(
        got.len(),
        wanted.len(),
        "{what}: the reference has another shape"
    );
    // Half a unit in the last of T's places, of a normal number and of a subnormal one.
    let (storing, least) = match size_of::<T>() {
        4 => (0.0, 0.0),
        _ if T::from_f32(1.0 + 1.0 / 256.0).to_f32() == 1.0 => (1.0 / 256.0, 0.0),
        _ => (1.0 / 2048.0, f64::exp2(-25.0)),
    };
    for (index, (&got, wanted)) in got.iter().zip(wanted).enumerate() {
        let tolerance = wanted.tolerance + (storing * wanted.value.abs()).max(least);
        let same = got == wanted.value || (got.is_nan() && wanted.value.is_nan());
        // NaN is not within any tolerance.
        let within = (got - wanted.value).abs() <= tolerance;
        if !same && !within {
            return Err(Failure(format!(
                "{what}: element {index} is {got}, not {}; tolerance {tolerance:e}",
                wanted.value
            )));
        }
    }
    Ok(())
}

/// Compares two tensors bit by bit.
pub(crate) fn same_bits<T: Storage>(what: &str, got: &Tensor<T>, wanted: &Tensor<T>) -> Outcome {
    let [got, wanted] = [got.bytes()?, wanted.bytes()?];
    assert_eq!(got.len(), wanted.len(), "{what}: other lengths");
    let pairs = got
        .chunks_exact(size_of::<T>())
        .zip(wanted.chunks_exact(size_of::<T>()));
    for (index, (got, wanted)) in pairs.enumerate() {
        if got != wanted {
            let [got, wanted] = [got, wanted].map(|bytes| value::<T>(bytes).to_f32());
            return Err(Failure(format!(
                "{what}: element {index} is {got}, not {wanted} with the same bits"
            )));
        }
    }
    Ok(())
}

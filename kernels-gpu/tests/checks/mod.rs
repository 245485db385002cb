//! Checks of kernels against the oracle, in the emulator.
//!
//! Each check takes a [`Run`], so that it can be repeated under other schedules. It returns a description of
//! the failure instead of panicking. The kernels come from the module `kernels` beside this one. The oracle
//! gives the expected results and the tolerance of each element for the layers that a kernel computes. For
//! results that no layer has, such as moments, the check computes both itself.

use std::any::{TypeId, type_name};
use std::fmt;

use cuda_std::emulator::{Buffer, Device, Fault, Launch};
use cuda_std::{Family, KernelArgs, Label, NoInstance, Storage, bf16, f16};
use launch_config::{ElementType, LaunchShape};
use ndarray::{Array1, ArrayD};
use op_spec::graph::{Chain, Layer};
use oracle::data::signed;
use oracle::{Bounded, Case, Expected, Precision};

pub(crate) mod arithmetic;
pub(crate) mod batch_norm;
pub(crate) mod channel_reduction;
pub(crate) mod combine;
pub(crate) mod conv;
pub(crate) mod conv2d_group_norm_scale_max_pool_clamp;
pub(crate) mod conv3d_multiply_instance_norm_clamp_multiply_max;
pub(crate) mod conv_mean;
pub(crate) mod conv_nhwc;
pub(crate) mod conv_pad;
pub(crate) mod conv_transpose;
pub(crate) mod conv_transpose_epilogue;
pub(crate) mod conv_transpose_shuffled;
pub(crate) mod convolved;
pub(crate) mod copy_rows;
pub(crate) mod copy_strided;
pub(crate) mod counted;
pub(crate) mod depthwise;
pub(crate) mod depthwise_nan;
pub(crate) mod draws;
pub(crate) mod draws_pools;
pub(crate) mod elementwise;
pub(crate) mod far;
pub(crate) mod far_norms;
pub(crate) mod far_pools;
pub(crate) mod far_products;
pub(crate) mod far_products_nhwc;
pub(crate) mod gate;
pub(crate) mod gemm;
pub(crate) mod implicit_gemm;
pub(crate) mod implicit_gemm_channels_last;
pub(crate) mod implicit_gemm_corners;
mod implicit_gemm_launch;
mod implicit_gemm_lists;
pub(crate) mod implicit_gemm_nan;
pub(crate) mod implicit_gemm_reduced;
pub(crate) mod implicit_gemm_without_norm;
pub(crate) mod layer_norm_rows;
pub(crate) mod max_pool2d;
pub(crate) mod norm;
pub(crate) mod norm_f32_affine;
pub(crate) mod norm_nhwc;
pub(crate) mod one_launch_corners;
pub(crate) mod one_launch_nan;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod reduction_nhwc;
pub(crate) mod row_reduction;
mod rows;
pub(crate) mod softmax;
pub(crate) mod upsample;
pub(crate) mod warp_specialized_tiles;

/// The reason of a failed check: the emulator's report or a description of the difference.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Failure {
    /// A failure with this description.
    pub(crate) fn new(what: String) -> Self {
        Self(what)
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

/// The result of a check.
pub(crate) type Outcome = Result<(), Failure>;

/// A step limit above the need of any check, low enough to end a kernel that hangs.
const STEP_LIMIT: u64 = 1 << 30;

/// An emulated device, and the order in which it runs threads and blocks.
pub(crate) struct Run {
    device: Device,
    seed: Option<u64>,
}

impl Run {
    /// A run in natural order, or in an order shuffled by `seed`.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            device: Device::new(),
            seed,
        }
    }

    /// Selects variants of check `what` that differ in arithmetic and hardly in their memory accesses. In
    /// natural order all of them run. In a shuffled order one of them runs, which depends on the check.
    pub(crate) fn variants<'a, V>(&self, what: &str, all: &'a [V]) -> &'a [V] {
        match (self.seed, all.len()) {
            (None, _) | (_, 0) => all,
            (Some(_), len) => {
                let one = what.bytes().map(usize::from).sum::<usize>() % len;
                &all[one..=one]
            }
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

    /// An uninitialised tensor.
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
        // SAFETY: kernels access memory through views, which the emulator checks.
        unsafe {
            self.device
                .launch_instance(kernel, &self.launch_of(shape), arguments)?
        };
        Ok(())
    }

    /// All blocks of a launch, in this run's order.
    fn launch_of(&self, shape: LaunchShape) -> Launch {
        Launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            cluster_blocks: shape.cluster_blocks,
            seed: self.seed,
            step_limit: STEP_LIMIT,
            catch_signals: true,
            ..Launch::default()
        }
    }
}

/// Memory of the emulated device with a type.
pub(crate) struct Tensor<T> {
    buffer: Buffer,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Storage> Tensor<T> {
    /// A pointer to the first element, for a kernel to write.
    pub(crate) fn ptr<P>(&self) -> *mut P {
        self.buffer.ptr()
    }

    /// A pointer to the first element, for a kernel to read.
    pub(crate) fn source<P>(&self) -> *const P {
        self.ptr::<P>().cast_const()
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reads the tensor's bytes.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; self.len * size_of::<T>()];
        self.buffer.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the tensor's values as f32.
    pub(crate) fn values(&self) -> Result<Vec<f32>, Failure> {
        Ok(self
            .bytes()?
            .chunks_exact(size_of::<T>())
            .map(|bytes| value::<T>(bytes).to_f32())
            .collect())
    }
}

/// The tensor's pointer, or null without a tensor.
pub(crate) fn optional<T: Storage, P>(tensor: Option<&Tensor<T>>) -> *const P {
    tensor.map_or(std::ptr::null(), Tensor::source)
}

/// The label of kernels that store `T`.
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
    // SAFETY: `Storage` types are plain data without padding.
    unsafe { std::slice::from_raw_parts((&raw const value).cast(), size_of::<T>()) }.to_vec()
}

/// The stored value with these bytes.
fn value<T: Storage>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: the slice has `size_of::<T>()` bytes, and every bit pattern is a valid `T`.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// `x`, rounded to `T`.
pub(crate) fn stored<T: Storage>(x: f32) -> f32 {
    T::from_f32(x).to_f32()
}

/// The `ElementType` of `T`.
pub(crate) fn element_type<T: Storage>() -> ElementType {
    match label::<T>() {
        Label::Name("f16") => ElementType::F16,
        Label::Name("bf16") => ElementType::BF16,
        _ => ElementType::F32,
    }
}

/// A case of layers, with values in `[-1, 1)` that `T` holds exactly. The input has seed 1, parameters have
/// the seeds after that, and further inputs have seeds from 1,001 on.
pub(crate) fn case<T: Storage>(layers: impl IntoIterator<Item = Layer>, input: &[usize]) -> Case {
    let chain = Chain::new(input[1], layers).expect("layers that fit");
    let shapes = chain.parameters().iter().map(|of| of.shape.as_slice());
    let problem = chain.problem(input).expect("an input that fits");
    let inputs = problem.inputs.iter().map(|of| of.shape.as_slice());
    let case = Case {
        name: format!("{} of {input:?}", chain.operators()),
        x: signed(1, input),
        parameters: (2..)
            .zip(shapes)
            .map(|(seed, of)| signed(seed, of))
            .collect(),
        inputs: (1001..)
            .zip(inputs)
            .map(|(seed, of)| signed(seed, of))
            .collect(),
        graph: chain.into(),
    };
    case.rounded(stored::<T>)
}

/// A case's tensors on a device. In `parameters`, further inputs follow the parameters.
pub(crate) struct Loaded<T> {
    pub(crate) x: Tensor<T>,
    pub(crate) parameters: Vec<Tensor<T>>,
}

impl Run {
    /// Loads the case's tensors to the device.
    pub(crate) fn load<T: Storage>(&self, case: &Case) -> Result<Loaded<T>, Failure> {
        let tensor = |values: &ArrayD<f32>| {
            let values: Vec<f32> = values.iter().copied().collect();
            self.tensor(&values)
        };
        Ok(Loaded {
            x: tensor(&case.x)?,
            parameters: case
                .parameters
                .iter()
                .chain(&case.inputs)
                .map(tensor)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Run {
    /// Converts an NCHW tensor of `n` samples of `channels` channels to channels-last layout.
    pub(crate) fn channels_last<T: Storage>(
        &self,
        dense: &Tensor<T>,
        n: u64,
        channels: u32,
    ) -> Result<Tensor<T>, Failure> {
        let (n, channels) = (n as usize, channels as usize);
        let (bytes, element) = (dense.bytes()?, size_of::<T>());
        let pixels = dense.len / (n * channels);
        let mut last = Vec::with_capacity(bytes.len());
        for (sample, pixel) in (0..n).flat_map(|n| (0..pixels).map(move |pixel| (n, pixel))) {
            for channel in 0..channels {
                let at = ((sample * channels + channel) * pixels + pixel) * element;
                last.extend_from_slice(&bytes[at..at + element]);
            }
        }
        let tensor = self.empty(dense.len)?;
        tensor.buffer.write(0, &last)?;
        Ok(tensor)
    }
}

/// f32 arithmetic on values that are stored as `T`.
pub(crate) fn precision<T: Storage>() -> Precision {
    match label::<T>() {
        Label::Name("f16") => Precision::F16,
        Label::Name("bf16") => Precision::BF16,
        _ => Precision::F32,
    }
}

/// The oracle's expectation of the case's layers in one kernel that stores `T`.
pub(crate) fn expected<T: Storage>(case: &Case) -> Expected {
    let expected = case.expected_of_one_kernel(&precision::<T>());
    expected.expect("layers that take this input")
}

/// [`expected`], restricted to the elements with these indices.
pub(crate) fn expected_at<T: Storage>(case: &Case, index: &[usize]) -> Expected {
    let all = case.bounded_of_one_kernel(&precision::<T>());
    let all = all.expect("layers that take this input");
    let at = |values: ArrayD<f64>| {
        let values: Vec<f64> = values.into_iter().collect();
        index
            .iter()
            .map(move |&index| values[index])
            .collect::<Array1<_>>()
            .into_dyn()
    };
    let bounded = Bounded {
        values: at(all.values),
        tolerance: at(all.tolerance),
    };
    Expected::new(bounded, &precision::<T>())
}

/// [`expected`] for layers whose only rounding before the store is that of one f32 product. Every bit before
/// the store is then known.
pub(crate) fn rounded_once<T: Storage>(case: &Case) -> Expected {
    let exact = Precision {
        arithmetic: 0.0,
        ..precision::<T>()
    };
    let expected = case.expected_of_one_kernel(&exact);
    let expected = expected.expect("layers that take this input");
    let values = expected.values().expect("all elements").into_iter();
    expected.around(values.map(|y| f64::from(y as f32)).collect(), None)
}

/// Expected values that are known without the oracle, each with its tolerance before rounding to `T`.
pub(crate) fn direct<T: Storage>(wanted: impl IntoIterator<Item = (f64, f64)>) -> Expected {
    let (values, tolerance): (Vec<f64>, Vec<f64>) = wanted.into_iter().unzip();
    let bounded = Bounded {
        values: Array1::from(values).into_dyn(),
        tolerance: Array1::from(tolerance).into_dyn(),
    };
    Expected::new(bounded.stored(&precision::<T>()), &precision::<T>())
}

/// Compares a tensor with its expectation.
pub(crate) fn compare<T: Storage>(what: &str, got: &Tensor<T>, expected: &Expected) -> Outcome {
    match expected.check_elements(&got.values()?) {
        Ok(_) => Ok(()),
        Err(disagreement) => Err(Failure(format!("{what}: {disagreement}"))),
    }
}

/// Compares two tensors bit by bit.
pub(crate) fn same_bits<T: Storage>(what: &str, got: &Tensor<T>, wanted: &Tensor<T>) -> Outcome {
    same(what, got, wanted, |_| false)
}

/// Compares two tensors bit by bit, but treats all NaN as equal: hosts have several NaN where devices have
/// one.
pub(crate) fn same_numbers<T: Storage>(what: &str, got: &Tensor<T>, wanted: &Tensor<T>) -> Outcome {
    same(what, got, wanted, |both| both.iter().all(|x| x.is_nan()))
}

/// Compares two tensors bit by bit, except for values that `equal` accepts.
fn same<T: Storage>(
    what: &str,
    got: &Tensor<T>,
    wanted: &Tensor<T>,
    equal: impl Fn(&[f32; 2]) -> bool,
) -> Outcome {
    let [got, wanted] = [got.bytes()?, wanted.bytes()?];
    assert_eq!(got.len(), wanted.len(), "{what}: other lengths");
    let pairs = got
        .chunks_exact(size_of::<T>())
        .zip(wanted.chunks_exact(size_of::<T>()));
    for (index, (got, wanted)) in pairs.enumerate() {
        if got == wanted {
            continue;
        }
        let both = [got, wanted].map(|bytes| value::<T>(bytes).to_f32());
        if !equal(&both) {
            let [got, wanted] = both;
            return Err(Failure(format!(
                "{what}: element {index} is {got}, not {wanted} with the same bits"
            )));
        }
    }
    Ok(())
}

//! Exchange of tensors with other libraries of the process by
//! [DLPack](https://dmlc.github.io/dlpack/latest/), without copies.
//!
//! Both of DLPack's forms are supported: `DLManagedTensorVersioned` ([`Versioned`]), and the older
//! `DLManagedTensor` ([`Legacy`]), which has neither version nor flags. Their handles are types of the crate
//! [`dlpark`].
//!
//! # Examples
//! ```
//! use convfuse::dlpack::Versioned;
//! use convfuse::{Device, Tensor};
//! use ndarray::array;
//!
//! let stream = Device::cpu().stream()?;
//! let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
//! let lent: Versioned = x.to_dlpack()?;
//! assert_eq!(lent.shape().unwrap(), [2, 2]);
//! // SAFETY: it is this library's own, which keeps its promises.
//! let y = unsafe { Tensor::from_dlpack(&stream, lent)? };
//! assert_eq!(y.to_array::<f32>()?, x.to_array::<f32>()?);
//! # Ok::<(), convfuse::Error>(())
//! ```

pub use dlpark;

use dlpark::ffi::{
    DLDataType, DLDataTypeCode, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPACK_MAJOR_VERSION,
};
use dlpark::metadata::CopiedSlice;
use dlpark::{Builder, DlpackFlags, ManagedBox, ManagedTensorBase};

use crate::device::{DType, Device, Stream, Tensor};
use crate::error::{Error, Result};

const FROM: &str = "from_dlpack";

/// A tensor in DLPack's form with version and flags; the handle owns it.
pub type Versioned = ManagedBox<DLManagedTensorVersioned>;

/// A tensor in DLPack's older form; the handle owns it.
pub type Legacy = ManagedBox<DLManagedTensor>;

/// One of DLPack's two forms.
pub trait Form: ManagedTensorBase + sealed::Sealed + 'static {}

impl Form for DLManagedTensorVersioned {}
impl Form for DLManagedTensor {}

mod sealed {
    use super::{DLManagedTensor, DLManagedTensorVersioned};

    pub trait Sealed {
        /// The major version of the form, if it has one.
        fn major(&self) -> Option<u32>;
    }

    impl Sealed for DLManagedTensorVersioned {
        fn major(&self) -> Option<u32> {
            Some(self.version.major)
        }
    }

    impl Sealed for DLManagedTensor {
        fn major(&self) -> Option<u32> {
            None
        }
    }
}

impl Tensor {
    /// Creates a tensor over another library's memory, with its strides and its offset. The deleter is called
    /// when the owner of [`from_raw_parts`](Self::from_raw_parts) would be dropped. A tensor that is flagged
    /// as read-only cannot be the output of a plan.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] if the memory is not on the stream's device: DLPack's `kDLCPU`, or `kDLCUDA`
    /// with the driver's ordinal of the GPU. [`Error::ForeignDType`] for elements other than f32, f16 and
    /// bf16, or more than one lane; [`Error::ForeignVersion`]; [`Error::ForeignTensor`] for an invalid
    /// description; the errors of [`from_raw_parts`](Self::from_raw_parts).
    ///
    /// # Safety
    /// The producer obeys DLPack, and its deleter may be called on any thread. The memory is used in the
    /// order of `stream`: earlier writes are complete, or queued in that order. All other rules of
    /// [`from_raw_parts`](Self::from_raw_parts) hold, for the producer too.
    pub unsafe fn from_dlpack<M: Form>(stream: &Stream, lent: ManagedBox<M>) -> Result<Tensor> {
        // The version is checked first, because other major versions have other fields.
        if let Some(major) = lent.major()
            && major != DLPACK_MAJOR_VERSION
        {
            return Err(Error::ForeignVersion {
                actual: major,
                expected: DLPACK_MAJOR_VERSION,
            });
        }
        let tensor = lent.tensor();
        on_device(tensor.device, stream.device())?;
        let dtype = dtype_of(tensor.dtype)?;
        let wrong = |error: dlpark::tensor::Error| Error::ForeignTensor {
            operator: FROM,
            error: Box::new(error),
        };
        let is_empty = lent.num_elements().map_err(wrong)? == 0;
        let extents = lent.shape().map_err(wrong)?;
        let shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
        let strides = lent.strides().map_err(wrong)?;
        let strides: Option<Vec<isize>> =
            strides.map(|strides| strides.iter().map(|&stride| stride as isize).collect());
        if tensor.data.is_null() && !is_empty {
            return Err(wrong(dlpark::tensor::Error::NullData));
        }
        let byte_offset = tensor.byte_offset;
        let offset = usize::try_from(byte_offset)
            .map_err(|_| wrong(dlpark::tensor::Error::ByteOffsetOverflow { byte_offset }))?;
        let pointer = tensor.data.wrapping_byte_add(offset);
        let is_read_only = lent.flags().contains(DlpackFlags::READ_ONLY);
        let owner = Box::new(Lender(lent));
        // SAFETY: the caller's promise; and the producer promises that shape and strides stay in memory until
        // the deleter is called.
        let tensor = unsafe {
            let strides = strides.as_deref();
            Tensor::from_raw_parts(stream, pointer, &shape, strides, dtype, owner)?
        };
        Ok(match is_read_only {
            true => tensor.read_only(),
            false => tensor,
        })
    }

    /// Exports the tensor to another library. The result shares and keeps alive the memory. The other library
    /// must not write the elements, as the flag of [`Versioned`] says. It uses them in the order of the
    /// tensor's [`stream`](Self::stream), or after it. The deleter may be called on any thread, once that
    /// work is queued.
    ///
    /// # Errors
    /// The errors of [`as_raw`](Self::as_raw).
    pub fn to_dlpack<M: Form>(&self) -> Result<ManagedBox<M>> {
        let (code, bits) = match self.dtype() {
            DType::F32 => (DLDataTypeCode::FLOAT, 32),
            DType::F16 => (DLDataTypeCode::FLOAT, 16),
            DType::BF16 => (DLDataTypeCode::BFLOAT, 16),
        };
        let pointer = self.as_raw()?;
        let shape: Vec<i64> = self.shape().iter().map(|&extent| extent as i64).collect();
        let strides: Vec<i64> = self.strides().iter().map(|&stride| stride as i64).collect();
        let builder = Builder::new(
            Box::new(Lent(self.clone())),
            CopiedSlice::new(shape, strides),
        )
        .device(name_of(self.device()))
        .dtype(DLDataType::scalar(code, bits));
        // SAFETY: the tensor behind the builder keeps the memory alive, and all elements lie in it.
        let builder = unsafe { builder.data(pointer) };
        let wrong = |error| Error::ForeignTensor {
            operator: "to_dlpack",
            error,
        };
        let builder = builder.flags(DlpackFlags::READ_ONLY);
        let builder = builder.map_err(|error| wrong(Box::new(error)))?;
        builder.try_build().map_err(|error| wrong(Box::new(error)))
    }
}

/// The owner of memory that this library lends to another library.
struct Lent(Tensor);

impl Drop for Lent {
    fn drop(&mut self) {
        // The other library's work in the order of the stream must precede the freeing of the memory.
        self.0.note_earlier_reads(self.0.stream());
    }
}

/// The owner of memory that another library lends to this one.
struct Lender<M: ManagedTensorBase>(
    #[expect(dead_code, reason = "held to be dropped")] ManagedBox<M>,
);

// SAFETY: only the deleter is used, and the caller of `from_dlpack` promised that any thread may call it.
unsafe impl<M: ManagedTensorBase> Send for Lender<M> {}
// SAFETY: as above; a shared reference gives access to nothing.
unsafe impl<M: ManagedTensorBase> Sync for Lender<M> {}

/// Returns DLPack's name of a device.
fn name_of(device: &Device) -> DLDevice {
    let ordinal = device.ordinal();
    ordinal.map_or(DLDevice::CPU, |ordinal| DLDevice::cuda(ordinal as i32))
}

/// Refuses memory of another device.
fn on_device(actual: DLDevice, expected: &Device) -> Result<()> {
    let wanted = name_of(expected);
    if actual.device_type == wanted.device_type && actual.device_id == wanted.device_id {
        return Ok(());
    }
    let (kind, id) = (actual.device_type.0, actual.device_id);
    Err(Error::DeviceMismatch {
        operator: FROM,
        argument: "the tensor",
        actual: format!("DLPack's device of type {kind}, number {id}"),
        expected: expected.to_string(),
    })
}

/// Returns the element type, if this library supports it.
fn dtype_of(dtype: DLDataType) -> Result<DType> {
    match (dtype.code, dtype.bits, dtype.lanes) {
        (DLDataTypeCode::FLOAT, 32, 1) => Ok(DType::F32),
        (DLDataTypeCode::FLOAT, 16, 1) => Ok(DType::F16),
        (DLDataTypeCode::BFLOAT, 16, 1) => Ok(DType::BF16),
        (code, bits, lanes) => Err(Error::ForeignDType {
            code: code.0,
            bits,
            lanes,
        }),
    }
}

#[cfg(test)]
mod tests;

//! Lent and borrowed tensors on the CPU device.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlpark::OpaqueContext;
use dlpark::ffi::{DLDeviceType, DLTensor};
use ndarray::array;

use super::*;
use crate::dtype::{Element, bf16, f16};

fn stream() -> Stream {
    Device::cpu().stream().unwrap()
}

/// Values of another library, which counts how often its deleter is called.
struct Foreign {
    values: Vec<f32>,
    deleted: Arc<AtomicUsize>,
}

// SAFETY: any thread may drop the box.
unsafe impl OpaqueContext for Foreign {
    fn into_raw(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        // SAFETY: the pointer came from `into_raw`, and this is called once.
        let foreign = unsafe { Box::from_raw(raw.cast::<Foreign>()) };
        foreign.deleted.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a foreign tensor with the values 0 to 23, and the count of its deleter's calls.
fn foreign<M: Form>(
    shape: &[i64],
    strides: &[i64],
    change: impl FnOnce(&mut DLTensor),
) -> (ManagedBox<M>, Arc<AtomicUsize>) {
    let deleted = Arc::new(AtomicUsize::new(0));
    let foreign = Foreign {
        values: (0..24u8).map(f32::from).collect(),
        deleted: Arc::clone(&deleted),
    };
    let data = foreign.values.as_ptr().cast_mut().cast();
    let builder = Builder::new(foreign, CopiedSlice::new(shape, strides));
    let builder = builder.dtype(DLDataType::of::<f32>());
    // SAFETY: the tests' shapes and strides stay inside the vector.
    let lent = unsafe { builder.data(data) }.try_build::<M>().unwrap();
    // SAFETY: nobody else has seen the tensor yet; the tests' changes are valid, or refused.
    change(unsafe { (*lent.as_ptr()).tensor_mut() });
    (lent, deleted)
}

fn borrow<M: Form>(lent: ManagedBox<M>) -> Result<Tensor> {
    // SAFETY: `foreign` keeps the promises of a producer.
    unsafe { Tensor::from_dlpack(&stream(), lent) }
}

fn round_trip<T: Element>() {
    let x = Tensor::from_array(&stream(), &array![T::from_f32(1.5)]).unwrap();
    let lent: Versioned = x.to_dlpack().unwrap();
    let y = borrow(lent).unwrap();
    assert_eq!(
        (y.as_raw().unwrap(), y.dtype()),
        (x.as_raw().unwrap(), T::DTYPE)
    );
}

#[test]
fn tensors_of_16_bits_come_back_over_the_same_memory() {
    round_trip::<f16>();
    round_trip::<bf16>();
}

#[test]
fn strides_and_offsets_of_others_are_read_as_they_are() {
    let (lent, deleted) = foreign::<DLManagedTensor>(&[2, 3], &[1, 4], |tensor| {
        tensor.byte_offset = 8;
    });
    let x = borrow(lent).unwrap();
    assert_eq!(x.strides(), [1, 4]);
    let wanted = array![[2.0f32, 6.0, 10.0], [3.0, 7.0, 11.0]].into_dyn();
    assert_eq!(x.to_array::<f32>().unwrap(), wanted);
    let row = x.slice(1..2).unwrap();
    drop(x);
    assert_eq!(deleted.load(Ordering::SeqCst), 0);
    drop(row);
    assert_eq!(deleted.load(Ordering::SeqCst), 1);

    let (lent, _) = foreign::<DLManagedTensorVersioned>(&[4, 2], &[9, 9], |tensor| {
        tensor.strides = std::ptr::null_mut();
    });
    assert_eq!(borrow(lent).unwrap().strides(), [2, 1]);
    let (lent, _) = foreign::<DLManagedTensor>(&[0, 2], &[2, 1], |tensor| {
        tensor.data = std::ptr::null_mut();
    });
    assert_eq!(borrow(lent).unwrap().shape(), [0, 2]);
}

#[test]
fn what_is_no_tensor_of_this_library_is_refused_and_given_back() {
    let refused = |change: fn(&mut DLTensor)| {
        let (lent, deleted) = foreign::<DLManagedTensorVersioned>(&[2, 2], &[2, 1], change);
        let message = borrow(lent).unwrap_err().to_string();
        assert_eq!(deleted.load(Ordering::SeqCst), 1, "{message}");
        message
    };
    assert_eq!(
        refused(|tensor| tensor.device = DLDevice::cuda(1)),
        "from_dlpack: the tensor is on DLPack's device of type 2, number 1, must be on cpu"
    );
    let other = refused(|tensor| tensor.device.device_id = 1);
    assert!(other.contains("type 1, number 1"), "{other}");
    assert_eq!(
        refused(|tensor| tensor.dtype = DLDataType::of::<i32>()),
        "from_dlpack: the tensor has elements of type code 0, 32 bits and 1 lane(s), must be f32 (2, 32, 1), f16 (2, 16, 1) or bf16 (4, 16, 1)"
    );
    let lanes = refused(|tensor| tensor.dtype.lanes = 2);
    assert!(lanes.contains("2 lane(s)"), "{lanes}");
    assert!(refused(|tensor| tensor.data = std::ptr::null_mut()).contains("null"));
    assert!(refused(|tensor| tensor.ndim = -1).contains("ndim is negative"));
    assert!(refused(|tensor| tensor.byte_offset = 2).contains("is no multiple of 4"));
    // SAFETY: the tensor has a first extent.
    let negative = refused(|tensor| unsafe { *tensor.shape = -2 });
    assert!(negative.contains("negative"), "{negative}");

    let (lent, deleted) = foreign::<DLManagedTensorVersioned>(&[2, 2], &[2, 1], |_| ());
    // SAFETY: nobody else has the tensor.
    unsafe { (*lent.as_ptr()).version.major = 9 };
    let message = borrow(lent).unwrap_err().to_string();
    assert_eq!(
        message,
        "from_dlpack: the tensor is of DLPack's major version 9, must be 1"
    );
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn what_is_read_only_is_no_output() {
    let (lent, _) = foreign::<DLManagedTensorVersioned>(&[2, 2], &[2, 1], |_| ());
    let mut x = borrow(lent).unwrap();
    x.overwrite(("test", "tensor"), &array![[1.0f32, 2.0], [3.0, 4.0]])
        .unwrap();
    let lent: Versioned = x.to_dlpack().unwrap();
    assert!(lent.flags().contains(DlpackFlags::READ_ONLY));
    assert_eq!(lent.tensor().device.device_type, DLDeviceType::CPU);
    drop(x);
    let mut y = borrow(lent).unwrap();
    let refused = y.overwrite(("test", "tensor"), &array![[0.0f32, 0.0], [0.0, 0.0]]);
    let message = refused.unwrap_err().to_string();
    assert_eq!(
        message,
        "test: the tensor is over memory that its lender forbids to write"
    );
    assert_eq!(
        y.to_array::<f32>().unwrap(),
        array![[1.0, 2.0], [3.0, 4.0]].into_dyn()
    );
}

#[cfg(feature = "emulator")]
#[test]
fn the_emulator_has_no_addresses_for_others() {
    let stream = Device::emulator().stream().unwrap();
    let x = Tensor::from_array(&stream, &array![1.0f32]).unwrap();
    let refused = x.to_dlpack::<DLManagedTensor>().map(drop);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "emulator has no addresses for others"
    );
}

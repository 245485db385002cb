//! Tensors on the CPU device: lent memory, slices, pinned arrays.

use std::sync::Arc;

use ndarray::{Array, IxDyn, array};

use crate::device::kind::Device;
use crate::device::stream::Stream;
use crate::device::tensor::{Order, Tensor};
use crate::dtype::{DType, Element, f16};

fn stream() -> Stream {
    Device::cpu().stream().unwrap()
}

/// Returns a tensor over a vector's memory, and a weak handle that shows whether the tensor keeps the vector.
fn lent<T: Element>(
    values: Vec<T>,
    first: usize,
    shape: &[usize],
    strides: Option<&[isize]>,
) -> (Tensor, std::sync::Weak<Vec<T>>) {
    let owner = Arc::new(values);
    let weak = Arc::downgrade(&owner);
    let pointer = owner[first..].as_ptr().cast_mut().cast();
    // SAFETY: the tests' shapes and strides stay inside the vector, which the tensor owns.
    let tensor = unsafe {
        Tensor::from_raw_parts(
            &stream(),
            pointer,
            shape,
            strides,
            T::DTYPE,
            Box::new(owner),
        )
    };
    (tensor.unwrap(), weak)
}

#[test]
fn memory_of_others_is_read_where_it_lies_and_given_back() {
    let (x, weak) = lent(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 0, &[2, 3], None);
    let start = weak.upgrade().unwrap().as_ptr();
    assert_eq!(x.as_raw().unwrap().cast(), start.cast_mut());
    let row = x.slice(1..2).unwrap();
    assert_eq!(
        row.as_raw().unwrap().cast(),
        start.wrapping_add(3).cast_mut()
    );
    drop(x);
    assert_eq!(
        row.to_array::<f32>().unwrap(),
        array![[4.0, 5.0, 6.0]].into_dyn()
    );
    assert!(weak.upgrade().is_some());
    drop(row);
    assert!(weak.upgrade().is_none());
}

#[test]
fn strides_may_exchange_repeat_and_reverse() {
    let values: Vec<f16> = (0..24u8).map(|i| f16::from_f32(i.into())).collect();
    let of = |first: usize, shape: [usize; 3], strides: [isize; 3]| {
        let (x, _) = lent(values.clone(), first, &shape, Some(&strides));
        assert!(!x.is_contiguous());
        assert_eq!(x.strides(), strides);
        let wanted = Array::from_shape_fn(IxDyn(&shape), |index| {
            let place = (0..3).map(|axis| index[axis] as isize * strides[axis]);
            values[(first as isize + place.sum::<isize>()) as usize].to_f32()
        });
        assert_eq!(x.to_f32_array().unwrap(), wanted);
        assert_eq!(x.host_f32().unwrap(), wanted);
        let slice = x.slice(1..2).unwrap().to_f32_array().unwrap();
        assert_eq!(slice, wanted.slice_axis(ndarray::Axis(0), (1..2).into()));
    };
    of(0, [2, 3, 4], [12, 1, 3]);
    of(0, [3, 2, 4], [1, 12, 3]);
    of(4, [3, 5, 2], [4, 0, 1]);
    of(23, [2, 3, 4], [-12, -4, -1]);
    of(12, [2, 3, 4], [-12, 4, 1]);
    of(1, [2, 2, 5], [10, 1, 2]);
}

#[test]
fn strides_that_are_none_and_addresses_that_are_none_are_refused() {
    let values = [0f32; 4];
    let refused = |pointer: *const f32, strides: &[isize], shape: &[usize]| {
        // SAFETY: every call is refused, so nothing is read.
        let tensor = unsafe {
            let pointer = pointer.cast_mut().cast();
            let owner = Box::new(());
            Tensor::from_raw_parts(&stream(), pointer, shape, Some(strides), DType::F32, owner)
        };
        tensor.unwrap_err().to_string()
    };
    let start = values.as_ptr();
    assert_eq!(
        refused(start, &[1], &[2, 2]),
        "from_raw_parts: strides has shape [1], must be [2]"
    );
    let odd = start.wrapping_byte_add(2);
    let message = format!(
        "from_raw_parts: address {:#x} is no multiple of 4",
        odd.addr()
    );
    assert_eq!(refused(odd, &[1], &[2]), message);
    let message =
        "cpu: out of memory: 18446744073709551615 bytes requested, more than any address space";
    assert_eq!(refused(start, &[isize::MAX, 1], &[3, 3]), message);
    assert_eq!(refused(start, &[1], &[1 << 62]), message);
    // Few elements, far from each other.
    assert_eq!(refused(start, &[1 << 61], &[2]), message);
}

#[test]
fn a_slice_says_what_it_cannot_be() {
    let x = Tensor::zeros(&stream(), &[3, 2], DType::F32).unwrap();
    let message = x.slice(2..4).unwrap_err().to_string();
    assert_eq!(
        message,
        "slice: the range of axis 0 is 2..4 by 1, must lie within 0..3, by 1 or more"
    );
    assert_eq!(x.slice(3..3).unwrap().shape(), [0, 2]);
}

#[test]
fn views_are_as_aligned_as_the_address_of_their_first_element() {
    for first in 0..8 {
        let (x, _) = lent(vec![0f32; 64], first, &[48], None);
        for start in 0..8 {
            let y = x.slice(start..start + 16).unwrap();
            let is_aligned = y.as_raw().unwrap().addr().is_multiple_of(16);
            assert_eq!(y.order().unwrap() == Order::Dense, is_aligned);
            assert_eq!(y.must_be_aligned(("test", "y")).is_ok(), is_aligned);
            // Kernels read other strides in place only from aligned addresses.
            let y = y.reshape(&[1, 2, 2, 4]).unwrap().permute(&[0, 3, 1, 2]);
            let y = y.unwrap();
            let strides = y.order().unwrap().strides(y.shape());
            assert_eq!(strides.is_some(), is_aligned);
        }
    }
}

#[test]
fn results_are_written_where_a_view_of_lent_memory_begins() {
    let (x, _) = lent(vec![1.0f32; 8], 0, &[8], None);
    let whole = x.on(&stream()).unwrap();
    let mut y = x.slice(3..5).unwrap();
    let computed = Tensor::from_array(&stream(), &array![2.0f32, 3.0]).unwrap();
    // A tensor that others share takes the results' memory and leaves its own unchanged.
    y.clone().assign(computed.clone()).unwrap();
    assert_eq!(
        whole.to_array::<f32>().unwrap(),
        ndarray::Array1::<f32>::ones(8).into_dyn()
    );
    drop((x, whole));
    let start = y.as_raw().unwrap().cast::<f32>();
    y.assign(computed).unwrap();
    // SAFETY: the tensor keeps the eight elements alive, three of them in front of its own.
    let all = unsafe { std::slice::from_raw_parts(start.sub(3), 8) };
    assert_eq!(all, [1.0, 1.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0]);
}

#[test]
fn shapes_are_too_large_even_without_elements() {
    let x = Tensor::zeros(&stream(), &[0, 3], DType::F32).unwrap();
    assert_eq!(x.reshape(&[7, 0]).unwrap().shape(), [7, 0]);
    for shape in [
        &[0, usize::MAX][..],
        &[0, op_spec::MAX_ELEMENTS + 1],
        &[1 << 40, 0, 1 << 40],
    ] {
        assert!(x.reshape(shape).is_err(), "{shape:?}");
        assert!(Tensor::zeros(&stream(), shape, DType::F32).is_err());
    }
}

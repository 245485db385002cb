//! Pinned arrays on the CPU device.

use ndarray::array;

use crate::device::kind::Device;
use crate::device::pinned::PinnedArray;
use crate::device::tensor::Tensor;

#[test]
fn pinned_arrays_hold_what_was_copied() {
    let stream = Device::cpu().stream().unwrap();
    let mut x = PinnedArray::<f32>::zeros(stream.device(), &[2, 2]).unwrap();
    x.view_mut()
        .unwrap()
        .assign(&array![[1.0, 2.0], [3.0, 4.0]].into_dyn());
    let mut tensor = Tensor::from_pinned(&stream, &x).unwrap();
    x.view_mut().unwrap().fill(7.0);
    let mut y = PinnedArray::<f32>::zeros(stream.device(), &[1, 2]).unwrap();
    tensor.slice(1..2).unwrap().copy_to_pinned(&mut y).unwrap();
    assert_eq!(y.view().unwrap(), array![[3.0, 4.0]].into_dyn());
    tensor.copy_from_pinned(&x).unwrap();
    assert_eq!(tensor.to_array::<f32>().unwrap().sum(), 28.0);
    let held = tensor.clone();
    let message = tensor.copy_from_pinned(&x).unwrap_err().to_string();
    assert_eq!(
        message,
        "copy_from_pinned: the tensor is shared with other tensors"
    );
    let message = held.copy_to_pinned(&mut y).unwrap_err().to_string();
    assert_eq!(
        message,
        "copy_to_pinned: the tensor has shape [2, 2], must be [1, 2]"
    );
}

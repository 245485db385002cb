//! Parameters on their way to a device.

use ndarray::{ArrayBase, Data, DataMut, Dimension};

use crate::device::{DType, Element, Stream, Tensor, bf16, f16};
use crate::error::Result;

/// Rounds every element to what `dtype` can hold. A model keeps its parameters as rounded, so that its CPU backend and
/// its kernels compute with the same numbers.
pub(super) fn round_to<S: DataMut<Elem = f32>, D: Dimension>(
    array: &mut ArrayBase<S, D>,
    dtype: DType,
) {
    match dtype {
        DType::F32 => {}
        DType::F16 => array.mapv_inplace(|value| f16::from_f32(value).to_f32()),
        DType::BF16 => array.mapv_inplace(|value| <bf16 as Element>::from_f32(value).to_f32()),
    }
}

/// Uploads an optional parameter.
pub(super) fn upload<S: Data<Elem = f32>, D: Dimension>(
    stream: &Stream,
    array: Option<&ArrayBase<S, D>>,
    dtype: DType,
) -> Result<Option<Tensor>> {
    array
        .map(|array| Tensor::from_f32_array(stream, array, dtype))
        .transpose()
}

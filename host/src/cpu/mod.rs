//! Stand-in.
#![allow(missing_docs)]
use crate::spec::*;
use crate::{reference, weights::*};
use ndarray::*;
fn d<D: Dimension>(x: ArrayView<'_, f32, D>) -> Array<f64, D> {
    x.mapv(f64::from)
}
fn s<D: Dimension>(x: Result<Array<f64, D>, SpecError>) -> Result<Array<f32, D>, SpecError> {
    x.map(|x| x.mapv(|v| v as f32))
}
pub fn clamp(x: ArrayViewD<'_, f32>, p: &ClampSpec) -> Result<ArrayD<f32>, SpecError> {
    s(reference::clamp(d(x).view(), p))
}
pub fn channel_max(x: ArrayViewD<'_, f32>) -> Result<ArrayD<f32>, SpecError> {
    s(reference::channel_max(d(x).view()))
}
pub fn scale(x: ArrayViewD<'_, f32>, f: ArrayView1<'_, f32>) -> Result<ArrayD<f32>, SpecError> {
    s(reference::scale(d(x).view(), d(f).view()))
}
pub fn max_pool2d(x: ArrayView4<'_, f32>, p: &MaxPool2dSpec) -> Result<Array4<f32>, SpecError> {
    s(reference::max_pool2d(d(x).view(), p))
}
pub fn conv2d(
    x: ArrayView4<'_, f32>,
    w: ArrayView4<'_, f32>,
    b: Option<ArrayView1<'_, f32>>,
    p: &Conv2dSpec,
) -> Result<Array4<f32>, SpecError> {
    s(reference::conv2d(
        d(x).view(),
        d(w).view(),
        b.map(d).as_ref().map(|b| b.view()),
        p,
    ))
}
pub fn conv3d(
    x: ArrayView5<'_, f32>,
    w: ArrayView5<'_, f32>,
    b: Option<ArrayView1<'_, f32>>,
    p: &Conv3dSpec,
) -> Result<Array5<f32>, SpecError> {
    s(reference::conv3d(
        d(x).view(),
        d(w).view(),
        b.map(d).as_ref().map(|b| b.view()),
        p,
    ))
}
pub fn group_norm(
    x: ArrayViewD<'_, f32>,
    w: Option<ArrayView1<'_, f32>>,
    b: Option<ArrayView1<'_, f32>>,
    p: &GroupNormSpec,
) -> Result<ArrayD<f32>, SpecError> {
    s(reference::group_norm(
        d(x).view(),
        w.map(d).as_ref().map(|b| b.view()),
        b.map(d).as_ref().map(|b| b.view()),
        p,
    ))
}
pub fn instance_norm(
    x: ArrayViewD<'_, f32>,
    w: Option<ArrayView1<'_, f32>>,
    b: Option<ArrayView1<'_, f32>>,
    p: &InstanceNormSpec,
) -> Result<ArrayD<f32>, SpecError> {
    s(reference::instance_norm(
        d(x).view(),
        w.map(d).as_ref().map(|b| b.view()),
        b.map(d).as_ref().map(|b| b.view()),
        p,
    ))
}
pub fn conv2d_group_norm_scale_max_pool_clamp(
    x: ArrayView4<'_, f32>,
    w: &Conv2dGroupNormScaleMaxPoolClampWeights,
    p: &Conv2dGroupNormScaleMaxPoolClampSpec,
) -> Result<Array4<f32>, SpecError> {
    s(reference::conv2d_group_norm_scale_max_pool_clamp(x, w, p))
}
pub fn conv3d_multiply_instance_norm_clamp_multiply_max(
    x: ArrayView5<'_, f32>,
    w: &Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
    p: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
) -> Result<Array4<f32>, SpecError> {
    s(reference::conv3d_multiply_instance_norm_clamp_multiply_max(
        x, w, p,
    ))
}

//! Norms of 16-bit tensors with weight and bias in f32.

use cuda_std::Storage;
use launch_config::AffineType;
use launch_config::norm::NormGeometry;
use launch_config::pointwise::PointwiseList;
use op_spec::graph::Layer;

use super::super::kernels::fused::group_norm_scale_pointwise::*;
use super::super::kernels::fused::group_norm_scale_resident::*;
use super::super::kernels::layer_norm::LAYER_NORM_APPLY;
use super::norm::{EPS, NORMS, statistics};
use super::{Failure, Loaded, Outcome, Run, label, same_bits};

/// Checks that weight and bias in f32 give the same bits as equal values in the tensor's type.
pub(crate) fn same_bits_as_stored<T: Storage>(run: &Run) -> Outcome {
    for norm in [NORMS[1], NORMS[4]] {
        let case = norm.case::<T>([
            Layer::from(Layer::group_norm("norm", norm.groups)),
            Layer::scale("scale").into(),
        ]);
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let in_f32 = run.load::<f32>(&case)?.parameters;
        let partials = statistics(run, &x, norm.geometry())?;
        let g = norm.geometry().affine(true, true);
        let (x, partials, s) = (x.source(), partials.source(), parameters[2].source());
        let labels = [label::<T>()];
        let mapped = |w, b, g: NormGeometry| {
            let y = run.empty::<T>(norm.len())?;
            let g = g.apply(size_of::<T>() as u32);
            let none = std::ptr::null();
            let arguments = (x, partials, none, w, b, s, y.ptr(), g, PointwiseList::EMPTY);
            run.launch(&GROUP_NORM_SCALE_POINTWISE, &labels, g.shape(), arguments)?;
            Ok::<_, Failure>(y)
        };
        let stored = mapped(parameters[0].source(), parameters[1].source(), g)?;
        let wide = mapped(
            in_f32[0].source(),
            in_f32[1].source(),
            g.with_affine_type(AffineType::F32),
        )?;
        same_bits(&format!("{norm:?}"), &wide, &stored)?;

        let resident = |w, b, g: NormGeometry| {
            let y = run.empty::<T>(norm.len())?;
            let arguments = (x, w, b, s, y.ptr(), g);
            let shape = g.resident_launch(size_of::<T>() as u32);
            run.launch(&GROUP_NORM_SCALE_RESIDENT, &labels, shape, arguments)?;
            Ok::<_, Failure>(y)
        };
        let stored = resident(parameters[0].source(), parameters[1].source(), g)?;
        let wide = resident(
            in_f32[0].source(),
            in_f32[1].source(),
            g.with_affine_type(AffineType::F32),
        )?;
        same_bits(&format!("{norm:?} resident"), &wide, &stored)?;

        let shape = [norm.channels, norm.spatial];
        let case = norm.case::<T>([Layer::from(Layer::layer_norm("norm", &shape))]);
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let in_f32 = run.load::<f32>(&case)?.parameters;
        let elements = (norm.channels * norm.spatial) as u64;
        let g = NormGeometry::new(norm.n as u64, 1, 1, elements, EPS);
        let partials = statistics(run, &x, g)?;
        let layer = |w, b, g: NormGeometry| {
            let y = run.empty::<T>(norm.len())?;
            let g = g.apply(size_of::<T>() as u32);
            let arguments = (x.source(), partials.source(), w, b, y.ptr(), g);
            run.launch(&LAYER_NORM_APPLY, &labels, g.shape(), arguments)?;
            Ok::<_, Failure>(y)
        };
        let stored = layer(parameters[0].source(), parameters[1].source(), g)?;
        let wide = layer(
            in_f32[0].source(),
            in_f32[1].source(),
            g.with_affine_type(AffineType::F32),
        )?;
        same_bits(&format!("{norm:?} of layers"), &wide, &stored)?;
    }
    Ok(())
}

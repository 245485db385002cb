//! Scale, prelu, folding a scale into a norm, and the addition of a residual.

use cuda_std::Storage;
use launch_config::Presence;
use launch_config::elementwise::{ChannelGeometry, fold_shape, shape};
use op_spec::graph::Layer;

use super::super::kernels::fused::fold_scale::FOLD_SCALE;
use super::super::kernels::pointwise::POINTWISE_RESIDUAL;
use super::super::kernels::scale::SCALE;
use super::pointwise::list;
use super::{Loaded, Outcome, Run, case, compare, label, rounded_once};

/// `(n, channels, spatial)`: planes of one element and of a few, planes that are no whole vectors,
/// planes longer than a block, tensors that end inside a vector.
pub(super) const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (3, 5, 1),
    (2, 7, 35),
    (1, 3, 4096),
    (2, 2, 5003),
    (1, 2, 8195),
];

/// Checks every shape, also in place, with NaN and infinities.
pub(crate) fn scale<T: Storage>(run: &Run) -> Outcome {
    for (n, c, spatial) in SHAPES {
        let case = case::<T>([Layer::from(Layer::scale("scale"))], &[n, c, spatial]).special();
        let wanted = rounded_once::<T>(&case);
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let y = run.empty::<T>(case.x.len())?;
        let g = ChannelGeometry::new(n as u64, c as u32, spatial as u64);
        for (y, place) in [(&y, "elsewhere"), (&x, "in place")] {
            let arguments = (
                x.source(),
                parameters[0].source(),
                y.ptr(),
                g,
                f32::INFINITY,
            );
            run.launch(&SCALE, &[label::<T>()], shape(g.elements), arguments)?;
            compare(&format!("{} {place}", case.name), y, &wanted)?;
        }
    }
    Ok(())
}

/// Checks every shape with a slope for each channel and with one for all, also in place, with NaN and
/// infinities.
pub(crate) fn prelu<T: Storage>(run: &Run) -> Outcome {
    for (n, c, spatial) in SHAPES {
        for slopes in [c, 1] {
            let layer = Layer::from(Layer::prelu("prelu", slopes));
            let case = case::<T>([layer], &[n, c, spatial]).special();
            let wanted = rounded_once::<T>(&case);
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let y = run.empty::<T>(case.x.len())?;
            let g = match slopes {
                1 => ChannelGeometry::new(1, 1, case.x.len() as u64),
                _ => ChannelGeometry::new(n as u64, c as u32, spatial as u64),
            };
            for (y, place) in [(&y, "elsewhere"), (&x, "in place")] {
                let arguments = (x.source(), parameters[0].source(), y.ptr(), g, 0.0);
                run.launch(&SCALE, &[label::<T>()], shape(g.elements), arguments)?;
                compare(&format!("{} {slopes} {place}", case.name), y, &wanted)?;
            }
        }
    }
    Ok(())
}

/// Checks every shape, into a third tensor, into either operand, and of a tensor with itself, with NaN and
/// infinities.
pub(crate) fn add<T: Storage>(run: &Run) -> Outcome {
    for (n, c, spatial) in SHAPES {
        let case = case::<T>([Layer::add("residual")], &[n, c, spatial]).special();
        let wanted = rounded_once::<T>(&case);
        let mut doubled = case.clone();
        doubled.inputs = vec![doubled.x.clone()];
        let len = case.x.len();
        for place in ["elsewhere", "into x", "into the residual", "of x and x"] {
            let Loaded {
                x,
                parameters: inputs,
            } = run.load::<T>(&case)?;
            let fresh = run.empty::<T>(len)?;
            let (residual, y, wanted) = match place {
                "elsewhere" => (&inputs[0], &fresh, &wanted),
                "into x" => (&inputs[0], &x, &wanted),
                "into the residual" => (&inputs[0], &inputs[0], &wanted),
                _ => (&x, &fresh, &rounded_once::<T>(&doubled)),
            };
            let list = list(&[Layer::add("residual")]);
            let arguments = (x.source(), residual.source(), y.ptr(), len as u64, list);
            run.launch(
                &POINTWISE_RESIDUAL,
                &[label::<T>()],
                shape(len as u64),
                arguments,
            )?;
            compare(&format!("{} {place}", case.name), y, wanted)?;
        }
    }
    Ok(())
}

/// Checks folds with and without weight and bias, each of which results in the scale of a plane of one
/// element.
pub(crate) fn fold<T: Storage>(run: &Run) -> Outcome {
    let channels = 131;
    for (has_weight, has_bias) in [(true, true), (true, false), (false, true), (false, false)] {
        let weight = case::<T>([Layer::from(Layer::scale("scale"))], &[1, channels]);
        let mut bias = weight.clone();
        bias.x.mapv_inplace(|weight| weight * 0.5);
        let loaded = [run.load::<T>(&weight)?, run.load::<T>(&bias)?];
        let [w, b] = [0, 1].map(|_| run.empty::<T>(channels));
        let (w, b) = (w?, b?);
        let arguments = (
            loaded[0].x.source(),
            loaded[1].x.source(),
            loaded[0].parameters[0].source(),
            w.ptr(),
            b.ptr(),
            channels as u32,
            Presence::of(has_weight),
            Presence::of(has_bias),
        );
        let shape = fold_shape(channels as u32);
        run.launch(&FOLD_SCALE, &[label::<T>()], shape, arguments)?;
        let sides = [
            (weight, has_weight, 1.0, w, "weight"),
            (bias, has_bias, 0.0, b, "bias"),
        ];
        for (mut case, has, absent, folded, what) in sides {
            if !has {
                case.x.fill(absent);
            }
            compare(
                &format!("folded {what}"),
                &folded,
                &rounded_once::<T>(&case),
            )?;
        }
    }
    Ok(())
}

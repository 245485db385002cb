//! Norms: the statistics, the elementwise pass with its fused layers, and the kernel that does both.

use cuda_std::{Label, Storage};
use launch_config::elementwise::ROUND_ELEMENTS;
use launch_config::norm::NormGeometry;
use launch_config::pointwise::PointwiseList;
use launch_config::reciprocal::Reciprocal;
use ndarray::Axis;
use op_spec::graph::Layer;
use oracle::Case;

use super::super::kernels::fused::group_norm_scale_pointwise::*;
use super::super::kernels::fused::group_norm_scale_resident::*;
use super::super::kernels::group_norm::*;
use super::super::kernels::layer_norm::LAYER_NORM_APPLY;
use super::pointwise::list;
use super::{
    Failure, Loaded, Outcome, Run, Tensor, case, compare, direct, expected, expected_at, label,
    optional, same_bits, stored,
};

/// A normalised tensor: `n`, channels, groups, elements of a plane, and the shift of the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm {
    pub(crate) n: usize,
    pub(crate) channels: usize,
    pub(crate) groups: usize,
    pub(crate) spatial: usize,
    pub(crate) shift: f32,
}

const fn norm(n: usize, channels: usize, groups: usize, spatial: usize, shift: f32) -> Norm {
    Norm {
        n,
        channels,
        groups,
        spatial,
        shift,
    }
}

/// Rows of one element, of a few, of a warp's length, of a block's, of two and three splits; rows
/// that start anywhere in a vector; means far from zero.
pub(crate) const NORMS: [Norm; 9] = [
    norm(5, 3, 3, 1, 0.0),
    norm(3, 12, 4, 7, 0.0),
    norm(2, 6, 3, 101, 1000.0),
    norm(2, 4, 4, 1024, 0.0),
    norm(3, 3, 1, 345, 0.0),
    norm(1, 6, 2, 1367, -300.0),
    norm(2, 2, 1, 4099, 0.0),
    norm(1, 2, 2, 9001, 1000.0),
    norm(2, 3, 1, 6667, 100.0),
];

pub(crate) const EPS: f32 = 1e-5;

impl Norm {
    /// Elements of the tensor.
    pub(crate) fn len(&self) -> usize {
        self.n * self.channels * self.spatial
    }

    /// A case of layers that begin with the norm, or with a scale before it.
    pub(crate) fn case<T: Storage>(&self, layers: impl IntoIterator<Item = Layer>) -> Case {
        let case = case::<T>(layers, &[self.n, self.channels, self.spatial]);
        case.shifted(self.shift).rounded(stored::<T>)
    }

    /// The norm itself.
    fn layer(&self) -> Layer {
        Layer::group_norm("norm", self.groups).into()
    }

    /// The kernels' geometry.
    pub(crate) fn geometry(&self) -> NormGeometry {
        let (channels, groups) = (self.channels as u32, self.groups as u32);
        NormGeometry::new(self.n as u64, channels, groups, self.spatial as u64, EPS)
    }
}

/// Launches the statistics kernel for `x`.
pub(crate) fn statistics<T: Storage>(
    run: &Run,
    x: &Tensor<T>,
    g: NormGeometry,
) -> Result<Tensor<f32>, Failure> {
    let partials = run.empty::<f32>(g.partial_elements() as usize)?;
    let arguments = (x.source(), partials.ptr(), g);
    run.launch(
        &GROUP_NORM_STATS,
        &[label::<T>()],
        g.stats_shape(),
        arguments,
    )?;
    Ok(partials)
}

/// Checks norms with and without weight and bias, alone and with a scale after it.
pub(crate) fn group_norm<T: Storage>(run: &Run) -> Outcome {
    let norms = match label::<T>() {
        Label::Name("f32") => &NORMS[..],
        Label::Name("f16") => &NORMS[1..2],
        _ => &NORMS[4..5],
    };
    for norm in norms {
        for (with_weight, with_bias) in [(true, true), (false, false), (true, false)] {
            let absent = |mut case: Case| {
                if !with_weight {
                    case.parameters[0].fill(1.0);
                }
                if !with_bias {
                    case.parameters[1].fill(0.0);
                }
                case
            };
            let alone = absent(norm.case::<T>([norm.layer()]));
            let scaled = absent(norm.case::<T>([norm.layer(), Layer::from(Layer::scale("scale"))]));
            let Loaded { x, parameters } = run.load::<T>(&scaled)?;
            let partials = statistics(run, &x, norm.geometry())?;
            let apply = norm.geometry().affine(with_weight, with_bias);
            let apply = apply.apply(size_of::<T>() as u32);
            let what = format!("{norm:?} {with_weight} {with_bias}");
            let w = optional(with_weight.then_some(&parameters[0]));
            let b = optional(with_bias.then_some(&parameters[1]));
            let y = run.empty::<T>(norm.len())?;
            let (labels, shape) = ([label::<T>()], apply.shape());
            let (x, partials) = (x.source(), partials.source());
            let (none, list) = (std::ptr::null(), PointwiseList::EMPTY);
            let arguments = (x, partials, none, w, b, none, y.ptr(), apply, list);
            run.launch(&GROUP_NORM_SCALE_POINTWISE, &labels, shape, arguments)?;
            compare(&what, &y, &expected::<T>(&alone))?;

            let y = run.empty::<T>(norm.len())?;
            let scale = parameters[2].source();
            let arguments = (x, partials, none, w, b, scale, y.ptr(), apply, list);
            run.launch(&GROUP_NORM_SCALE_POINTWISE, &labels, shape, arguments)?;
            compare(&format!("{what} and scale"), &y, &expected::<T>(&scaled))?;
        }
    }
    Ok(())
}

/// Planes so short that a vector crosses up to four of them, planes of whole vectors, and planes that no
/// vector fits; with the elements of a plane that remain after pooling. Vectors cross planes, rows and
/// samples, and the last one is partial. One row has more than two splits for each lane of a warp.
const POOLED: [(Norm, usize); 9] = [
    (norm(181, 6, 3, 4, 0.0), 1),
    (norm(87, 6, 2, 3, 0.0), 2),
    (norm(75, 5, 5, 3, 10.0), 3),
    (norm(70, 6, 3, 7, 0.0), 4),
    (norm(73, 6, 1, 6, 0.0), 5),
    (norm(31, 7, 7, 25, -5.0), 25),
    (norm(5, 3, 1, 1025, 0.0), 1021),
    (norm(1, 2, 1, 9001, 0.0), 4099),
    (norm(1, 2, 1, 300_001, 0.0), 3),
];

/// Checks norms with the statistics of longer planes, followed by a scale and functions, with blocks of every
/// number of rounds.
pub(crate) fn functions<T: Storage>(run: &Run) -> Outcome {
    let cases = match label::<T>() {
        Label::Name("f32") => &POOLED[..],
        _ => &POOLED[2..],
    };
    for &(norm, spatial) in cases {
        let functions = [
            Layer::silu(),
            Layer::add("residual"),
            Layer::clamp(-0.125, 0.5),
        ];
        let layers = [norm.layer(), Layer::from(Layer::scale("scale"))];
        let case = norm.case::<T>(layers.into_iter().chain(functions.clone()));
        let left = |index: &usize| index % norm.spatial < spatial;
        let left: Vec<usize> = (0..norm.len()).filter(left).collect();
        let wanted = expected_at::<T>(&case, &left);
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let partials = statistics(run, &x, norm.geometry())?;
        let values: Vec<f32> = case.x.iter().copied().collect();
        let of_left = |values: &[f32]| {
            left.iter()
                .map(|&index| values[index])
                .collect::<Vec<f32>>()
        };
        let pooled = of_left(&values);
        let x = run.tensor::<T>(&pooled)?;
        let residual: Vec<f32> = case.inputs[0].iter().copied().collect();
        let residual = run.tensor::<T>(&of_left(&residual))?;
        let [w, b, s] = [0, 1, 2].map(|index| parameters[index].source());
        let mut first: Option<Tensor<T>> = None;
        for (rounds, near) in [
            (1, true),
            (2, true),
            (3, true),
            (4, true),
            (8, true),
            (16, true),
            (1, false),
        ] {
            let g = norm.geometry().affine(true, true);
            let mut g = g.pooled(spatial as u64, size_of::<T>() as u32);
            g.block_elements = rounds * ROUND_ELEMENTS as u32;
            if g.shape().is_none_or(|shape| shape.shared_bytes > 48 << 10) {
                continue;
            }
            // Tests are too small for far planes. So the limit of near ones is lowered as far as possible.
            if !near && spatial as u32 > g.block_elements {
                g.near = Reciprocal::of(g.block_elements);
            }
            let y = run.empty::<T>(pooled.len())?;
            let (x, partials, none) = (x.source(), partials.source(), std::ptr::null());
            let list = list(&functions);
            let residual = residual.source();
            let arguments = (x, partials, none, w, b, s, residual, y.ptr(), g, list);
            let family = &GROUP_NORM_SCALE_POINTWISE_RESIDUAL;
            run.launch(family, &[label::<T>()], g.shape(), arguments)?;
            let what =
                format!("{norm:?} pooled to {spatial}, {rounds} rounds a block, near {near}");
            compare(&what, &y, &wanted)?;
            match &first {
                Some(first) => same_bits(&what, &y, first)?,
                None => first = Some(y),
            }
        }
    }
    Ok(())
}

/// Checks channels that are multiplied before their norm, with statistics of the unscaled values, whole and
/// in splits.
pub(crate) fn multiplied_before<T: Storage>(run: &Run) -> Outcome {
    for norm in [
        norm(3, 5, 5, 31, 2.0),
        norm(2, 3, 3, 1367, -3.0),
        norm(2, 2, 2, 9001, 1.0),
    ] {
        let layers = [
            Layer::from(Layer::scale("scale")),
            norm.layer(),
            Layer::relu(),
        ];
        let mut case = norm.case::<T>(layers);
        case.parameters[0][[1]] = 0.0;
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let [before, w, b] = [0, 1, 2].map(|index| parameters[index].source());
        let g = norm.geometry().affine(true, true);
        let partials = statistics(run, &x, g)?;
        let g = g.apply(size_of::<T>() as u32);
        let y = run.empty::<T>(norm.len())?;
        let (x, partials, none) = (x.source(), partials.source(), std::ptr::null());
        let list = list(&[Layer::relu()]).functions;
        // Also in place, with the same bits.
        let arguments = (x, partials, before, w, b, none, y.ptr(), g, list);
        let family = &GROUP_NORM_SCALE_POINTWISE;
        run.launch(family, &[label::<T>()], g.shape(), arguments)?;
        compare(&format!("{norm:?}"), &y, &expected::<T>(&case))?;
        let z = run.load::<T>(&case)?.x;
        let arguments = (z.source(), partials, before, w, b, none, z.ptr(), g, list);
        run.launch(family, &[label::<T>()], g.shape(), arguments)?;
        same_bits(&format!("{norm:?} in place"), &z, &y)?;
    }
    Ok(())
}

/// Checks slopes after a norm, one for each channel and one for all, on planes that are not whole vectors,
/// followed by functions.
pub(crate) fn slopes<T: Storage>(run: &Run) -> Outcome {
    for norm in [
        norm(5, 3, 3, 1, 0.0),
        norm(3, 12, 4, 7, 0.0),
        norm(2, 3, 1, 1367, 2.0),
    ] {
        for num_parameters in [norm.channels, 1] {
            let prelu = Layer::prelu("prelu", num_parameters);
            let case = norm.case::<T>([norm.layer(), prelu.into(), Layer::tanh()]);
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let [w, b, s] = [0, 1, 2].map(|index| parameters[index].source());
            let g = norm.geometry().affine(true, true);
            let partials = statistics(run, &x, g)?;
            let g = g.apply(size_of::<T>() as u32).with_slopes(num_parameters);
            let y = run.empty::<T>(norm.len())?;
            let (x, partials, none) = (x.source(), partials.source(), std::ptr::null());
            let list = list(&[Layer::tanh()]).functions;
            let arguments = (x, partials, none, w, b, s, y.ptr(), g, list);
            let family = &GROUP_NORM_SCALE_POINTWISE;
            run.launch(family, &[label::<T>()], g.shape(), arguments)?;
            let what = format!("{norm:?} and {num_parameters} slopes");
            compare(&what, &y, &expected::<T>(&case))?;
        }
    }
    Ok(())
}

/// Rows kept in shared memory: whole planes and parts of vectors, a row whose whole vectors just fit, and one
/// that does not fit.
const RESIDENT: [Norm; 3] = [
    norm(2, 4, 2, 4099, 0.0),
    norm(1, 6, 3, 1025, 1000.0),
    norm(1, 3, 1, 20_001, -10.0),
];

/// Checks the resident kernel with and without weight and bias, with a weight alone, and with a scale.
pub(crate) fn resident<T: Storage>(run: &Run) -> Outcome {
    let norms = match label::<T>() {
        Label::Name("f32") => &RESIDENT[..],
        _ => &RESIDENT[..1],
    };
    for norm in norms {
        for [has_weight, has_bias] in [[true; 2], [false; 2], [true, false]] {
            let mut case = norm.case::<T>([norm.layer(), Layer::from(Layer::scale("scale"))]);
            for (index, (has, absent)) in
                [(has_weight, 1.0), (has_bias, 0.0)].into_iter().enumerate()
            {
                if !has {
                    case.parameters[index].fill(absent);
                }
            }
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let g = norm.geometry().affine(has_weight, has_bias);
            let y = run.empty::<T>(norm.len())?;
            let w = optional(has_weight.then_some(&parameters[0]));
            let b = optional(has_bias.then_some(&parameters[1]));
            let arguments = (x.source(), w, b, parameters[2].source(), y.ptr(), g);
            let shape = g.resident_launch(size_of::<T>() as u32);
            let family = &GROUP_NORM_SCALE_RESIDENT;
            run.launch(family, &[label::<T>()], shape, arguments)?;
            let what = format!("{norm:?} weight {has_weight}, bias {has_bias}");
            compare(&what, &y, &expected::<T>(&case))?;
        }
    }
    Ok(())
}

/// Checks that constant rows, which have no deviation, give the bias, to the last bit.
pub(crate) fn constant_rows_give_the_bias(run: &Run) -> Outcome {
    for norm in NORMS {
        let mut case = norm.case::<f32>([norm.layer()]);
        case.x.fill(1234.567);
        let Loaded { x, parameters } = run.load::<f32>(&case)?;
        let g = norm.geometry().affine(false, true);
        let partials = statistics(run, &x, g)?;
        let y = run.empty::<f32>(norm.len())?;
        let (x, partials, bias) = (x.source(), partials.source(), parameters[1].source());
        let apply = g.apply(4);
        let (none, list) = (std::ptr::null(), PointwiseList::EMPTY);
        let arguments = (x, partials, none, none, bias, none, y.ptr(), apply, list);
        let family = &GROUP_NORM_SCALE_POINTWISE;
        run.launch(family, &[label::<f32>()], apply.shape(), arguments)?;
        let of = |index: usize| case.parameters[1][index / norm.spatial % norm.channels];
        let wanted = (0..norm.len()).map(|index| (f64::from(of(index)), 0.0));
        compare(&format!("{norm:?}"), &y, &direct::<f32>(wanted))?;
    }
    Ok(())
}

/// Checks that the statistics of equal samples have the same bits at any place in a batch, also if rows are
/// not whole vectors.
pub(crate) fn at_any_place<T: Storage>(run: &Run) -> Outcome {
    const SAMPLES: usize = 4;
    for (channels, spatial) in [(1, 37), (3, 345), (1, 9001)] {
        let norm = norm(SAMPLES, channels, 1, spatial, 10.0);
        let mut case = norm.case::<T>([norm.layer()]);
        let first = case.x.index_axis(Axis(0), 0).to_owned();
        for mut sample in case.x.outer_iter_mut() {
            sample.assign(&first);
        }
        let x = run.load::<T>(&case)?.x;
        let values = statistics(run, &x, norm.geometry())?.values()?;
        let (first, others) = values.split_at(values.len() / SAMPLES);
        for other in others.chunks(first.len()) {
            assert_eq!(other, first, "{norm:?}");
        }
    }
    Ok(())
}

/// The statistics of a row, to the last bit, in a batch of `n`.
pub(crate) fn first_row_in_a_batch_of(run: &Run, n: usize) -> Result<Vec<f32>, Failure> {
    let norm = norm(n, 4, 2, 9001, 10.0);
    let x = run.load::<f32>(&norm.case::<f32>([norm.layer()]))?.x;
    let g = norm.geometry();
    let partials = statistics(run, &x, g)?;
    let mut values = partials.values()?;
    values.truncate(2 * g.splits as usize);
    Ok(values)
}

/// Checks layer norms of samples as rows, with weight and bias of each element; with one of them alone, the
/// other being 1 or 0; and in place.
pub(crate) fn layer_norm<T: Storage>(run: &Run) -> Outcome {
    for norm in NORMS {
        let shape = [norm.channels, norm.spatial];
        let case = norm.case::<T>([Layer::from(Layer::layer_norm("norm", &shape))]);
        let elements = (norm.channels * norm.spatial) as u64;
        let g = NormGeometry::new(norm.n as u64, 1, 1, elements, EPS);
        for [has_weight, has_bias] in [[true, true], [true, false], [false, true]] {
            let mut case = case.clone();
            if !has_weight {
                case.parameters[0].fill(1.0);
            }
            if !has_bias {
                case.parameters[1].fill(0.0);
            }
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let partials = statistics(run, &x, g)?;
            let wanted = expected::<T>(&case);
            let y = run.empty::<T>(norm.len())?;
            let weight = optional(has_weight.then_some(&parameters[0]));
            let bias = optional(has_bias.then_some(&parameters[1]));
            for (y, place) in [(&y, "elsewhere"), (&x, "in place")] {
                let apply = g.apply(size_of::<T>() as u32);
                let arguments = (x.source(), partials.source(), weight, bias, y.ptr(), apply);
                run.launch(&LAYER_NORM_APPLY, &[label::<T>()], apply.shape(), arguments)?;
                compare(&format!("{} {norm:?} {place}", case.name), y, &wanted)?;
            }
        }
    }
    Ok(())
}

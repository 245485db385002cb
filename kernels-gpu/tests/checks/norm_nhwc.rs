//! Norms of channels-last tensors.

use std::ptr::null;

use cuda_std::Storage;
use launch_config::batch_norm::FoldGeometry;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry};
use launch_config::norm_nhwc::NormNhwcGeometry;
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence};
use op_spec::graph::{Layer, LayerProblem};

use super::super::kernels::norm_nhwc::{NORM_NHWC, NORM_NHWC_MOMENTS};
use super::combine;
use super::pointwise::list;
use super::{
    Failure, Loaded, Outcome, Run, Tensor, case, compare, expected, label, optional, same_bits,
    stored,
};

/// Input and groups: one vector, and one pixel more than a thread takes at a time; rows that end within
/// vectors; threads without channels, and one pixel more than a part; two parts, the last one partial; more
/// vectors than a block has; a row for each channel.
const ROWS: [(&[usize], usize); 6] = [
    (&[3, 4, 3, 3], 1),
    (&[2, 12, 5, 5], 6),
    (&[1, 320, 97], 32),
    (&[2, 24, 29, 23], 2),
    (&[2, 1032, 2, 17], 3),
    (&[2, 8, 3, 17, 43], 8),
];

/// Checks every row with weight and bias, and with the same values in f32; then without them, through a list
/// with a residual.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (input, groups) in ROWS {
        let (n, c) = (input[0] as u64, input[1] as u32);
        let spatial = input[2..].iter().product::<usize>() as u64;
        let last = |tensor| run.channels_last::<T>(tensor, n, c);
        let dense = |tensor| run.channels_last::<T>(tensor, n, spatial as u32);
        let norm = NormGeometry::new(n, c, groups as u32, spatial, 1e-5);

        let affine = case::<T>([Layer::from(Layer::group_norm("norm", groups))], input);
        let Loaded { x, parameters } = run.load::<T>(&affine)?;
        let with_both = norm.affine(true, true);
        let given = [parameters.first(), parameters.get(1)];
        let none = (OperandList::EMPTY, None);
        let of = |norm| NormNhwcGeometry::statistics(norm).expect("whole vectors");
        let y = normalised(run, &of(&with_both), &last(&x)?, given, none)?;
        compare(&affine.name, &dense(&y)?, &expected::<T>(&affine))?;
        // Many parts, as in large samples, which end within the pixels that a thread takes at a time.
        let part_pixels = 7;
        let parts = NormNhwcGeometry {
            part_pixels,
            parts: (spatial as u32).div_ceil(part_pixels),
            ..of(&with_both)
        };
        let by_parts = normalised(run, &parts, &last(&x)?, given, none)?;
        compare(&affine.name, &dense(&by_parts)?, &expected::<T>(&affine))?;
        let in_f32 = run.load::<f32>(&affine)?.parameters;
        let given = [in_f32.first(), in_f32.get(1)];
        let wide = with_both.with_affine_type(AffineType::F32);
        let wide = normalised(run, &of(&wide), &last(&x)?, given, none)?;
        same_bits(&affine.name, &wide, &y)?;

        let functions = [Layer::silu(), Layer::add("residual"), Layer::mul(0.5)];
        let alone = Layer::from(Layer::group_norm("norm", groups).affine(false));
        let listed = case::<T>([&[alone], &functions[..]].concat(), input);
        let Loaded { x, parameters } = run.load::<T>(&listed)?;
        let residual = last(&parameters[0])?;
        let through = (list(&functions), Some(&residual));
        let y = normalised::<T, T>(run, &of(&norm), &last(&x)?, [None, None], through)?;
        compare(&listed.name, &dense(&y)?, &expected::<T>(&listed))?;
    }
    Ok(())
}

/// Checks batch norms with running statistics of either type, with a list and a residual, and without weight
/// and bias.
pub(crate) fn of_running_statistics<T: Storage>(run: &Run) -> Outcome {
    for (input, has_affine) in [(&[3, 12, 5, 7][..], true), (&[1, 1032, 41], false)] {
        let (n, c) = (input[0] as u64, input[1] as u32);
        let spatial = input[2..].iter().product::<usize>() as u64;
        let functions = [Layer::silu(), Layer::add("residual")];
        let layer = Layer::from(Layer::batch_norm("norm").eps(1e-3).affine(has_affine));
        let mut case = case::<T>([&[layer], &functions[..]].concat(), input);
        case.parameters[1].mapv_inplace(|v| stored::<T>(v.abs() + 0.1));
        let problem = case.problem().expect("a sound problem").steps[0].problem;
        let LayerProblem::BatchNorm(problem) = problem else {
            unreachable!("a batch norm")
        };
        let fold = FoldGeometry::of(&problem).expect("few channels");
        let norm = NormGeometry::new(1, c, c, n * spatial, 1e-3);
        let g = NormNhwcGeometry::statistics(&norm).expect("whole vectors");
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let in_f32 = run.load::<f32>(&case)?.parameters;
        let [x, residual] = [&x, &parameters[case.parameters.len()]]
            .map(|tensor| run.channels_last::<T>(tensor, n, c));
        let (x, residual) = (x?, residual?);
        let mut of_types = Vec::new();
        for is_f32 in [false, true] {
            let parameter = |index: usize| match (index < 2 || has_affine, is_f32) {
                (false, _) => null(),
                (true, false) => parameters[index].source(),
                (true, true) => in_f32[index].source(),
            };
            let y = run.empty::<T>(x.len())?;
            let arguments = (
                x.source(),
                null(),
                parameter(0),
                parameter(1),
                parameter(2),
                parameter(3),
                residual.source(),
                y.ptr(),
                g.apply(),
                fold,
                AffineType::of(is_f32),
                Presence::PRESENT,
                list(&functions),
            );
            run.launch(&NORM_NHWC, &[label::<T>()], g.apply().shape(), arguments)?;
            of_types.push(y);
        }
        same_bits(&case.name, &of_types[0], &of_types[1])?;
        let y = run.channels_last(&of_types[0], n, spatial as u32)?;
        compare(&case.name, &y, &expected::<T>(&case))?;
    }
    Ok(())
}

/// Normalises `x`, which is channels last, by all launches; weight and bias have type `A`.
fn normalised<T: Storage, A: Storage>(
    run: &Run,
    statistics: &NormNhwcGeometry,
    x: &Tensor<T>,
    affine: [Option<&Tensor<A>>; 2],
    (list, residual): (OperandList, Option<&Tensor<T>>),
) -> Result<Tensor<T>, Failure> {
    let labels = [label::<T>()];
    let moments = run.empty::<f32>(statistics.moment_elements() as usize)?;
    let arguments = (x.source(), moments.ptr(), *statistics);
    run.launch(&NORM_NHWC_MOMENTS, &labels, statistics.shape(), arguments)?;
    let partials = run.empty::<f32>(statistics.norm.rows as usize * COUNTED_ELEMENTS)?;
    let of_row = statistics.moments_of_row() as u32;
    combine::whole(run, &moments, of_row, &partials)?;
    let [weight, bias] = affine.map(optional);
    let with_parts = |apply: NormNhwcGeometry| {
        let y = run.empty::<T>(x.len())?;
        let arguments = (
            x.source(),
            partials.source(),
            null(),
            null(),
            weight,
            bias,
            optional(residual),
            y.ptr(),
            apply,
            FoldGeometry::NONE,
            AffineType::F32,
            Presence::ABSENT,
            list,
        );
        run.launch(&NORM_NHWC, &labels, apply.shape(), arguments)?;
        Ok::<_, Failure>(y)
    };
    // As in large tensors, a thread has several pixels.
    let apply = statistics.apply();
    let part_pixels = 16 * apply.lanes;
    let longer = with_parts(NormNhwcGeometry {
        part_pixels,
        parts: apply.pixels.div_ceil(part_pixels),
        ..apply
    })?;
    let y = with_parts(apply)?;
    same_bits("parts of several pixels a thread", &longer, &y)?;
    Ok(y)
}

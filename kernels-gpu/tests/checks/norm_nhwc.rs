//! Norms of channels-last tensors.

use std::ptr::null;

use cuda_std::Storage;
use launch_config::batch_norm::FoldGeometry;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry};
use launch_config::norm_nhwc::NormNhwcGeometry;
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence};
use op_spec::graph::{Layer, LayerProblem};
use oracle::data::signed;

use super::super::kernels::norm_nhwc::{NORM_NHWC, NORM_NHWC_MOMENTS};
use super::combine;
use super::pointwise::list;
use super::{
    Failure, Loaded, Outcome, Run, Tensor, case, compare, expected, label, optional, same_bits,
    stored,
};

/// Input and groups: one vector, and one pixel more than a thread takes at a time; rows that end within
/// vectors; threads without channels, and one pixel more than a part; two parts, the last one partial; more
/// vectors than a block has, in f32 and in all types; a row for each channel.
const ROWS: [(&[usize], usize); 7] = [
    (&[3, 4, 3, 3], 1),
    (&[2, 12, 5, 5], 6),
    (&[1, 320, 97], 32),
    (&[2, 24, 29, 23], 2),
    (&[2, 1032, 2, 17], 3),
    (&[1, 2056, 3], 8),
    (&[2, 8, 3, 17, 43], 8),
];

/// Checks every row with weight and bias, and with the same values in f32; then without them, through a clamp
/// and a list with a residual.
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
        let of = |norm| NormNhwcGeometry::statistics(norm, size_of::<T>()).expect("whole vectors");
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

        let alone = Layer::from(Layer::group_norm("norm", groups).affine(false));
        let clamped = case::<T>([alone.clone(), Layer::clamp(-0.5, 1.0)], input);
        let x = run.load::<T>(&clamped)?.x;
        let clamp = (list(&[Layer::clamp(-0.5, 1.0)]), None);
        let y = normalised::<T, T>(run, &of(&norm), &last(&x)?, [None, None], clamp)?;
        compare(&clamped.name, &dense(&y)?, &expected::<T>(&clamped))?;

        let functions = [Layer::silu(), Layer::add("residual"), Layer::mul(0.5)];
        let listed = case::<T>([&[alone], &functions[..]].concat(), input);
        let Loaded { x, parameters } = run.load::<T>(&listed)?;
        let residual = last(&parameters[0])?;
        let through = (list(&functions), Some(&residual));
        let y = normalised::<T, T>(run, &of(&norm), &last(&x)?, [None, None], through)?;
        compare(&listed.name, &dense(&y)?, &expected::<T>(&listed))?;
    }
    Ok(())
}

/// Checks the moments of channels whose deviations are small beside the mean, and of threads whose first
/// pixel is far from the others.
pub(crate) fn takes_moments_of_far_values(run: &Run) -> Outcome {
    const CHANNELS: usize = 8;
    const PIXELS: usize = 5000;
    let norm = NormGeometry::new(1, CHANNELS as u32, 1, PIXELS as u64, 1e-5);
    let g = NormNhwcGeometry::statistics(&norm, size_of::<f32>()).expect("whole vectors");
    let [lanes, part_pixels, parts] = [g.lanes, g.part_pixels, g.parts].map(|of| of as usize);
    assert!(parts > 1 && part_pixels > 8 * lanes - 1);
    let mut values = signed(1, &[PIXELS * CHANNELS])
        .into_iter()
        .collect::<Vec<f32>>();
    for (at, value) in values.iter_mut().enumerate() {
        let (pixel, channel) = (at / CHANNELS, at % CHANNELS);
        match channel % 4 {
            0 => *value += 3000.0,
            1 if pixel % part_pixels < lanes => *value = -5000.0,
            _ => (),
        }
    }
    let x = run.tensor::<f32>(&values)?;
    let moments = run.empty::<f32>(g.moment_elements() as usize)?;
    let arguments = (x.source(), moments.ptr(), g);
    run.launch(&NORM_NHWC_MOMENTS, &[label::<f32>()], g.shape(), arguments)?;
    for (at, got) in moments.values()?.chunks(COUNTED_ELEMENTS).enumerate() {
        let (channel, part) = (at / parts, at % parts);
        let pixels = values.chunks(CHANNELS).skip(part * part_pixels);
        let of_part: Vec<f64> = pixels
            .take(part_pixels)
            .map(|of| of[channel].into())
            .collect();
        let count = of_part.len() as f64;
        let mean = of_part.iter().sum::<f64>() / count;
        let m2: f64 = of_part.iter().map(|value| (value - mean).powi(2)).sum();
        let eps = f64::from(f32::EPSILON);
        let [got_count, got_mean, got_m2] = [got[0], got[1], got[2]].map(f64::from);
        let largest = of_part
            .iter()
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        // Means that are subtracted from each other are rounded.
        let ratio = mean.abs() / (m2 / count).sqrt();
        let is_close = (got_mean - mean).abs() <= 4.0 * eps * largest
            && (got_m2 - m2).abs() <= (4.0 + count.sqrt() + 2.0 * ratio) * eps * m2;
        if got_count != count || !is_close {
            let wanted = [count, mean, m2];
            return Err(Failure(format!(
                "channel {channel}, part {part}: {got:?}, not {wanted:?}"
            )));
        }
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
        let g = NormNhwcGeometry::statistics(&norm, size_of::<T>()).expect("whole vectors");
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

//! Padding of planes and volumes: each element has the bits of the element that the padding mode names.

use cuda_std::Storage;
use launch_config::pad::PadGeometry;
use op_spec::{Conv3dSpec, PaddingMode};
use oracle::data::signed;

use super::super::kernels::conv::CONV_PAD;
use super::{Outcome, Run, label, same_bits};

/// Planes, extents and padding: planes of a few elements and longer than a block, rows that end inside
/// vectors, one element.
const ROWS: [(usize, [usize; 3], [usize; 3]); 6] = [
    (1, [1, 1, 1], [0, 0, 0]),
    (7, [1, 1, 5], [0, 0, 4]),
    (3, [1, 5, 7], [0, 3, 6]),
    (5, [2, 3, 4], [1, 2, 3]),
    (2, [1, 67, 91], [0, 9, 1]),
    (1, [3, 40, 41], [2, 0, 5]),
];

/// Checks every row in every mode, and with an even filter that keeps extents.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    use PaddingMode::{Circular, Reflect, Replicate, Zeros};
    for (planes, inner, padding) in ROWS {
        for padding_mode in [Zeros, Reflect, Replicate, Circular] {
            // Equal zero padding on both sides has no separate padding step.
            let (padding, filter) = match padding_mode {
                Zeros => (op_spec::Padding::Same, [2, 4, 6]),
                _ => (padding.into(), [1; 3]),
            };
            let spec = Conv3dSpec::default()
                .padding(padding)
                .padding_mode(padding_mode);
            let input = [1, planes, inner[0], inner[1], inner[2]];
            let weight = [1, planes, filter[0], filter[1], filter[2]];
            let problem = spec.problem(&input, &weight, None).expect("a convolution");
            let Some(pad) = problem.pad else {
                continue;
            };
            let geometry = PadGeometry::of("conv", &pad, planes).expect("few elements");
            let values: Vec<f32> = signed(1, &input).into_iter().collect();
            let x = run.tensor::<T>(&values)?;
            let y = run.empty::<T>(geometry.elements as usize)?;
            let arguments = (x.source(), y.ptr(), geometry);
            run.launch(&CONV_PAD, &[label::<T>()], geometry.shape(), arguments)?;

            let outer = pad.outer();
            let volume: usize = outer.iter().product();
            let element = |index: usize| {
                let (plane, place) = (index / volume, index % volume);
                let place = [
                    place / (outer[1] * outer[2]),
                    place / outer[2] % outer[1],
                    place % outer[2],
                ];
                let from = [0, 1, 2].map(|axis| {
                    let position = place[axis] as isize - pad.before[axis] as isize;
                    padding_mode.source(position, inner[axis])
                });
                let [Some(z), Some(p), Some(q)] = from else {
                    return 0.0;
                };
                values[((plane * inner[0] + z) * inner[1] + p) * inner[2] + q]
            };
            let wanted: Vec<f32> = (0..planes * volume).map(element).collect();
            let wanted = run.tensor::<T>(&wanted)?;
            let what = format!("{} of {inner:?}", padding_mode.name());
            same_bits(&what, &y, &wanted)?;
        }
    }
    Ok(())
}

//! Direct convolutions of channels-last tensors with few filters.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::conv_nhwc::{BLOCK_PIXELS, ConvNhwcGeometry};
use op_spec::graph::{Layer, LayerProblem};

use super::super::kernels::conv::CONV_DIRECT_NHWC;
use super::rows::{Row, rows};
use super::{Loaded, Outcome, Run, case, compare, expected, label, optional};

/// Every number of filters; windows that differ between axes; more pixels than a block has.
fn images() -> [Row<2>; 8] {
    rows! {
        [2, 8, 1], [19, 16], [3, 5], stride([2, 1]), padding([1, 2]), dilation([1, 2]);
        [2, 24, 2], [13, 17], [3, 3], padding([1, 1]);
        [1, 16, 3], [35, 33], [1, 2], padding([0, 1]);
        [3, 32, 4], [9, 20], [1, 1];
        [1, 8, 5], [12, 11], [2, 3], padding([1, 0]);
        [1, 8, 6], [12, 11], [2, 1], stride([1, 1]), without_bias();
        [1, 8, 7], [10, 9], [1, 2];
        [1, 8, 8], [14, 11], [2, 2], without_bias();
    }
}

fn volumes() -> [Row<3>; 2] {
    rows! {
        [2, 8, 1], [5, 6, 9], [3, 3, 3], padding([1, 1, 1]);
        [2, 16, 2], [9, 12, 13], [2, 1, 3], stride([2, 1, 1]), padding([0, 0, 1]), dilation([3, 1, 2]);
    }
}

/// Checks every row, with filters in both memory orders. Every other row has special values, and without
/// padding an infinity in a filter, which meets zeros.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    let images = images().map(|row| (Layer::from(row.layer()), row.shape()));
    let volumes = volumes().map(|row| (Layer::from(row.layer()), row.shape()));
    let mut are_many = false;
    for (number, (layer, shape)) in images.into_iter().chain(volumes).enumerate() {
        let mut case = case::<T>([layer], &shape);
        let problem = case.problem().expect("a valid case");
        let conv = match problem.steps[0].problem {
            LayerProblem::Conv2d(conv) => conv.geometry(),
            LayerProblem::Conv3d(conv) => conv.geometry(),
            _ => unreachable!("a convolution"),
        };
        let conv = conv.expect("a small case");
        if number % 2 == 1 {
            case = case.special();
            let weight = case.parameters[0].first_mut();
            let weight = weight.filter(|_| [conv.pad_d, conv.pad_h, conv.pad_w] == [0; 3]);
            weight
                .into_iter()
                .for_each(|weight| *weight = f32::INFINITY);
        }
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let x = run.channels_last(&x, conv.n, conv.group_c)?;
        let weight = &parameters[0];
        let last = run.channels_last(weight, conv.group_k.into(), conv.group_c)?;
        for (is_last, weight) in [(false, weight), (true, &last)] {
            let g = ConvNhwcGeometry::new(&conv, is_last).expect("few filters");
            are_many |= g.pixels() > BLOCK_PIXELS;
            let y = run.empty::<T>(g.pixels() as usize * conv.group_k as usize)?;
            let bias = optional(parameters.get(1));
            let arguments = (x.source(), weight.source(), bias, y.ptr(), g);
            run.launch(&CONV_DIRECT_NHWC, &[label::<T>()], g.shape(), arguments)?;
            let y = run.channels_last(&y, conv.n, conv.output_pixels())?;
            let name = format!("{}, filters channels last: {is_last}", case.name);
            compare(&name, &y, &expected::<T>(&case))?;
        }
    }
    assert!(are_many);
    Ok(())
}

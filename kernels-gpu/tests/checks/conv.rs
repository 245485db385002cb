//! Direct convolutions.

use launch_config::KernelGeometry;
use std::ops::Range;

use cuda_std::{Label, Storage};
use launch_config::conv::{ChannelTile, ConvGeometry};
use op_spec::graph::{Layer, LayerProblem};
use oracle::Expected;

use super::super::kernels::conv::*;
use super::rows::{Row, rows};
use super::{Loaded, Outcome, Run, Tensor, case, compare, expected, label, optional};

/// A convolution on the device.
struct Convolution<T> {
    name: String,
    geometry: ConvGeometry,
    tensors: Loaded<T>,
    y: Tensor<T>,
    wanted: Expected,
}

/// Ragged shapes: no extent divides a tile, strides differ from dilations, groups, size 1.
fn ragged2() -> [Row<2>; 7] {
    rows! {
        [1, 1, 1], [1, 1], [1, 1];
        [2, 3, 7], [13, 17], [3, 3];
        [2, 6, 10], [19, 16], [3, 5], stride([2, 1]), padding([1, 2]), dilation([1, 2]), groups(2);
        [1, 8, 16], [14, 11], [3, 3], padding([1, 1]), groups(8), without_bias();
        [1, 5, 67], [9, 15], [2, 3], stride([1, 2]), padding([0, 1]), dilation([2, 1]);
        // More pixels than two blocks of any kernel have.
        [1, 2, 3], [35, 33], [1, 2], padding([0, 1]);
        // More filter rows than are staged at a time, and more pixels than a tile has.
        [1, 31, 18], [25, 24], [3, 3], padding([1, 1]);
    }
}

fn ragged3() -> [Row<3>; 4] {
    rows! {
        [2, 3, 5], [6, 9, 8], [3, 3, 3];
        [1, 4, 6], [7, 8, 9], [3, 2, 3], stride([1, 2, 2]), padding([1, 0, 1]), groups(2);
        [1, 2, 2], [5, 4, 6], [2, 1, 2], stride([2, 1, 1]), padding([0, 0, 1]), dilation([3, 1, 2]), groups(2), without_bias();
        [1, 3, 16], [4, 12, 13], [3, 3, 3];
    }
}

/// All rows of `D` dimensions for f32; only those of the range `few` for 16-bit types.
fn rows<T: Storage, const D: usize>(few: Range<usize>) -> Vec<(Layer, Vec<usize>)> {
    let all: Vec<_> = if D == 2 {
        let rows = ragged2().into_iter();
        rows.map(|row| (Layer::from(row.layer()), row.shape()))
            .collect()
    } else {
        let rows = ragged3().into_iter();
        rows.map(|row| (Layer::from(row.layer()), row.shape()))
            .collect()
    };
    if size_of::<T>() == 4 {
        return all;
    }
    all[few].to_vec()
}

impl<T: Storage> Convolution<T> {
    fn new(run: &Run, (layer, shape): &(Layer, Vec<usize>)) -> Result<Self, super::Failure> {
        let case = case::<T>([layer.clone()], shape);
        let problem = case.problem().expect("a valid case");
        let geometry = match problem.steps[0].problem {
            LayerProblem::Conv2d(conv) => conv.geometry(),
            LayerProblem::Conv3d(conv) => conv.geometry(),
            _ => unreachable!("a convolution"),
        };
        Ok(Self {
            name: format!("{layer:?} of {shape:?}"),
            geometry: geometry.expect("a small case"),
            tensors: run.load(&case)?,
            y: run.empty(problem.output_shape().iter().product())?,
            wanted: expected::<T>(&case),
        })
    }

    fn x<P>(&self) -> *const P {
        self.tensors.x.source()
    }

    fn weight<P>(&self) -> *const P {
        self.tensors.parameters[0].source()
    }

    fn bias<P>(&self) -> *const P {
        optional(self.tensors.parameters.get(1))
    }
}

/// Both tiles of the direct convolution, on every row.
pub(crate) fn direct<T: Storage, const D: usize>(run: &Run) -> Outcome {
    for row in rows::<T, D>(1..if D == 2 { 4 } else { 3 }) {
        check_direct::<T, D>(run, &row)?;
    }
    Ok(())
}

pub(super) fn check_direct<T: Storage, const D: usize>(
    run: &Run,
    row: &(Layer, Vec<usize>),
) -> Outcome {
    for tile in [ChannelTile::Wide, ChannelTile::Narrow] {
        let conv = Convolution::<T>::new(run, row)?;
        let g = conv.geometry;
        let arguments = (conv.x(), conv.weight(), conv.bias(), conv.y.ptr(), g);
        let labels = [Label::Number(D as u32), tile.name().into(), label::<T>()];
        run.launch(&CONV_DIRECT, &labels, g.direct_shape(tile), arguments)?;
        compare(&format!("{tile:?} {}", conv.name), &conv.y, &conv.wanted)?;
    }
    Ok(())
}

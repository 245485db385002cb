//! Convolutions of several images or volumes of almost 2³¹ elements each. As in `far`, only the last blocks
//! run.

use cuda_std::tensor_map::TensorMap;
use cuda_std::{Label, Storage};
use launch_config::KernelGeometry;
use launch_config::conv::{ChannelTile, ConvGeometry, TILE_PIXELS};
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, GemmTile, M32N128, W64N128, WARP_SPECIALIZED,
};
use op_spec::ConvSpec;

use super::super::kernels::conv::CONV_DIRECT;
use super::super::kernels::fused::depthwise::DEPTHWISE;
use super::super::kernels::fused::implicit_gemm::*;
use super::convolved::{DEVICE, Operand};
use super::far::number;
use super::implicit_gemm_launch::Ended;
use super::{Outcome, Run, Tensor, label};

/// Filters of whole numbers from -1 to 1.
pub(super) fn filters<T: Storage>(
    run: &Run,
    g: &ConvGeometry,
) -> Result<(Vec<f32>, Tensor<T>), super::Failure> {
    let len = g.output_channels() * g.reduction();
    let values: Vec<f32> = (0..len).map(|i| (i * 7 / 3 % 3) as f32 - 1.0).collect();
    let tensor = run.tensor::<T>(&values)?;
    Ok((values, tensor))
}

/// A function that returns the element index of a pixel of an input plane.
pub(super) type InputIndex = fn(&ConvGeometry, plane: u64, pixel: u64) -> u64;

/// The index in NCHW inputs.
fn dense(g: &ConvGeometry, plane: u64, pixel: u64) -> u64 {
    plane * u64::from(g.input_pixels()) + pixel
}

/// The index in channels-last inputs.
pub(super) fn channels_last(g: &ConvGeometry, plane: u64, pixel: u64) -> u64 {
    let channels = u64::from(g.input_channels());
    let (sample, channel) = (plane / channels, plane % channels);
    (sample * u64::from(g.input_pixels()) + pixel) * channels + channel
}

/// Output `index` of the convolution of an NCHW input whose elements are `number` of their index.
fn convolved(g: &ConvGeometry, filters: &[f32], index: u64) -> f32 {
    convolved_of(g, filters, index, dense)
}

/// [`convolved`] for an input in the layout of `index_of`.
pub(super) fn convolved_of(
    g: &ConvGeometry,
    filters: &[f32],
    index: u64,
    index_of: InputIndex,
) -> f32 {
    let pixels = u64::from(g.output_pixels());
    let [p, q] = [g.p, g.q].map(u64::from);
    let (plane, pixel) = (index / pixels, index % pixels);
    let channels = u64::from(g.output_channels());
    let (sample, filter) = (plane / channels, plane % channels);
    let first = [
        (pixel / (p * q)) as i64 * i64::from(g.stride_d) - i64::from(g.pad_d),
        (pixel / q % p) as i64 * i64::from(g.stride_h) - i64::from(g.pad_h),
        (pixel % q) as i64 * i64::from(g.stride_w) - i64::from(g.pad_w),
    ];
    let [d, h, w] = [g.d, g.h, g.w].map(i64::from);
    let group = filter / u64::from(g.group_k);
    let mut sum = 0.0;
    for row in 0..u64::from(g.reduction()) {
        let tap = (row % u64::from(g.taps())) as u32;
        let channel = group * u64::from(g.group_c) + row / u64::from(g.taps());
        let at = [
            first[0] + i64::from(tap / (g.r * g.s) * g.dilation_d),
            first[1] + i64::from(tap / g.s % g.r * g.dilation_h),
            first[2] + i64::from(tap % g.s * g.dilation_w),
        ];
        let inside = at
            .iter()
            .zip([d, h, w])
            .all(|(at, extent)| (0..extent).contains(at));
        if inside {
            let plane = sample * u64::from(g.input_channels()) + channel;
            let in_plane = ((at[0] * h + at[1]) * w + at[2]) as u64;
            let value = number(index_of(g, plane, in_plane));
            sum += value * filters[(filter * u64::from(g.reduction()) + row) as usize];
        }
    }
    sum
}

/// The geometry of a convolution of channels `[n, c, k]`.
pub(super) fn geometry<const D: usize>(
    [n, c, k]: [usize; 3],
    input: [usize; D],
    filter: [usize; D],
    groups: usize,
) -> ConvGeometry {
    let spec = ConvSpec::default()
        .padding(filter.map(|extent| extent / 2))
        .groups(groups);
    let input = [&[n, c][..], &input].concat();
    let weight = [&[k, c / groups][..], &filter].concat();
    let problem = spec.problem(&input, &weight, None).expect("a convolution");
    problem.geometry().expect("planes below 2^31 elements")
}

pub(super) fn inputs(g: &ConvGeometry) -> u64 {
    g.n * u64::from(g.input_channels()) * u64::from(g.input_pixels())
}

pub(super) fn outputs(g: &ConvGeometry) -> u64 {
    g.n * u64::from(g.output_channels()) * u64::from(g.output_pixels())
}

/// Checks direct convolutions, without tensor cores.
pub(crate) fn on_cores(run: &Run) -> Outcome {
    one_by_one(run, 2, &geometry([2, 4, 6], [45_000, 45_001], [3, 3], 2))?;
    one_by_one(
        run,
        3,
        &geometry([2, 4, 6], [11, 12_000, 12_003], [3, 3, 3], 2),
    )
}

fn one_by_one(run: &Run, dimensions: u32, g: &ConvGeometry) -> Outcome {
    let x = run.computed::<f32>(inputs(g), number)?;
    let (values, weight) = filters::<f32>(run, g)?;
    let none = std::ptr::null();
    let pixels = u64::from(g.output_pixels());
    let wanted = |index| convolved(g, &values, index);
    let last = |shape: Option<launch_config::LaunchShape>| {
        u64::from(shape.map_or(1, |shape| shape.grid[0])) - 1
    };
    for tile in [ChannelTile::Wide, ChannelTile::Narrow] {
        let y = run.sparse::<f32>(outputs(g))?;
        let labels = [
            Label::Number(dimensions),
            tile.name().into(),
            label::<f32>(),
        ];
        let (shape, arguments) = (
            g.direct_shape(tile),
            (x.source(), weight.source(), none, y.ptr(), *g),
        );
        run.launch_some(&CONV_DIRECT, &labels, shape, &[last(shape)], arguments)?;
        // All filters of the last group fit a tile.
        for filter in 1..=u64::from(g.group_k) {
            let end = outputs(g) - (u64::from(g.group_k) - filter) * pixels;
            let first = end - 1 - (pixels - 1) % u64::from(TILE_PIXELS);
            y.are("direct", first..end, wanted)?;
        }
    }
    Ok(())
}

/// Checks depthwise convolutions with one filter a channel: the planes of input and output correspond.
pub(crate) fn depthwise(run: &Run) -> Outcome {
    let g = geometry([3, 2, 2], [1, 20_000, 70_001], [1, 3, 3], 2);
    let of = DepthwiseGeometry::new(&g, None).expect("a geometry");
    let x = run.computed::<f32>(inputs(&g), number)?;
    let (values, weight) = filters::<f32>(run, &g)?;
    let y = run.sparse::<f32>(outputs(&g))?;
    let moments = run.sparse::<f32>(of.moment_elements())?;
    let none = std::ptr::null();
    let arguments = (
        x.source(),
        weight.source(),
        none,
        none,
        none,
        y.ptr(),
        moments.ptr(),
        of,
    );
    let shape = of.shape();
    let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
    run.launch_some(&DEPTHWISE, &[label::<f32>()], shape, &[last], arguments)?;
    let all = outputs(&g);
    y.are("depthwise", all - 3..all, |index| {
        convolved(&g, &values, index)
    })
}

/// Checks warp-specialized tiles on tensor cores.
pub(crate) fn warp_specialized<F: Operand>(run: &Run) -> Outcome {
    implicit_gemm::<F>(run, WARP_SPECIALIZED)
}

/// Checks warpgroup tiles.
pub(crate) fn by_warpgroups<F: Operand>(run: &Run) -> Outcome {
    implicit_gemm::<F>(run, W64N128)
}

/// Checks warp tiles.
pub(crate) fn narrow<F: Operand>(run: &Run) -> Outcome {
    implicit_gemm::<F>(run, M32N128)
}

/// Checks the implicit GEMM: the last K-vectors of each plane of the last sample are reformatted, and the
/// last tile is multiplied.
fn implicit_gemm<F: Operand>(run: &Run, tile: GemmTile) -> Outcome {
    /// One block for each tile.
    const MANY: GemmDevice = GemmDevice {
        multiprocessors: 1 << 28,
        ..DEVICE
    };
    // Rows are short, so that few blocks reformat the halo of the last tile.
    let conv = geometry([3, 9, 19], [1, 40_000_000, 20], [1, 3, 3], 1);
    let config = GemmConfig::with_tile(&conv, None, F::OPERANDS, &MANY, tile);
    let config = config.expect("indices of 32 bits");
    let g = config.geometry;
    let x = run.computed::<F::Stored>(inputs(&conv), number)?;
    let (values, weight) = filters::<F::Stored>(run, &conv)?;
    let operands = run.empty::<f32>(config.filter_words() as usize)?;
    let filter_descales = run.empty::<f32>(conv.output_channels() as usize)?;
    let labels = [Label::Name(F::LABEL)];
    let arguments = (
        weight.source(),
        operands.ptr(),
        filter_descales.ptr(),
        g,
        tile,
    );
    run.launch(
        &IMPLICIT_GEMM_FILTERS,
        &labels,
        config.filters_shape(),
        arguments,
    )?;

    let reformatted = run.sparse::<f32>(config.reformatted_words())?;
    let of_sample = u64::from(g.sample_blocks());
    let largest = run.sparse::<f32>(conv.n * of_sample)?;
    // The factor that undoes the optimistic scale of 512.
    let descales = run.computed::<f32>(conv.n, |_| 1.0 / 512.0)?;
    let of_plane = u64::from(g.plane_blocks());
    let ends =
        (0..u64::from(g.planes)).map(|plane| (conv.n - 1) * of_sample + (plane + 1) * of_plane);
    let blocks: Vec<u64> = ends.flat_map(|end| end - 4..end).collect();
    let arguments = (
        x.source(),
        reformatted.ptr(),
        descales.ptr(),
        largest.ptr(),
        g,
    );
    run.launch_some(
        &IMPLICIT_GEMM_REFORMAT,
        &labels,
        g.reformat_shape(),
        &blocks,
        arguments,
    )?;

    let y = run.sparse::<F::Stored>(outputs(&conv))?;
    let moments = run.sparse::<f32>(config.moment_elements())?;
    let without_norm = Ended::<F::Stored>::NONE;
    let none = std::ptr::null();
    let shape = config.shape(&MANY);
    let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
    if tile.is_warp_specialized() {
        let mainloop = config.mainloop_config(&MANY).expect("a wide tile");
        let arguments = (
            reformatted.source(),
            descales.source(),
            operands.source(),
            filter_descales.source(),
            none,
            y.ptr(),
            moments.ptr(),
            std::ptr::null_mut(),
            TensorMap::NONE,
            TensorMap::NONE,
            g,
            mainloop,
            0,
        );
        let labels = [mainloop.label().into(), labels[0]];
        run.launch_some(&IMPLICIT_GEMM_SM90, &labels, shape, &[last], arguments)?;
    } else {
        let arguments = (
            reformatted.source(),
            descales.source(),
            operands.source(),
            filter_descales.source(),
            none,
            none,
            none,
            without_norm.x.cast(),
            without_norm.weight.cast(),
            without_norm.gain,
            without_norm.shift,
            without_norm.gain_behind,
            without_norm.shift_behind,
            y.ptr(),
            moments.ptr(),
            g,
            without_norm.epilogue,
            without_norm.list,
        );
        let labels = [tile.name().expect("a tile with kernels").into(), labels[0]];
        run.launch_some(&IMPLICIT_GEMM, &labels, shape, &[last], arguments)?;
    }
    let all = outputs(&conv);
    // The last pixels of the last and of the second last filter.
    let pixels = u64::from(conv.output_pixels());
    for end in [all, all - pixels] {
        y.are(&format!("{tile:?}"), end - 3..end, |index| {
            convolved(&conv, &values, index)
        })?;
    }
    Ok(())
}

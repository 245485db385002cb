//! Convolutions of channels-last images of several billion elements: as in `far`, the last blocks run.

use cuda_std::tensor_map::{MapMode, TensorMap};
use cuda_std::{Label, Storage, f16};
use launch_config::batch_norm::FoldGeometry;
use launch_config::conv::ConvGeometry;
use launch_config::conv_nhwc::ConvNhwcGeometry;
use launch_config::depthwise::nhwc::NhwcGeometry;
use launch_config::depthwise::rolling::RollingGeometry;
use launch_config::gemm::{Gemm, TILES};
use launch_config::implicit_gemm::sm90::Schedule;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::pointwise::{OperandList, PointwiseList};
use launch_config::{AffineType, Presence};

use super::super::kernels::conv::CONV_DIRECT_NHWC;
use super::super::kernels::fused::depthwise::nhwc::DEPTHWISE_NHWC;
use super::super::kernels::fused::depthwise::rolling::DEPTHWISE_NHWC_ROLLING;
use super::super::kernels::fused::gemm::pad_channels::GEMM_PAD_CHANNELS;
use super::super::kernels::fused::gemm::{
    GEMM_SM90, boxes_of_filters, boxes_of_output, map_of_input,
};
use super::far::number;
use super::far_products::{channels_last, convolved_of, filters, geometry, inputs, outputs};
use super::{Outcome, Run, Tensor, label};

/// Checks depthwise convolutions with one filter for each channel.
pub(crate) fn depthwise(run: &Run) -> Outcome {
    let g = geometry([3, 8, 8], [1, 10_000, 70_001], [1, 3, 3], 8);
    let x = run.computed::<f32>(inputs(&g), number)?;
    let (values, weight) = filters::<f32>(run, &g)?;
    let none = std::ptr::null();
    macro_rules! launch_last {
        ($family:expr, $labels:expr, $of:expr, $list:expr) => {{
            let y = run.sparse::<f32>(outputs(&g))?;
            let arguments = (
                x.source(),
                weight.source(),
                none,
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
                none,
                y.ptr(),
                $of,
                FoldGeometry::NONE,
                AffineType::F32,
                Presence::ABSENT,
                Epilogue::NONE,
                $list,
            );
            let shape = $of.shape();
            let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
            run.launch_some($family, $labels, shape, &[last], arguments)?;
            y
        }};
    }
    let runs = NhwcGeometry::new(&g).expect("a geometry");
    let labels = [label::<f32>()];
    let by_runs = launch_last!(&DEPTHWISE_NHWC, &labels, runs, OperandList::EMPTY);
    let rolling = RollingGeometry::new(&g, 132).expect("a geometry");
    let labels = [Label::Number(3), Label::Number(1), label::<f32>()];
    let none = RoundedEpilogue::NONE;
    let by_rolling = launch_last!(&DEPTHWISE_NHWC_ROLLING, &labels, rolling, none);
    [by_runs, by_rolling]
        .iter()
        .try_for_each(|y| last_pixels_are("depthwise", &g, &values, y))
}

/// Checks direct convolutions with few filters.
pub(crate) fn few_filters(run: &Run) -> Outcome {
    let conv = geometry([3, 8, 3], [1, 20_000, 30_001], [1, 3, 3], 1);
    let g = ConvNhwcGeometry::new(&conv, false).expect("few filters");
    let x = run.computed::<f16>(inputs(&conv), number)?;
    let (values, weight) = filters::<f16>(run, &conv)?;
    let y = run.sparse::<f16>(outputs(&conv))?;
    let (shape, none) = (g.shape(), std::ptr::null());
    let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
    let arguments = (x.source(), weight.source(), none, y.ptr(), g);
    run.launch_some(
        &CONV_DIRECT_NHWC,
        &[label::<f16>()],
        shape,
        &[last],
        arguments,
    )?;
    last_pixels_are("few filters", &conv, &values, &y)
}

/// Checks matrix products of pixels, of windows, and of windows of few channels.
pub(crate) fn gemm(run: &Run) -> Outcome {
    for (channels, filter) in [(8, [1, 1, 1]), (8, [1, 3, 3]), (3, [1, 3, 3])] {
        let conv = geometry([3, channels, 8], [1, 20_000, 30_001], filter, 1);
        // One block for each tile.
        let gemm = Gemm::in_tiles(
            (&conv, 2),
            (TILES[0], Schedule::PING_PONG),
            1 << 28,
            227 << 10,
        );
        let gemm = gemm.expect("a product");
        let x = run.computed::<f16>(inputs(&conv), number)?;
        let (values, weight) = filters::<f16>(run, &conv)?;
        let weight = run.channels_last(&weight, conv.group_k.into(), conv.group_c)?;
        let [x, weight] = match gemm.few_channels {
            None => [x, weight],
            Some(few) => {
                let input = few.input;
                let copy = run.sparse::<f16>(input.elements())?;
                let grid = u64::from(input.shape().expect("few blocks").grid[0]);
                // The last rows of the last image.
                let blocks: Vec<u64> = (grid - 3 * u64::from(input.row_blocks())..grid).collect();
                let labels = [label::<f16>()];
                let arguments = (x.source(), copy.ptr(), input);
                run.launch_some(
                    &GEMM_PAD_CHANNELS,
                    &labels,
                    input.shape(),
                    &blocks,
                    arguments,
                )?;
                let of_filters = few.filters(true);
                let padded = run.empty::<f16>(of_filters.elements() as usize)?;
                let arguments = (weight.source(), padded.ptr(), of_filters);
                run.launch(&GEMM_PAD_CHANNELS, &labels, of_filters.shape(), arguments)?;
                [copy, padded]
            }
        };
        let y = run.sparse::<f16>(outputs(&conv))?;
        let map = |mode: MapMode, tensor: &Tensor<f16>| mode.emulated(tensor.source());
        let none = std::ptr::null();
        let last = u64::from(gemm.shape.grid[0]) - 1;
        let arguments = (
            map(map_of_input(&gemm), &x),
            map(boxes_of_filters(&gemm).into(), &weight),
            TensorMap::NONE,
            map(boxes_of_output(&gemm, conv.group_k as usize).into(), &y),
            none,
            std::ptr::null(),
            std::ptr::null(),
            none,
            none,
            none,
            none,
            gemm.geometry,
            FoldGeometry::NONE,
            AffineType::F32,
            Presence::ABSENT,
            Epilogue::NONE,
            RoundedEpilogue::NONE,
            PointwiseList::EMPTY,
        );
        let labels = [TILES[0].label.into(), label::<f16>()];
        run.launch_some(&GEMM_SM90, &labels, Some(gemm.shape), &[last], arguments)?;
        last_pixels_are(&format!("{gemm}"), &conv, &values, &y)?;
    }
    Ok(())
}

/// Checks the last three pixels of a channels-last output.
fn last_pixels_are<T: Storage>(
    what: &str,
    conv: &ConvGeometry,
    filters: &[f32],
    y: &Tensor<T>,
) -> Outcome {
    let (all, channels) = (outputs(conv), u64::from(conv.output_channels()));
    let pixels = u64::from(conv.output_pixels());
    y.are(what, all - 3 * channels..all, |index| {
        let (pixel, channel) = (index / channels, index % channels);
        let plane = pixel / pixels * channels + channel;
        convolved_of(
            conv,
            filters,
            plane * pixels + pixel % pixels,
            channels_last,
        )
    })
}

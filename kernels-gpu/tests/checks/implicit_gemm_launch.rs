//! Launches of the implicit GEMM: the reformats of input and filters, and the GEMM.

use std::ffi::c_void;

use cuda_std::Label;
use cuda_std::tensor_map::{MapMode, TensorMap};
use launch_config::implicit_gemm::sm90::MainloopConfig;
use launch_config::implicit_gemm::{
    Epilogue, GemmConfig, GemmDevice, Loader, ReducedResults, RoundedEpilogue,
};
use launch_config::pointwise::OperandList;

use super::super::kernels::fused::implicit_gemm::*;
use super::convolved::{DEVICE, Factors, Operand};
use super::{Failure, Outcome, Run, Tensor, optional};

/// Reformatted input and filters, and the factors that undo their scaling.
pub(super) struct Operands {
    reformatted: Tensor<f32>,
    descales: Tensor<f32>,
    operands: Tensor<f32>,
    filter_descales: Tensor<f32>,
}

impl Operands {
    /// Keeps the input alone, for filters that are read in place.
    pub(super) fn without_filters(self, run: &Run) -> Result<Self, Failure> {
        Ok(Self {
            operands: run.empty(0)?,
            filter_descales: run.empty(0)?,
            ..self
        })
    }

    /// Keeps the filters alone, with room for the scales of samples that the producer converts.
    pub(super) fn without_input(self, run: &Run, samples: usize) -> Result<Self, Failure> {
        Ok(Self {
            reformatted: run.empty(0)?,
            descales: run.empty(samples)?,
            ..self
        })
    }
}

/// Reformats input and filters.
pub(super) fn prepare<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    x: &Tensor<F::Stored>,
    weight: &Tensor<F::Stored>,
) -> Result<Operands, Failure> {
    let g = config.geometry;
    let n = g.conv.n as usize;
    let of = Operands {
        operands: run.empty::<f32>(config.filter_words() as usize)?,
        filter_descales: run.empty::<f32>(g.conv.output_channels() as usize)?,
        reformatted: run.empty::<f32>(config.reformatted_words() as usize)?,
        descales: run.empty::<f32>(n)?,
    };
    let largest = run.empty::<f32>(n * g.sample_blocks() as usize)?;
    let labels = [Label::Name(F::LABEL)];
    let (operands, descales) = (of.operands.ptr(), of.filter_descales.ptr());
    let arguments = (weight.source(), operands, descales, g, config.tile);
    run.launch(
        &IMPLICIT_GEMM_FILTERS,
        &labels,
        config.filters_shape(),
        arguments,
    )?;
    let (reformatted, descales) = (of.reformatted.ptr(), of.descales.ptr());
    let arguments = (x.source(), reformatted, descales, largest.ptr(), g);
    run.launch(
        &IMPLICIT_GEMM_REFORMAT,
        &labels,
        g.reformat_shape(),
        arguments,
    )?;
    if F::OPERANDS.scaled && !g.prescale.is_scanned() {
        let blocks = g.sample_blocks();
        let arguments = (
            x.source(),
            reformatted,
            descales,
            largest.source(),
            g,
            blocks,
        );
        run.launch(
            &IMPLICIT_GEMM_RESCALE,
            &labels,
            g.rescale_shape(),
            arguments,
        )?;
    }
    Ok(of)
}

/// Further arguments of a convolution without a norm.
#[derive(Clone, Copy)]
pub(super) struct Ended<T> {
    pub(super) x: *const T,
    pub(super) weight: *const T,
    pub(super) gain: *const f32,
    pub(super) shift: *const f32,
    pub(super) epilogue: Epilogue,
    pub(super) list: OperandList,
    pub(super) gain_behind: *const f32,
    pub(super) shift_behind: *const f32,
    /// The residual of a list.
    pub(super) residual: *const c_void,
}

impl<T> Ended<T> {
    /// The arguments of a convolution with a norm.
    pub(super) const NONE: Self = Self {
        x: std::ptr::null(),
        weight: std::ptr::null(),
        gain: std::ptr::null(),
        shift: std::ptr::null(),
        epilogue: Epilogue::NONE,
        list: OperandList::EMPTY,
        gain_behind: std::ptr::null(),
        shift_behind: std::ptr::null(),
        residual: std::ptr::null(),
    };
}

/// The tensor map of filters that are read in place.
fn filter_map<T>(config: &GemmConfig, ended: &Ended<T>) -> TensorMap {
    match config.geometry.filters.is_in_place() {
        true => MapMode::Tiled(filter_boxes(&config.geometry)).emulated(ended.weight.cast()),
        false => TensorMap::NONE,
    }
}

/// The label of kernels of warp-specialized tiles.
fn label<F: Operand>(config: &GemmConfig) -> Label {
    Label::Name(match config.geometry.k_vectors.loader.is_dense_f32() {
        true => "dense_f32",
        false => F::LABEL,
    })
}

/// Launches the GEMM of warp-specialized tiles. Returns the number of tiles of a block.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply_warp_specialized<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    device: &GemmDevice,
    of: &Operands,
    bias: &Tensor<F::Stored>,
    ended: &Ended<F::Stored>,
    y: &Tensor<F::Stored>,
    moments: &Tensor<f32>,
) -> Result<u32, Failure> {
    launch::<F>(
        run,
        config,
        device,
        of,
        ended,
        |map, mainloop, largest, recorded| {
            let labels = [mainloop.label().into(), label::<F>(config)];
            let shape = config.shape(device);
            if !config.geometry.epilogue.is_store() {
                let arguments = (
                    of.reformatted.source(),
                    of.descales.source(),
                    of.operands.source(),
                    of.filter_descales.source(),
                    bias.source(),
                    y.ptr(),
                    moments.ptr(),
                    largest,
                    map,
                    filter_map(config, ended),
                    config.geometry,
                    mainloop,
                    recorded,
                );
                return run.launch(&IMPLICIT_GEMM_SM90, &labels, shape, arguments);
            }
            let arguments = (
                of.reformatted.source(),
                of.descales.source(),
                of.operands.source(),
                of.filter_descales.source(),
                bias.source(),
                ended.x.cast(),
                ended.weight.cast(),
                ended.gain,
                ended.shift,
                ended.gain_behind,
                ended.shift_behind,
                ended.residual,
                y.ptr(),
                largest,
                map,
                filter_map(config, ended),
                config.geometry,
                mainloop,
                ended.epilogue,
                ended.list,
                recorded,
            );
            run.launch(&IMPLICIT_GEMM_SM90_STORE, &labels, shape, arguments)
        },
    )
}

/// [`multiply_warp_specialized`] with an NHWC output, through the epilogue of rounded results with its
/// residual.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply_to_nhwc<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    device: &GemmDevice,
    of: &Operands,
    bias: &Tensor<F::Stored>,
    ended: &Ended<F::Stored>,
    (rounded, residual): (RoundedEpilogue, *const c_void),
    y: &Tensor<F::Stored>,
) -> Result<u32, Failure> {
    launch::<F>(
        run,
        config,
        device,
        of,
        ended,
        |map, mainloop, largest, recorded| {
            let labels = [mainloop.label().into(), Label::Name(F::LABEL)];
            let arguments = (
                of.reformatted.source(),
                of.descales.source(),
                of.operands.source(),
                of.filter_descales.source(),
                bias.source(),
                ended.x.cast(),
                ended.weight.cast(),
                ended.gain,
                ended.shift,
                ended.gain_behind,
                ended.shift_behind,
                residual,
                y.ptr(),
                largest,
                map,
                filter_map(config, ended),
                config.geometry,
                mainloop,
                ended.epilogue,
                ended.list,
                rounded,
                recorded,
            );
            run.launch(
                &IMPLICIT_GEMM_SM90_NHWC,
                &labels,
                config.shape(device),
                arguments,
            )
        },
    )
}

/// [`multiply_warp_specialized`] with reduced results.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply_reduced<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    device: &GemmDevice,
    of: &Operands,
    bias: &Tensor<F::Stored>,
    ended: &Ended<F::Stored>,
    reduced: &ReducedResults,
    y: &Tensor<F::Stored>,
) -> Result<u32, Failure> {
    launch::<F>(
        run,
        config,
        device,
        of,
        ended,
        |map, mainloop, largest, recorded| {
            let labels = [mainloop.label().into(), label::<F>(config)];
            let arguments = (
                of.reformatted.source(),
                of.descales.source(),
                of.operands.source(),
                of.filter_descales.source(),
                bias.source(),
                ended.x.cast(),
                ended.weight.cast(),
                ended.gain,
                ended.shift,
                ended.gain_behind,
                ended.shift_behind,
                y.ptr(),
                largest,
                map,
                filter_map(config, ended),
                config.geometry,
                mainloop,
                ended.epilogue,
                ended.list,
                *reduced,
                recorded,
            );
            let shape = config.shape(device);
            run.launch(&IMPLICIT_GEMM_SM90_REDUCE, &labels, shape, arguments)
        },
    )
}

/// Launches the GEMM of warp-specialized tiles, twice if the producer converts. `multiply` takes the tensor
/// map of the input, the mainloop, and the place and the number of the magnitudes that it records.
fn launch<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    device: &GemmDevice,
    of: &Operands,
    ended: &Ended<F::Stored>,
    multiply: impl Fn(TensorMap, MainloopConfig, *mut u32, u32) -> Outcome,
) -> Result<u32, Failure> {
    let mainloop = config.mainloop_config(device).expect("a wide tile");
    let g = &config.geometry;
    let map = match g.k_vectors.loader {
        Loader::REFORMAT_TO_PLANES => TensorMap::NONE,
        Loader::REFORMAT_TO_NHWC => {
            MapMode::Tiled(boxes(g)).emulated(of.reformatted.source::<u32>().cast())
        }
        _ => MapMode::Tiled(boxes(g)).emulated(ended.x.cast()),
    };
    let rounds = g.is_converted_in_producer();
    let recorded = if rounds {
        config.recorded_of_tile(mainloop)
    } else {
        0
    };
    let largest = run.empty::<f32>(recorded as usize * g.work_tiles() as usize)?;
    multiply(map, mainloop, largest.ptr(), recorded)?;
    if rounds {
        let (x, descales) = (ended.x.cast(), of.descales.ptr());
        let recorded = recorded * g.pixel_tiles();
        let arguments = (
            x,
            of.reformatted.ptr(),
            descales,
            largest.source(),
            *g,
            recorded,
        );
        let labels = [Label::Name(F::LABEL)];
        run.launch(
            &IMPLICIT_GEMM_RESCALE,
            &labels,
            g.rescale_shape(),
            arguments,
        )?;
        multiply(map, mainloop, largest.ptr(), 0)?;
    }
    Ok(mainloop.tiles)
}

/// Launches the GEMM of other tiles.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply<F: Operand>(
    run: &Run,
    config: &GemmConfig,
    of: &Operands,
    bias: &Tensor<F::Stored>,
    factors: &Factors<F::Stored>,
    ended: &Ended<F::Stored>,
    y: &Tensor<F::Stored>,
    moments: &Tensor<f32>,
) -> Outcome {
    let tile = config.tile.name().expect("a tile with kernels");
    let arguments = (
        of.reformatted.source(),
        of.descales.source(),
        of.operands.source(),
        of.filter_descales.source(),
        bias.source(),
        optional(factors.norm_weight.as_ref()),
        factors.scale.source(),
        ended.x.cast(),
        ended.weight.cast(),
        ended.gain,
        ended.shift,
        ended.gain_behind,
        ended.shift_behind,
        y.ptr(),
        moments.ptr(),
        config.geometry,
        ended.epilogue,
        ended.list,
    );
    let labels = [tile.into(), Label::Name(F::LABEL)];
    run.launch(&IMPLICIT_GEMM, &labels, config.shape(&DEVICE), arguments)
}

//! Launches of the implicit matrix product: what packs input and filters, and the product.

use cuda_std::Label;
use cuda_std::tensor_map::TensorMap;
use op_spec::launch::implicit_gemm::{Ending, GemmConfig, GemmDevice};

use super::super::kernels::fused::implicit_gemm::*;
use super::convolved::Factors;
use super::implicit_gemm::{DEVICE, Packed};
use super::norm::optional;
use super::{Failure, Outcome, Run, Tensor};

/// Packed input and filters, and what undoes their scaling.
pub(super) struct Operands {
    packed: Tensor<f32>,
    descales: Tensor<f32>,
    operands: Tensor<f32>,
    filter_descales: Tensor<f32>,
}

impl Operands {
    /// The filters alone, and room for the scales of samples that the product rounds.
    pub(super) fn without_input(self, run: &Run, samples: usize) -> Result<Self, Failure> {
        Ok(Self {
            packed: run.empty(0)?,
            descales: run.empty(samples)?,
            ..self
        })
    }
}

/// Packs input and filters.
pub(super) fn prepare<F: Packed>(
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
        packed: run.empty::<f32>(config.packed_words() as usize)?,
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
    let (packed, descales) = (of.packed.ptr(), of.descales.ptr());
    let arguments = (x.source(), packed, descales, largest.ptr(), g);
    run.launch(&IMPLICIT_GEMM_PACK, &labels, g.pack_shape(), arguments)?;
    if F::OPERANDS.scaled && g.scans == 0 {
        let blocks = g.sample_blocks();
        let arguments = (x.source(), packed, descales, largest.source(), g, blocks);
        run.launch(&IMPLICIT_GEMM_REPACK, &labels, g.repack_shape(), arguments)?;
    }
    Ok(of)
}

/// What a product is given that no norm follows.
pub(super) struct Ended<T> {
    pub(super) x: *const T,
    pub(super) weight: *const T,
    pub(super) gain: *const f32,
    pub(super) shift: *const f32,
    pub(super) ending: Ending,
}

impl<T> Ended<T> {
    /// One that a norm follows.
    pub(super) const NONE: Self = Self {
        x: std::ptr::null(),
        weight: std::ptr::null(),
        gain: std::ptr::null(),
        shift: std::ptr::null(),
        ending: Ending::NONE,
    };
}

/// The product of wide tiles; how many of them a block had.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply_wide<F: Packed>(
    run: &Run,
    config: &GemmConfig,
    device: &GemmDevice,
    of: &Operands,
    bias: &Tensor<F::Stored>,
    ended: &Ended<F::Stored>,
    y: &Tensor<F::Stored>,
    moments: &Tensor<f32>,
) -> Result<u32, Failure> {
    let rings = config.wide_rings(device).expect("a wide tile");
    let g = &config.geometry;
    let map = match (g.has_lines(), g.cells.is_unpacked) {
        (false, _) => TensorMap::NONE,
        (true, 0) => boxes(g).emulated(of.packed.source::<u32>().cast()),
        (true, _) => boxes(g).emulated(ended.x.cast()),
    };
    let rounds = g.is_rounded_on_its_way();
    let noted = if rounds {
        config.noted_of_tile(rings)
    } else {
        0
    };
    let largest = run.empty::<f32>(noted as usize * g.items() as usize)?;
    let labels = [rings.label().into(), Label::Name(F::LABEL)];
    let shape = config.shape(device);
    let multiply = |noted: u32| {
        let arguments = (
            of.packed.source(),
            of.descales.source(),
            of.operands.source(),
            of.filter_descales.source(),
            bias.source(),
            ended.x.cast(),
            ended.weight.cast(),
            ended.gain,
            ended.shift,
            y.ptr(),
            moments.ptr(),
            largest.ptr(),
            map,
            config.geometry,
            rings,
            ended.ending,
            noted,
        );
        run.launch(&IMPLICIT_GEMM_WIDE, &labels, shape, arguments)
    };
    multiply(noted)?;
    if rounds {
        let (x, descales) = (ended.x.cast(), of.descales.ptr());
        let noted = noted * g.pixel_tiles();
        let arguments = (x, of.packed.ptr(), descales, largest.source(), *g, noted);
        let labels = [Label::Name(F::LABEL)];
        run.launch(&IMPLICIT_GEMM_REPACK, &labels, g.repack_shape(), arguments)?;
        multiply(0)?;
    }
    Ok(rings.tiles)
}

/// The product of any other tiles.
#[expect(clippy::too_many_arguments, reason = "as many as the kernel has")]
pub(super) fn multiply<F: Packed>(
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
        of.packed.source(),
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
        y.ptr(),
        moments.ptr(),
        config.geometry,
        ended.ending,
    );
    let labels = [tile.into(), Label::Name(F::LABEL)];
    run.launch(&IMPLICIT_GEMM, &labels, config.shape(&DEVICE), arguments)
}

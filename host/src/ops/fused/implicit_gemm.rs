//! A convolution by an implicit matrix product on tensor cores, with the moments that a norm wants.

use kernels_gpu::fused::implicit_gemm::{
    IMPLICIT_GEMM, IMPLICIT_GEMM_FILTERS, IMPLICIT_GEMM_PACK, IMPLICIT_GEMM_REPACK,
};

use super::convolved::{Convolved, Parameters};
use super::preparation::Preparation;
use crate::device::{DType, DeviceProperties, Tensor};
use crate::error::Result;
use crate::ops::launching::grid;
use crate::ops::{FusedOptions, Precision};
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::Refusal;
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::implicit_gemm::{GemmConfig, GemmDevice, OperandFormat};

const OPERATOR: &str = "implicit_gemm";

/// The way to multiply.
fn format(dtype: DType, precision: Precision) -> OperandFormat {
    match (dtype, precision) {
        (DType::F32, Precision::Accurate) => OperandFormat::SPLIT,
        (DType::F32, Precision::Fast) => OperandFormat::ROUNDED,
        (DType::F16 | DType::BF16, _) => OperandFormat::STORED,
    }
}

/// What configs must know of a device.
fn gemm_device(properties: &DeviceProperties) -> GemmDevice {
    GemmDevice {
        multiprocessors: properties.multiprocessors,
        shared_bytes: properties.shared_bytes_per_block,
        warpgroups: properties.has_warpgroup_products,
    }
}

/// How this convolution is done, with its outputs pooled in windows of `pool` that lie side by side. The search looks at
/// thousands of tiles.
///
/// # Errors
/// Where it has to be done otherwise.
pub(crate) fn gemm_config(
    geometry: &ConvGeometry,
    pool: Option<[u32; 2]>,
    dtype: DType,
    properties: &DeviceProperties,
    options: FusedOptions,
) -> Result<GemmConfig, Refusal> {
    let device = gemm_device(properties);
    let format = format(dtype, options.precision);
    let batch = (!options.batch_invariant).then_some(geometry.n);
    GemmConfig::new(geometry, pool, format, &device, batch)
}

/// The filters as operands of the tensor cores, and the reciprocals of the filters' scales, on the stream of `weight`.
fn prepare(weight: &Tensor, config: &GemmConfig, precision: Precision) -> Result<Vec<Tensor>> {
    let shape = grid(OPERATOR, config.filters_shape())?;
    let channels = config.geometry.conv.output_channels() as usize;
    let mut program = ProgramBuilder::new(weight.device());
    let filters = program.parameter(weight);
    let operands = program.tensor(&[config.filter_words() as usize], DType::F32)?;
    let descales = program.tensor(&[channels], DType::F32)?;
    let kernel = IMPLICIT_GEMM_FILTERS.instance(&[precision.label(weight.dtype())])?;
    let arguments = (filters, operands, descales, config.geometry, config.tile);
    // SAFETY: the config is that of these filters, and the two outputs have the sizes that it says.
    unsafe { program.launch_moving(kernel, shape, arguments, 0) }
    let program = program.finish(&[operands, descales]);
    program.run_once(OPERATOR, weight.stream(), &[])
}

/// The input as the product takes it.
struct Packed {
    words: Value,
    /// Reciprocals of the samples' scales.
    descales: Value,
}

/// Appends what packs `x`.
fn pack(
    program: &mut ProgramBuilder,
    x: Value,
    config: &GemmConfig,
    precision: Precision,
) -> Result<Packed> {
    let (g, dtype) = (&config.geometry, program.dtype(x));
    let shape = grid(OPERATOR, g.pack_shape())?;
    let words = program.tensor(&[config.packed_words() as usize], DType::F32)?;
    let samples = g.conv.n as usize;
    let descales = program.tensor(&[samples], DType::F32)?;
    // Where values are scaled but samples not scanned, what the first pass saw.
    let twice = config.format.scaled && g.scans == 0;
    let slots = if twice {
        samples * g.sample_blocks() as usize
    } else {
        0
    };
    let largest = program.tensor(&[slots], DType::F32)?;
    let bytes_moved = program.bytes(&[x, words, largest]);
    let labels = [precision.label(dtype)];
    let kernel = IMPLICIT_GEMM_PACK.instance(&labels)?;
    let arguments = (x, words, descales, largest, *g);
    // SAFETY: `x` has the shape that the geometry was made from, `words` the config's size, `descales` an element for each
    // sample, and `largest` one for each block if the kernel writes it.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    if twice {
        let kernel = IMPLICIT_GEMM_REPACK.instance(&labels)?;
        let shape = grid(OPERATOR, g.repack_shape())?;
        let bytes_moved = program.bytes(&[largest]);
        let arguments = (x, words, descales, largest, *g);
        // SAFETY: as above; `largest` was written by the kernel before. Only f32 is scaled.
        unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    }
    Ok(Packed { words, descales })
}

/// Appends the convolution of `x`; its output has the shape `output`.
///
/// `config` is what [`gemm_config`] gave for the shapes of `x` and of the parameters, for `precision`, and for the program's
/// device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    config: &GemmConfig,
    precision: Precision,
    output: &[usize],
) -> Result<Convolved> {
    let (g, dtype) = (&config.geometry, program.dtype(x));
    let shape = grid(OPERATOR, config.shape(&gemm_device(program.properties())))?;
    let preparation = Preparation::Gemm {
        precision,
        tile: config.tile,
        cell_channels: g.cell_channels,
        stage_planes: g.stage_planes,
    };
    let weight = program.known(parameters.filters.weight);
    let filters = parameters
        .preparations
        .get((parameters.layer, preparation), || {
            prepare(weight, config, precision)
        })?;
    let [operands, filter_descales] = [0, 1].map(|index| program.parameter(&filters[index]));

    let y = program.tensor(output, dtype)?;
    let moments = program.tensor(&[g.moment_elements() as usize], DType::F32)?;
    let packed = pack(program, x, config, precision)?;
    let bytes_moved = program.bytes(&[packed.words, operands, y, moments]);
    let arguments = (
        packed.words,
        packed.descales,
        operands,
        filter_descales,
        parameters.filters.bias,
        parameters.norm.weight,
        parameters.factors,
        y,
        moments,
        *g,
    );
    let tile = config.tile.name().unwrap_or_default();
    let kernel = IMPLICIT_GEMM.instance(&[tile.into(), precision.label(dtype)])?;
    // SAFETY: packed input and filters are those of this config; bias, norm weight and scale have an element for each channel
    // where they exist; `y` has an element for each output or window, `moments` the geometry's size.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    Ok(Convolved {
        y,
        moments,
        parts: g.pixel_tiles(),
    })
}

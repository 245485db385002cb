//! A convolution by an implicit matrix product on tensor cores, with the moments that a norm wants.

use kernels_gpu::fused::implicit_gemm::{
    IMPLICIT_GEMM, IMPLICIT_GEMM_FILTERS, IMPLICIT_GEMM_IMAGE, IMPLICIT_GEMM_REMAKE,
};

use super::convolved::{Convolved, Parameters};
use super::layout::Layout;
use crate::device::{DType, DeviceProperties, Tensor};
use crate::error::Result;
use crate::ops::launching::grid;
use crate::ops::{FusedOptions, Precision};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::Refusal;
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::implicit_gemm::{GemmDevice, GemmPlan, OperandFormat};

const OPERATOR: &str = "implicit_gemm";

/// The way to multiply.
fn mode(dtype: DType, precision: Precision) -> OperandFormat {
    match (dtype, precision) {
        (DType::F32, Precision::Accurate) => OperandFormat::SPLIT,
        (DType::F32, Precision::Fast) => OperandFormat::ROUNDED,
        (DType::F16 | DType::BF16, _) => OperandFormat::STORED,
    }
}

/// What plans must know of a device.
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
pub(crate) fn gemm_plan(
    geometry: &ConvGeometry,
    pool: Option<[u32; 2]>,
    dtype: DType,
    properties: &DeviceProperties,
    options: FusedOptions,
) -> Result<GemmPlan, Refusal> {
    let device = gemm_device(properties);
    let mode = mode(dtype, options.precision);
    let batch = (!options.batch_invariant).then_some(geometry.n);
    GemmPlan::new(geometry, pool, mode, &device, batch)
}

/// The filters as operands of the tensor cores, and the reciprocals of the filters' scales, on the stream of `weight`.
fn prepare(weight: &Tensor, plan: &GemmPlan, precision: Precision) -> Result<Vec<Tensor>> {
    let shape = grid(OPERATOR, plan.filters_shape())?;
    let channels = plan.geometry.conv.output_channels() as usize;
    let mut program = ProgramBuilder::new(weight.device());
    let filters = program.parameter(weight);
    let operands = program.tensor(&[plan.filter_words() as usize], DType::F32)?;
    let unscales = program.tensor(&[channels], DType::F32)?;
    let kernel = IMPLICIT_GEMM_FILTERS.instance(&[precision.label(weight.dtype())])?;
    let arguments = (
        Read(filters),
        Write(operands),
        Write(unscales),
        plan.geometry,
        plan.tile,
    );
    // SAFETY: the plan is that of these filters, and the two outputs have the sizes that it says.
    unsafe { program.launch(kernel, shape, arguments, 0) }
    let program = program.finish(&[operands, unscales]);
    program.run_once(OPERATOR, weight.stream(), &[])
}

/// The input as the product takes it.
struct Image {
    words: Value,
    /// Reciprocals of the samples' scales.
    unscales: Value,
}

/// Appends what makes the image of `x`.
fn image(
    program: &mut ProgramBuilder,
    x: Value,
    plan: &GemmPlan,
    precision: Precision,
) -> Result<Image> {
    let (g, dtype) = (&plan.geometry, program.dtype(x));
    let shape = grid(OPERATOR, g.image_shape())?;
    let words = program.tensor(&[plan.image_words() as usize], DType::F32)?;
    let samples = g.conv.n as usize;
    let unscales = program.tensor(&[samples], DType::F32)?;
    // Where values are scaled but samples not scanned, what the first pass saw.
    let twice = plan.format.scaled && g.scans == 0;
    let slots = if twice {
        samples * g.sample_blocks() as usize
    } else {
        0
    };
    let largest = program.tensor(&[slots], DType::F32)?;
    let bytes_moved = program.bytes(&[x, words, largest]);
    let labels = [precision.label(dtype)];
    let kernel = IMPLICIT_GEMM_IMAGE.instance(&labels)?;
    let arguments = (Read(x), Write(words), Write(unscales), Write(largest), *g);
    // SAFETY: `x` has the shape that the geometry was made from, `words` the plan's size, `unscales` an element for each
    // sample, and `largest` one for each block if the kernel writes it.
    unsafe { program.launch(kernel, shape, arguments, bytes_moved) }
    if twice {
        let kernel = IMPLICIT_GEMM_REMAKE.instance(&labels)?;
        let shape = grid(OPERATOR, g.remake_shape())?;
        let bytes_moved = program.bytes(&[largest]);
        let arguments = (Read(x), Write(words), Write(unscales), Read(largest), *g);
        // SAFETY: as above; `largest` was written by the kernel before. Only f32 is scaled.
        unsafe { program.launch(kernel, shape, arguments, bytes_moved) }
    }
    Ok(Image { words, unscales })
}

/// Appends the convolution of `x`; its output has the shape `output`.
///
/// `plan` is what [`gemm_plan`] gave for the shapes of `x` and of the parameters, for `precision`, and for the program's
/// device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    plan: &GemmPlan,
    precision: Precision,
    output: &[usize],
) -> Result<Convolved> {
    let (g, dtype) = (&plan.geometry, program.dtype(x));
    let shape = grid(OPERATOR, plan.shape(&gemm_device(program.properties())))?;
    let layout = Layout::Gemm {
        precision,
        tile: plan.tile,
        vector_channels: g.vector_channels,
        stage_chunks: g.stage_chunks,
    };
    let weight = program.known(parameters.filters.weight);
    let filters = parameters.layouts.get((parameters.layer, layout), || {
        prepare(weight, plan, precision)
    })?;
    let [operands, filter_unscales] = [0, 1].map(|index| program.parameter(&filters[index]));

    let y = program.tensor(output, dtype)?;
    let moments = program.tensor(&[g.moment_elements() as usize], DType::F32)?;
    let image = image(program, x, plan, precision)?;
    let bytes_moved = program.bytes(&[image.words, operands, y, moments]);
    let arguments = (
        Read(image.words),
        Read(image.unscales),
        Read(operands),
        Read(filter_unscales),
        parameters.filters.bias.map(Read),
        parameters.norm.weight(),
        Read(parameters.factors),
        Write(y),
        Write(moments),
        *g,
    );
    let tile = plan.tile.name().unwrap_or_default();
    let kernel = IMPLICIT_GEMM.instance(&[tile.into(), precision.label(dtype)])?;
    // SAFETY: image and filters are those of this plan; bias, norm weight and scale have an element for each channel
    // where they exist; `y` has an element for each output or window, `moments` the geometry's size.
    unsafe { program.launch(kernel, shape, arguments, bytes_moved) }
    Ok(Convolved {
        y,
        moments,
        parts: g.pixel_tiles(),
    })
}

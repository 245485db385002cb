//! A convolution by an implicit matrix product on tensor cores, with the moments that a norm wants.

use kernels_gpu::fused::implicit_gemm::{
    IMPLICIT_GEMM, IMPLICIT_GEMM_FILTERS, IMPLICIT_GEMM_REFORMAT, IMPLICIT_GEMM_RESCALE,
    IMPLICIT_GEMM_SM90, boxes,
};

use cuda_std::Label;

use super::convolved::{Convolved, Parameters};
use super::preparation::{Preparation, prepared};
use crate::device::{DType, DeviceProperties};
use crate::error::Result;
use crate::ops::batch_norm::Folded;
use crate::ops::launching::kernel;
use crate::ops::{FusedOptions, Precision};
use crate::program::{BoxesOf, ProgramBuilder, Value};
use crate::spec::launch::Refusal;
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::implicit_gemm::sm90::MainloopConfig;
use crate::spec::launch::implicit_gemm::{Epilogue, GemmConfig, GemmDevice, OperandFormat};

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
    let batch = (!options.batch_invariant).then_some(geometry.n);
    GemmConfig::new(
        geometry,
        pool,
        operand_format(dtype, options),
        &device,
        batch,
    )
}

/// How values become operands.
fn operand_format(dtype: DType, options: FusedOptions) -> OperandFormat {
    type Format = OperandFormat;
    let formats = [Format::F16X2, Format::SCALED_F16, Format::STORED];
    options.precision.pick(dtype, formats)
}

/// How this convolution is done where no norm of its own statistics follows, so that infinities and NaN have to come out as they are.
///
/// # Errors
/// Where it has to be done otherwise.
pub(crate) fn gemm_config_without_norm(
    geometry: &ConvGeometry,
    dtype: DType,
    properties: &DeviceProperties,
    options: FusedOptions,
) -> Result<GemmConfig, Refusal> {
    type Format = OperandFormat;
    let device = gemm_device(properties);
    let batch = (!options.batch_invariant).then_some(geometry.n);
    let formats = [Format::BF16X3, Format::SCALED_F16, Format::STORED];
    let format = options.precision.pick(dtype, formats);
    GemmConfig::new_without_norm(geometry, format, &device, batch)
}

/// What the kernels of `config` for tensors of `dtype` are labelled.
fn label(config: &GemmConfig, precision: Precision, dtype: DType) -> Label {
    match config.format.passes {
        1 => precision.label(dtype),
        _ => Label::Name("bf16x3_f32"),
    }
}

/// The filters as operands of the tensor cores, and the reciprocals of the filters' scales.
fn prepare(
    program: &mut ProgramBuilder,
    parameters: &Parameters<'_>,
    config: &GemmConfig,
    precision: Precision,
) -> Result<[Value; 2]> {
    let &GemmConfig { geometry, tile, .. } = config;
    let form = Preparation::Gemm {
        precision,
        tile,
        k_vector_channels: geometry.k_vector_channels,
        k_block_planes: geometry.k_block_planes,
        slice_planes: geometry.slice_planes,
        passes: config.format.passes,
        depth_k_blocks: geometry.depth_k_blocks,
        outputs_d: geometry.outputs_d,
    };
    let (weight, of) = (parameters.filters.weight, (parameters.layer, form));
    let label = label(config, precision, program.dtype(weight));
    let channels = geometry.conv.output_channels() as usize;
    let append = |program: &mut ProgramBuilder, [filters]: [Option<Value>; 1]| {
        let shape = config.filters_shape();
        let (kernel, shape) = kernel(&IMPLICIT_GEMM_FILTERS, &[label], shape)?;
        let operands = program.tensor(&[config.filter_words() as usize], DType::F32)?;
        let descales = program.tensor(&[channels], DType::F32)?;
        let arguments = (filters, operands, descales, geometry, tile);
        // SAFETY: the config is that of these filters, and the two outputs have the sizes that it says.
        unsafe { program.launch_moving(kernel, shape, arguments, 0) }
        Ok([operands, descales])
    };
    prepared(program, parameters.preparations, of, [Some(weight)], append)
}

/// Appends what reformats `x` as the product takes it; with the reciprocals of the samples' scales.
fn pack(
    program: &mut ProgramBuilder,
    x: Value,
    config: &GemmConfig,
    precision: Precision,
) -> Result<[Value; 2]> {
    let (g, dtype) = (&config.geometry, program.dtype(x));
    let words = program.tensor(&[config.reformatted_words() as usize], DType::F32)?;
    let samples = g.conv.n as usize;
    let descales = program.tensor(&[samples], DType::F32)?;
    // Where values are scaled but samples not scanned, what the first pass saw.
    let twice = config.format.scaled && g.scans == 0;
    let stages = if twice {
        samples * g.sample_blocks() as usize
    } else {
        0
    };
    let largest = program.tensor(&[stages], DType::F32)?;
    let bytes_moved = program.bytes(&[x, words, largest]);
    let label = [label(config, precision, dtype)];
    let (pack, shape) = kernel(&IMPLICIT_GEMM_REFORMAT, &label, g.reformat_shape())?;
    let arguments = (x, words, descales, largest, *g);
    // SAFETY: `x` has the shape that the geometry was made from, `words` the config's size, `descales` an element for each
    // sample, and `largest` one for each block if the kernel writes it.
    unsafe { program.launch_moving(pack, shape, arguments, bytes_moved) }
    if twice {
        let (rescale, shape) = kernel(&IMPLICIT_GEMM_RESCALE, &label, g.rescale_shape())?;
        let bytes_moved = program.bytes(&[largest]);
        let arguments = (x, words, descales, largest, *g, g.sample_blocks());
        // SAFETY: as above; `largest` was written by the kernel before. Only f32 is scaled.
        unsafe { program.launch_moving(rescale, shape, arguments, bytes_moved) }
    }
    Ok([words, descales])
}

/// What is known of the scales of samples that the product rounds: the reciprocals, and the magnitudes that its first launch notes, `recorded` of each tile.
struct Scales {
    descales: Value,
    largest: Value,
    recorded: u32,
}

impl Scales {
    /// Those of `config`, if it rounds.
    fn of(
        program: &mut ProgramBuilder,
        config: &GemmConfig,
        mainloop: Option<MainloopConfig>,
    ) -> Result<Option<Self>> {
        let g = &config.geometry;
        let Some(mainloop) = mainloop.filter(|_| g.is_converted_in_producer()) else {
            return Ok(None);
        };
        // A config whose product rounds counts what it notes in 32 bits.
        let recorded = config.recorded_of_tile(mainloop);
        let all = g.work_tiles() as usize * recorded as usize;
        Ok(Some(Self {
            descales: program.tensor(&[g.conv.n as usize], DType::F32)?,
            largest: program.tensor(&[all], DType::F32)?,
            recorded,
        }))
    }

    /// Appends what finds them, from what was noted.
    fn find(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        config: &GemmConfig,
        label: Label,
    ) -> Result<()> {
        let g = &config.geometry;
        let (kernel, shape) = kernel(&IMPLICIT_GEMM_RESCALE, &[label], g.rescale_shape())?;
        let reformatted = None::<Value>;
        let bytes_moved = program.bytes(&[self.largest]);
        let recorded = self.recorded * g.pixel_tiles();
        let arguments = (x, reformatted, self.descales, self.largest, *g, recorded);
        // SAFETY: the product has noted so many magnitudes of each sample; nothing is reformatted.
        unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
        Ok(())
    }
}

/// Appends the convolution of `x`, which may lie in any way; its output has the shape `output`. Where its channels are neighbours in memory, as
/// in PyTorch's `channels_last`, warp-specialized tiles read 16-bit values as they lie, and round f32 on its way: no launch reformats them, and the bits are the same.
///
/// `config` is what [`gemm_config`] gave for the shapes of `x` and of the parameters, for `precision`, and for the program's
/// device; or [`gemm_config_without_norm`], and the results end as `epilogue` says.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    (config, epilogue): (&GemmConfig, Epilogue),
    precision: Precision,
    output: &[usize],
) -> Result<Convolved> {
    let device = gemm_device(program.properties());
    let strides = program.strides(x);
    let channels_last = strides
        .and_then(|strides| config.channels_last(strides, &device))
        .filter(|channels_last| channels_last.pays_channels_last(&device));
    let is_channels_last = channels_last.is_some();
    let lined = channels_last.or_else(|| config.reformatted_to_nhwc(&device));
    let config = lined.as_ref().unwrap_or(config);
    let (x, reformatted) = if is_channels_last {
        (x, None)
    } else {
        let x = program.in_order(x)?;
        (x, Some(pack(program, x, config, precision)?))
    };
    let (g, dtype) = (&config.geometry, program.dtype(x));
    let [operands, filter_descales] = prepare(program, parameters, config, precision)?;
    let y = program.tensor(output, dtype)?;
    let moments = program.tensor(&[config.moment_elements() as usize], DType::F32)?;
    let mainloop = config.mainloop_config(&device);
    let scales = Scales::of(program, config, mainloop)?;
    let (words, descales) = reformatted.map(<(Value, Value)>::from).unzip();
    let bytes_moved = program.bytes(&[words.unwrap_or(x), operands, y, moments]);
    let (bias, norm_weight) = (parameters.filters.bias, parameters.norm.weight);
    // What a product looks at that no norm follows, or that reformats nothing.
    let x = (g.without_norm != 0 || is_channels_last).then_some(x);
    let weight = (g.without_norm != 0).then_some(parameters.filters.weight);
    let folded = parameters
        .folded
        .map(|Folded { gain, shift }| (gain, shift));
    let (gain, shift) = folded.unzip();
    let (label, shape) = (label(config, precision, dtype), config.shape(&device));
    if let Some(mainloop) = mainloop {
        let (kernel, shape) = kernel(
            &IMPLICIT_GEMM_SM90,
            &[mainloop.label().into(), label],
            shape,
        )?;
        let lines = words.or(x).filter(|_| g.has_nhwc_tile());
        let in_boxes = lines.map(|value| BoxesOf {
            value,
            boxes: boxes(g),
        });
        let largest = scales.as_ref().map(|scales| scales.largest);
        let recorded = scales.as_ref().map_or(0, |scales| scales.recorded);
        let arguments = |recorded: u32, descales: Option<Value>| {
            (
                words,
                descales,
                operands,
                filter_descales,
                bias,
                x,
                weight,
                gain,
                shift,
                y,
                moments,
                largest,
                in_boxes,
                *g,
                mainloop,
                epilogue,
                recorded,
            )
        };
        // SAFETY: reformatted input and filters are those of this config, or the input lies as its strides say; bias, gain and shift have an element for each channel where
        // they exist, and the epilogue says whether the last two do; `y` has an element for each output, `moments` the config's size;
        // the pipelines are those of the launch's shared memory. Where no norm follows, input and filters are there.
        unsafe { program.launch_moving(kernel, shape, arguments(recorded, descales), bytes_moved) }
        if let (Some(scales), Some(x)) = (scales, x) {
            scales.find(program, x, config, label)?;
            let arguments = arguments(0, Some(scales.descales));
            // SAFETY: as above, with the scales that were found.
            unsafe { program.launch_moving(kernel, shape, arguments, 0) }
        }
    } else {
        let tile = config.tile.name().unwrap_or_default();
        let (kernel, shape) = kernel(&IMPLICIT_GEMM, &[tile.into(), label], shape)?;
        let arguments = (
            words,
            descales,
            operands,
            filter_descales,
            bias,
            norm_weight,
            parameters.factors,
            x,
            weight,
            gain,
            shift,
            y,
            moments,
            *g,
            epilogue,
        );
        // SAFETY: as above; norm weight and scale have an element for each channel where they exist, and with pooling `y` has
        // one for each window.
        unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    }
    Ok(Convolved {
        y,
        moments,
        parts: config.moment_parts(),
        moment_channels: g.moment_channels,
    })
}

#[cfg(test)]
mod tests;

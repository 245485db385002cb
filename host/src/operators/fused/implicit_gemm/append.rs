//! The launches of an implicit GEMM with their arguments.

use kernels_gpu::fused::implicit_gemm::{
    IMPLICIT_GEMM, IMPLICIT_GEMM_FILTERS, IMPLICIT_GEMM_REFORMAT, IMPLICIT_GEMM_RESCALE,
    IMPLICIT_GEMM_SM90, IMPLICIT_GEMM_SM90_NHWC, IMPLICIT_GEMM_SM90_REDUCE,
    IMPLICIT_GEMM_SM90_STORE, boxes, filter_boxes,
};

use super::super::convolved::{Convolved, Parameters};
use super::ImplicitGemm;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::preparation::{Preparation, prepared};
use crate::program::{MapOf, ProgramBuilder, Value};
use cuda_std::Label;
use launch_config::implicit_gemm::sm90::MainloopConfig;
use launch_config::implicit_gemm::{Epilogue, GemmConfig};
use launch_config::pointwise::OperandList;
use op_spec::Layout;

/// Returns the filters in operand layout, and the reciprocals of their scales. Kernels have this label.
fn prepare(
    program: &mut ProgramBuilder,
    parameters: &Parameters<'_>,
    gemm: &ImplicitGemm,
    label: Label,
) -> Result<[Value; 2]> {
    let config = &gemm.config;
    let &GemmConfig { geometry, tile, .. } = config;
    let form = Preparation::Gemm {
        class: parameters.class,
        precision: gemm.precision,
        tile,
        k_vector_channels: geometry.k_vector_channels,
        k_block_planes: geometry.k_block_planes,
        slice_planes: geometry.slice_planes,
        passes: config.format.passes,
        depth_k_blocks: geometry.depth_k_blocks,
        outputs_d: geometry.outputs_d,
    };
    let (weight, of) = (parameters.filters.weight, (parameters.layer, form));
    let channels = geometry.conv.output_channels() as usize;
    let append = |program: &mut ProgramBuilder, [filters]: [Option<Value>; 1]| {
        let operands = program.tensor(&[config.filter_words() as usize], DType::F32)?;
        let descales = program.tensor(&[channels], DType::F32)?;
        let (family, shape) = (&IMPLICIT_GEMM_FILTERS, config.filters_shape());
        let arguments = (filters, operands, descales, geometry, tile);
        // SAFETY: the config was made for these filters, and the two outputs have the config's sizes.
        unsafe { program.launch_moving(family, &[label], shape, arguments, 0)? }
        Ok([operands, descales])
    };
    prepared(program, parameters.preparations, of, [Some(weight)], append)
}

/// Returns the reformatted `x` and the reciprocals of the samples' scales; `None` if `x` is read in place. An
/// earlier implicit GEMM may have reformatted it.
fn reformat(
    program: &mut ProgramBuilder,
    x: Value,
    gemm: &ImplicitGemm,
    label: Label,
) -> Result<Option<[Value; 2]>> {
    if !gemm.reformats() {
        return Ok(None);
    }
    let config = &gemm.config;
    let g = &config.geometry;
    if let Some(reformatted) = program.reformatted(x, config) {
        return Ok(Some(reformatted));
    }
    let is_rescaled = config.format.scaled && !g.prescale.is_scanned();
    let words = program.tensor(&[config.reformatted_words() as usize], DType::F32)?;
    let samples = g.conv.n as usize;
    let descales = program.tensor(&[samples], DType::F32)?;
    // The magnitudes that the reformat records, one per block.
    let blocks = if is_rescaled {
        samples * g.sample_blocks() as usize
    } else {
        0
    };
    let largest = program.tensor(&[blocks], DType::F32)?;
    let (family, shape) = (&IMPLICIT_GEMM_REFORMAT, g.reformat_shape());
    let bytes_moved = program.bytes(&[x, words, largest]);
    let arguments = (x, words, descales, largest, *g);
    // SAFETY: `x` has the shape that the geometry was made from, `words` has the config's size, `descales` an
    // element for each sample, and `largest` one for each block if the kernel writes it.
    unsafe { program.launch_moving(family, &[label], shape, arguments, bytes_moved)? }
    if is_rescaled {
        let (family, shape) = (&IMPLICIT_GEMM_RESCALE, g.rescale_shape());
        let bytes_moved = program.bytes(&[largest]);
        let arguments = (x, words, descales, largest, *g, g.sample_blocks());
        // SAFETY: as above; the preceding kernel wrote `largest`. Only f32 is scaled.
        unsafe { program.launch_moving(family, &[label], shape, arguments, bytes_moved)? }
    }
    program.reformats(x, config, [words, descales]);
    Ok(Some([words, descales]))
}

/// The scales of samples that the producer converts: their reciprocals, and the magnitudes that the first
/// launch records, `recorded` of them for each tile.
struct Scales {
    descales: Value,
    largest: Value,
    recorded: u32,
}

impl Scales {
    /// The scales for `config`, if its producer converts.
    fn of(
        program: &mut ProgramBuilder,
        config: &GemmConfig,
        mainloop: Option<MainloopConfig>,
    ) -> Result<Option<Self>> {
        let g = &config.geometry;
        let Some(mainloop) = mainloop.filter(|_| g.is_converted_in_producer()) else {
            return Ok(None);
        };
        // A config with a converting producer has a number of recorded magnitudes that fits 32 bits.
        let recorded = config.recorded_of_tile(mainloop);
        let all = g.work_tiles() as usize * recorded as usize;
        Ok(Some(Self {
            descales: program.tensor(&[g.conv.n as usize], DType::F32)?,
            largest: program.tensor(&[all], DType::F32)?,
            recorded,
        }))
    }

    /// Appends the launch that computes the scales from the recorded magnitudes.
    fn find(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        config: &GemmConfig,
        label: Label,
    ) -> Result<()> {
        let g = &config.geometry;
        let (family, shape) = (&IMPLICIT_GEMM_RESCALE, g.rescale_shape());
        let reformatted = None::<Value>;
        let bytes_moved = program.bytes(&[self.largest]);
        let recorded = self.recorded * g.pixel_tiles();
        let arguments = (x, reformatted, self.descales, self.largest, *g, recorded);
        // SAFETY: the GEMM has written this number of magnitudes for each sample; nothing is reformatted.
        unsafe { program.launch_moving(family, &[label], shape, arguments, bytes_moved) }
    }
}

/// Appends the convolution of `x`. `x` may have any strides if it is read as channels-last, and is dense
/// otherwise.
/// The output has the shape `output`; it is `y` if that exists, which several implicit GEMMs may write that
/// shuffle their results. The bits do not depend on the loader. Without a norm, results are stored through an
/// epilogue and a list that the kernels support ([`ImplicitGemm::can_store`]).
///
/// `gemm` was chosen for the shapes of `x` and of the parameters, and for the program's device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    gemm: &ImplicitGemm,
    (epilogue, list): (Epilogue, OperandList),
    (output, y): (&[usize], Option<Value>),
) -> Result<Convolved> {
    let label = gemm.label(program.dtype(x));
    let reformatted = reformat(program, x, gemm, label)?;
    let y = match y {
        Some(y) => y,
        None => {
            let order = Order::of_layout(output, gemm.writes())?;
            program.tensor_as(output, program.dtype(x), order)?
        }
    };
    let &ImplicitGemm {
        ref config,
        mainloop,
        shape,
        reduced,
        ..
    } = gemm;
    let (g, dtype) = (&config.geometry, program.dtype(x));
    let operands = match gemm.has_filters_in_place() {
        true => None,
        false => Some(prepare(program, parameters, gemm, label)?),
    };
    let (operands, filter_descales) = operands.map(<(Value, Value)>::from).unzip();
    let filters = operands.unwrap_or(parameters.filters.weight);
    let moments = program.tensor(&[config.moment_elements() as usize], DType::F32)?;
    let scales = Scales::of(program, config, mainloop)?;
    let (words, descales) = reformatted.map(<(Value, Value)>::from).unzip();
    let written = match g.epilogue.is_shuffled() {
        true => g.results() * dtype.size() as u64,
        false => program.bytes(&[y]),
    };
    let bytes_moved = program.bytes(&[words.unwrap_or(x), filters, moments]) + written;
    let (bias, norm_weight) = (parameters.filters.bias, parameters.norm.weight);
    // The input itself, for the NaN/Inf fix-up pass or for reading in place.
    let x = (g.epilogue.is_store() || !gemm.reformats()).then_some(x);
    let weight = (g.epilogue.is_store()).then_some(parameters.filters.weight);
    let [(gain, shift), (gain_behind, shift_behind)] = parameters.gains_and_shifts();
    let (list, rounded) = gemm.lists(&list, dtype);
    if let Some(mainloop) = mainloop {
        let labels = [mainloop.label().into(), gemm.mainloop_label(label)];
        let boxed = words.or(x).filter(|_| g.staged_tiles.of_k_block > 0);
        let in_boxes = boxed.map(|value| MapOf::read(value, boxes(g)));
        let in_place = gemm.has_filters_in_place();
        let filter_boxes = in_place.then(|| MapOf::read(filters, filter_boxes(g)));
        let largest = scales.as_ref().map(|scales| scales.largest);
        let residual = parameters.residual;
        let launch = |program: &mut ProgramBuilder, recorded, descales, bytes_moved| {
            // The arguments that all kernels have, and those before and after the output that some have.
            macro_rules! launch {
                ($family:ident: $($before:expr),*; $($behind:expr),+) => {{
                    let arguments = (
                        words, descales, operands, filter_descales, bias, $($before,)*
                        y, $($behind,)+ recorded,
                    );
                    // SAFETY: reformatted input and filters are those of this config, or are read in place by
                    // their strides. Bias, gain and shift, if present, have an element for each channel; the
                    // epilogue and the list say whether the last two are. `y` has an element for each output,
                    // and `moments` has the config's size, or one for each result that `reduced` leaves. The
                    // pipelines fit the launch's shared memory. Without a norm, input and filters exist. The
                    // list (`rounded` in NHWC) says whether there is a residual, which has the shape and
                    // layout of `y`.
                    unsafe {
                        program.launch_moving(&$family, &labels, shape, arguments, bytes_moved)
                    }
                }};
            }
            match gemm.writes() {
                Layout::Nchw if !g.epilogue.is_store() => launch!(
                    IMPLICIT_GEMM_SM90:; moments, largest, in_boxes, filter_boxes, *g, mainloop
                ),
                Layout::Nchw if let Some(reduced) = reduced => launch!(
                    IMPLICIT_GEMM_SM90_REDUCE: x, weight, gain, shift, gain_behind, shift_behind;
                    largest, in_boxes, filter_boxes, *g, mainloop, epilogue, list, reduced
                ),
                Layout::Nchw => launch!(
                    IMPLICIT_GEMM_SM90_STORE: x, weight, gain, shift, gain_behind, shift_behind,
                    residual; largest, in_boxes, filter_boxes, *g, mainloop, epilogue, list
                ),
                Layout::Nhwc => launch!(
                    IMPLICIT_GEMM_SM90_NHWC: x, weight, gain, shift, gain_behind, shift_behind,
                    residual; largest, in_boxes, filter_boxes, *g, mainloop, epilogue, list, rounded
                ),
            }
        };
        let recorded = scales.as_ref().map_or(0, |scales| scales.recorded);
        let read = residual.map_or(0, |residual| program.bytes(&[residual]));
        launch(program, recorded, descales, bytes_moved + read)?;
        if let (Some(scales), Some(x)) = (scales, x) {
            // Samples for which the optimistic scale fails are computed again.
            scales.find(program, x, config, label)?;
            launch(program, 0, Some(scales.descales), 0)?;
        }
    } else {
        let labels = [config.tile.name().unwrap_or_default().into(), label];
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
            gain_behind,
            shift_behind,
            y,
            moments,
            *g,
            epilogue,
            list,
        );
        // SAFETY: as above; norm weight and scale, if present, have an element for each channel, and with
        // pooling `y` has one for each window.
        unsafe { program.launch_moving(&IMPLICIT_GEMM, &labels, shape, arguments, bytes_moved)? }
    }
    Ok(Convolved { y, moments })
}

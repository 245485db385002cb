//! A convolution from NHWC to NHWC as a matrix product with operands loaded through tensor maps.

use kernels_gpu::copy_strided::COPY_STRIDED;
use kernels_gpu::fused::gemm::pad_channels::GEMM_PAD_CHANNELS;
use kernels_gpu::fused::gemm::{GEMM_SM90, boxes_of_filters, boxes_of_output, map_of_input};
use launch_config::Presence;
use launch_config::copy_strided::CopyGeometry;
use launch_config::gemm::{FilterOrder, Gemm, PadChannelsGeometry};
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};

use super::convolved::Parameters;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::batch_norm_parameters::{FoldedInKernel, Statistics};
use crate::operators::preparation::{Preparation, prepared};
use crate::program::{MapOf, ProgramBuilder, Value, channels_last};
use crate::spec::BatchNormProblem;
use launch_config::pointwise::{OperandList, PointwiseList};
use op_spec::Layout;

/// The form in which the kernel reads the filters.
#[derive(Clone, PartialEq, Eq)]
enum Filters {
    /// The filters themselves, in place.
    InPlace,
    /// A channels-last copy.
    Copied(Box<CopyGeometry>),
    /// A copy with more channels (padded).
    Padded(PadChannelsGeometry),
}

impl Filters {
    fn of(gemm: &Gemm) -> Result<Self> {
        if let Some(few) = gemm.few_channels {
            let is_channels_last = gemm.filters != FilterOrder::ChannelsFirst;
            return Ok(Self::Padded(few.filters(is_channels_last)));
        }
        if gemm.filters != FilterOrder::ChannelsFirst {
            return Ok(Self::InPlace);
        }
        let conv = &gemm.geometry.conv;
        let extents = [conv.group_k, conv.group_c, conv.taps()];
        let copy = channels_last(extents.map(|extent| extent as usize))?;
        Ok(Self::Copied(Box::new(copy)))
    }

    /// Appends the preparation of the filters.
    fn append(
        self,
        program: &mut ProgramBuilder,
        parameters: &Parameters<'_>,
        gemm: &Gemm,
    ) -> Result<Value> {
        let weight = parameters.filters.weight;
        if self == Self::InPlace {
            return Ok(weight);
        }
        let conv = &gemm.geometry.conv;
        let (taps, channels) = (conv.taps(), conv.group_c);
        let padded = match &self {
            Self::Padded(copy) => Some(*copy),
            Self::InPlace | Self::Copied(_) => None,
        };
        let class = parameters.class;
        let of = (
            parameters.layer,
            Preparation::ChannelsLast { class, padded },
        );
        let extents = [conv.group_k, taps, channels].map(|extent| extent as usize);
        let append = |program: &mut ProgramBuilder, [weight]: [Option<Value>; 1]| {
            let weight = weight.expect("filters are not optional");
            let y = program.tensor(&extents, program.dtype(weight))?;
            let unused = program.tensor(&[0], DType::F32)?;
            match self {
                Self::InPlace => {}
                Self::Copied(copy) => {
                    let (labels, shape) = ([program.dtype(weight).label(); 2], copy.shape());
                    // SAFETY: `weight` is dense and has the extents of the geometry; `y` has as many
                    // elements.
                    unsafe { program.launch(&COPY_STRIDED, &labels, shape, (weight, y, *copy))? }
                }
                Self::Padded(copy) => pad(program, [weight, y], copy)?,
            }
            Ok([y, unused])
        };
        let [filters, _] = prepared(program, parameters.preparations, of, [Some(weight)], append)?;
        Ok(filters)
    }
}

/// Appends the launch that copies `x` to `y`, which has more channels.
fn pad(program: &mut ProgramBuilder, [x, y]: [Value; 2], copy: PadChannelsGeometry) -> Result<()> {
    let (label, shape) = (program.label(x), copy.shape());
    let (arguments, bytes_moved) = ((x, y, copy), program.bytes(&[x, y]));
    // SAFETY: the geometry was made for `x`, and `y` has the geometry's number of elements.
    unsafe { program.launch_moving(&GEMM_PAD_CHANNELS, &label, shape, arguments, bytes_moved) }
}

/// The part of a tensor's channels that a product writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The first channel.
    pub(crate) start: usize,
    /// The tensor's channels.
    pub(crate) channels: usize,
}

/// Makes a dense NHWC tensor of this shape, all of whose channels are the product's, for the result of `x`.
pub(crate) fn output(
    program: &mut ProgramBuilder,
    x: Value,
    shape: &[usize],
) -> Result<(Value, Part)> {
    let order = Order::of_layout(shape, Layout::Nhwc)?;
    let y = program.tensor_as(shape, program.dtype(x), order)?;
    let channels = shape[1];
    Ok((y, Part { start: 0, channels }))
}

/// Whether the kernel can apply a list.
pub(crate) fn applies(list: &OperandList) -> bool {
    let is_plain = !(list.has_residual() || list.is_affine());
    RoundedEpilogue::of(list).is_some() || is_plain && !list.functions.keeps().is_present()
}

/// Appends the launch, which writes a part of `y`: the convolution of `x`, which is dense NHWC, with the
/// batch norm or with the gain and the shift of `parameters`, and with the epilogue.
///
/// `gemm` was chosen for the shapes of `x` and of the parameters, and for the program's device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    norm: Option<(Statistics, BatchNormProblem)>,
    gemm: &Gemm,
    (epilogue, list): (Epilogue, OperandList),
    (y, part): (Value, Part),
) -> Result<Value> {
    let filters = Filters::of(gemm)?.append(program, parameters, gemm)?;
    let x = match gemm.few_channels {
        Some(few) => {
            let copy = program.tensor(&[few.input.elements() as usize], program.dtype(x))?;
            pad(program, [x, copy], few.input)?;
            copy
        }
        None => x,
    };
    let [(gain, shift), _] = parameters.gains_and_shifts();
    let norm = FoldedInKernel::of(program, norm)?;
    let epilogue = Epilogue {
        gain_and_shift: Presence::of(gain.is_some()),
        ..epilogue
    };
    let residual = parameters.residual;
    let (rounded, list) = match RoundedEpilogue::of(&list) {
        Some(rounded) => (rounded, PointwiseList::EMPTY),
        None => (RoundedEpilogue::NONE, list.functions),
    };
    let read: Vec<Value> = [x, filters].into_iter().chain(residual).collect();
    let g = &gemm.geometry;
    let filters_of = g.filters() as usize;
    let [written, start] =
        [g.pixels as usize * filters_of, part.start].map(|values| values * program.dtype(y).size());
    let bytes_moved = program.bytes(&read) + written as u64;
    let [running_mean, running_var, norm_weight, norm_bias] = norm.values;
    let labels = [gemm.tile.label.into(), program.dtype(x).label()];
    let shape = Some(gemm.shape);
    let arguments = (
        Some(MapOf::read(x, map_of_input(gemm))),
        Some(MapOf::read(filters, boxes_of_filters(gemm))),
        residual.map(|residual| MapOf::read(residual, boxes_of_output(gemm, filters_of))),
        Some(MapOf::written(y, boxes_of_output(gemm, part.channels)).starting_at(start)),
        parameters.filters.bias,
        gain,
        shift,
        running_mean,
        running_var,
        norm_weight,
        norm_bias,
        gemm.geometry,
        norm.geometry,
        norm.ty,
        norm.presence,
        epilogue,
        rounded,
        list,
    );
    // SAFETY: `x`, the residual and `y` are dense NHWC and the filters channels-last, of the extents that
    // `gemm` was chosen for. Bias, gain, shift and norm, if present, have an element for each filter.
    unsafe { program.launch_moving(&GEMM_SM90, &labels, shape, arguments, bytes_moved)? }
    Ok(y)
}

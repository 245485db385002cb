//! A convolution as an implicit GEMM on tensor cores, with moments for a norm.

mod append;
mod stored;

use std::fmt;

use cuda_std::Label;

pub(crate) use append::append;

use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::operators::{FusedOptions, Precision};
use launch_config::Refusal;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::sm90::{MainloopConfig, Residency, Schedule};
use launch_config::implicit_gemm::{
    EpilogueKind, GemmConfig, GemmDevice, Loader, OperandFormat, PixelShuffle, ReducedResults,
    ResultReduction,
};
use op_spec::Layout;

/// The device properties that a config depends on.
pub(crate) fn gemm_device(properties: &DeviceProperties) -> GemmDevice {
    GemmDevice {
        multiprocessors: properties.multiprocessors,
        shared_bytes: properties.shared_bytes_per_block,
        arch: properties.arch,
        tensor_rates: properties.tensor_rates,
    }
}

/// Returns the operand format, where `accurate` is the format of accurate f32.
fn format(dtype: DType, options: FusedOptions, accurate: OperandFormat) -> OperandFormat {
    let formats = [accurate, OperandFormat::SCALED_F16, OperandFormat::STORED];
    options.precision.pick(dtype, formats)
}

/// Returns the batch size, if the choice may depend on it.
fn batch(conv: &ConvGeometry, options: FusedOptions) -> Option<u64> {
    (!options.batch_invariant).then_some(conv.n)
}

/// A convolution as an implicit GEMM, with all decisions about its launches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImplicitGemm {
    config: GemmConfig,
    precision: Precision,
    /// The mainloop of a warp-specialized tile.
    mainloop: Option<MainloopConfig>,
    shape: Option<LaunchShape>,
    /// The estimated cycles of the launch, by which the tile was chosen.
    cycles: Option<u64>,
    /// Whether all samples count as one, so that tiles span samples.
    is_one_sample: bool,
    /// The reduction of results before they are written, if any.
    reduced: Option<ReducedResults>,
}

impl ImplicitGemm {
    /// A convolution with moments for a norm whose rows have `row_channels` channels, and with results pooled
    /// in non-overlapping `windows`. `strides` are the strides of an input that is not dense. The search
    /// tries thousands of tiles.
    ///
    /// # Errors
    /// The rule that the convolution breaks.
    pub(crate) fn with_moments(
        conv: &ConvGeometry,
        (windows, row_channels): (Option<[u32; 2]>, u32),
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
        strides: Option<[i64; 5]>,
    ) -> Result<Self, Refusal> {
        let (device, batch) = (gemm_device(properties), batch(conv, options));
        let format = format(dtype, options, OperandFormat::F16X2);
        let config = GemmConfig::new(conv, windows, format, &device, batch)?;
        let config = config.for_rows_of(row_channels);
        Ok(Self::new(config, options.precision, &device, strides))
    }

    /// A convolution without a norm, with exact infinities and NaN. The output has this layout if the kernels
    /// can write it, else NCHW. The bits are the same.
    ///
    /// # Errors
    /// The rule that the convolution breaks.
    pub(crate) fn without_norm(
        conv: &ConvGeometry,
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
        strides: Option<[i64; 5]>,
        output: Layout,
    ) -> Result<Self, Refusal> {
        let (device, batch) = (gemm_device(properties), batch(conv, options));
        let format = format(dtype, options, OperandFormat::BF16X3);
        let choose = |epilogue| {
            // Tiles differ in the order of their sums. By default both layouts must have the same bits, so
            // the choice of the tile ignores the layout.
            let decides = match options.batch_invariant {
                true => EpilogueKind::STORE,
                false => epilogue,
            };
            let mut config = GemmConfig::new_without_norm(conv, format, &device, batch, decides)?;
            config.geometry.epilogue = epilogue;
            Ok(Self::new(config, options.precision, &device, strides))
        };
        if output == Layout::Nhwc {
            let gemm = choose(EpilogueKind::STORE_NHWC)?;
            if gemm.config.writes_nhwc(&device, dtype.size() as u32) {
                return Ok(gemm);
            }
        }
        choose(EpilogueKind::STORE)
    }

    /// A convolution without a norm that shuffles its results into an NCHW output.
    ///
    /// # Errors
    /// The rule that the convolution breaks.
    pub(crate) fn shuffled(
        conv: &ConvGeometry,
        shuffle: PixelShuffle,
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
        strides: Option<[i64; 5]>,
    ) -> Result<Self, Refusal> {
        let (device, batch) = (gemm_device(properties), batch(conv, options));
        let format = format(dtype, options, OperandFormat::BF16X3);
        let config = GemmConfig::new_shuffled(conv, shuffle, format, &device, batch)?;
        Ok(Self::new(config, options.precision, &device, strides))
    }

    /// A convolution without a norm that reduces its results before it writes them, to an NCHW output.
    /// `shuffle` tells which filters are phases of a channel.
    ///
    /// # Errors
    /// The rule that the convolution breaks.
    pub(crate) fn reduced(
        conv: &ConvGeometry,
        (reduced, shuffle): (ReducedResults, PixelShuffle),
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
        strides: Option<[i64; 5]>,
    ) -> Result<Self, Refusal> {
        let (device, batch) = (gemm_device(properties), batch(conv, options));
        let format = format(dtype, options, OperandFormat::BF16X3);
        let config = GemmConfig::new_reduced(conv, (&reduced, shuffle), format, &device, batch)?;
        Ok(Self {
            reduced: Some(reduced),
            ..Self::new(config, options.precision, &device, strides)
        })
    }

    /// A convolution without a norm from NHWC to NHWC of a 16-bit type, in tiles with pixels of several
    /// samples. Results may depend on the batch.
    ///
    /// # Errors
    /// The rule that the convolution breaks.
    pub(crate) fn in_nhwc(
        conv: &ConvGeometry,
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
        strides: Option<[i64; 5]>,
    ) -> Result<Self, Refusal> {
        let refusal = Refusal::Needs("an NHWC input of a 16-bit type, and a choice by the batch");
        let strides = strides.filter(|_| dtype != DType::F32 && !options.batch_invariant);
        let (conv, strides) = strides
            .and_then(|strides| conv.as_one_sample(strides))
            .ok_or(refusal)?;
        let device = gemm_device(properties);
        let config = GemmConfig::new_in_nhwc(&conv, &device)?;
        let gemm = Self::new(config, options.precision, &device, Some(strides));
        let writes_nhwc = gemm.config.writes_nhwc(&device, dtype.size() as u32);
        match gemm.reads() {
            Layout::Nhwc if writes_nhwc => Ok(Self {
                is_one_sample: true,
                ..gemm
            }),
            _ => Err(refusal),
        }
    }

    /// The implicit GEMM of `config`, with the input's loader.
    fn new(
        config: GemmConfig,
        precision: Precision,
        device: &GemmDevice,
        strides: Option<[i64; 5]>,
    ) -> Self {
        let epilogue = config.geometry.epilogue;
        let in_place = match strides {
            Some(strides) => config
                .channels_last(strides, device)
                .filter(|in_place| in_place.pays_channels_last(device)),
            // No kernel converts a dense input for an NHWC output, and phases share a reformat.
            None if epilogue.is_nhwc() || epilogue.is_shuffled() => None,
            None => config
                .dense_in_place(device)
                .filter(|in_place| in_place.pays_dense(device)),
        };
        let config = in_place
            .or_else(|| config.reformatted_to_nhwc(device))
            .unwrap_or(config);
        Self {
            mainloop: config.mainloop_config(device),
            shape: config.shape(device),
            cycles: config.cost(device, config.geometry.conv.n),
            config,
            precision,
            is_one_sample: false,
            reduced: None,
        }
    }

    /// The convolution.
    pub(crate) fn conv(&self) -> &ConvGeometry {
        &self.config.geometry.conv
    }

    /// The number of moments of a norm's row with this number of channels.
    pub(crate) fn moments_of_row(&self, row_channels: u32) -> u64 {
        let sets = row_channels / self.config.geometry.moment_channels;
        (sets * self.config.moment_parts()).into()
    }

    /// The layout of the input: NHWC if it is channels-last and read in place.
    pub(crate) fn reads(&self) -> Layout {
        match self.config.geometry.k_vectors.loader.is_channels_last() {
            true => Layout::Nhwc,
            false => Layout::Nchw,
        }
    }

    /// Returns the GEMM with channels-last filters read in place, if its tile can.
    pub(crate) fn with_filters_in_place(self) -> Self {
        let config = self.config.with_filters_in_place();
        Self {
            config: config.unwrap_or(self.config),
            ..self
        }
    }

    /// Whether channels-last filters are read in place.
    pub(crate) fn has_filters_in_place(&self) -> bool {
        self.config.geometry.filters.is_in_place()
    }

    /// Whether a launch reformats the input.
    fn reformats(&self) -> bool {
        let loader = self.config.geometry.k_vectors.loader;
        !(loader.is_channels_last() || loader.is_dense_f32())
    }

    /// Whether both reformat the same input to the same values.
    pub(crate) fn reformats_as(&self, other: &Self) -> bool {
        let reformat = [self, other].iter().all(|gemm| gemm.reformats());
        reformat && self.config.reformats_alike(&other.config)
    }

    /// Whether results are shuffled into the output.
    pub(crate) fn is_shuffled(&self) -> bool {
        self.config.geometry.epilogue.is_shuffled()
    }

    /// Whether results are reduced before they are written.
    pub(crate) fn is_reduced(&self) -> bool {
        self.reduced.is_some()
    }

    /// Whether tiles have pixels of several samples.
    pub(crate) fn is_one_sample(&self) -> bool {
        self.is_one_sample
    }

    /// The label of the kernels for tensors of `dtype`.
    fn label(&self, dtype: DType) -> Label {
        match self.config.format.passes {
            1 => self.precision.label(dtype),
            _ => Label::Name("bf16x3_f32"),
        }
    }

    /// The label of warp-specialized kernels, where `label` is that of other kernels.
    fn mainloop_label(&self, label: Label) -> Label {
        match self.config.geometry.k_vectors.loader.is_dense_f32() {
            true => Label::Name("dense_f32"),
            false => label,
        }
    }

    /// The layout of the output.
    pub(crate) fn writes(&self) -> Layout {
        match self.config.geometry.epilogue.is_nhwc() {
            true => Layout::Nhwc,
            false => Layout::Nchw,
        }
    }
}

/// Formats a number and a noun in singular or plural.
fn counted(count: u32, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for ImplicitGemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (config, g) = (&self.config, &self.config.geometry);
        let tile = config.tile.name().unwrap_or_default();
        let operands = match config.format {
            OperandFormat::F16X2 => "f16x2 split",
            OperandFormat::SCALED_F16 => "scaled f16",
            OperandFormat::BF16X3 => "bf16x3 split",
            _ => "operands as stored",
        };
        let (filters, pixels) = (config.tile.filters(), config.tile.pixels());
        write!(
            f,
            "tile {tile} of {filters} filters x {pixels} pixels ({}x{}x{}), {operands}",
            g.tile_d, g.tile_h, g.tile_w
        )?;
        if let Some(mainloop) = &self.mainloop {
            let schedule = match mainloop.schedule {
                Schedule::COOPERATIVE => "cooperative",
                _ => "ping-pong",
            };
            let resident = match mainloop.residency {
                Residency::STREAMED => "",
                _ => ", resident",
            };
            write!(
                f,
                ", {schedule}, {} of filters a block, {} halo stages, {}{resident}",
                counted(mainloop.tiles, "tile"),
                mainloop.halos,
                counted(mainloop.filters, "filter stage")
            )?;
        }
        if config.split_k > 1 {
            write!(f, ", split-K over {} blocks", config.split_k)?;
        }
        let k_blocks = counted(g.k_blocks, "K block");
        write!(f, ", {k_blocks} of {}", counted(g.mma_steps, "MMA step"))?;
        if let Some(cycles) = self.cycles {
            write!(f, ", about {cycles} cycles")?;
        }
        f.write_str(match g.k_vectors.loader {
            Loader::CHANNELS_LAST if g.is_converted_in_producer() => {
                "; channels-last input read in place, f32 converted in the producer"
            }
            Loader::CHANNELS_LAST if self.is_one_sample => {
                "; channels-last input read in place, tiles of several samples"
            }
            Loader::CHANNELS_LAST => "; channels-last input read in place",
            Loader::DENSE_F32 => "; input read in place, f32 converted in the producer",
            Loader::REFORMAT_TO_NHWC => "; input reformatted to channels-last K-vectors",
            _ => "; input reformatted to padded planes of K-vectors",
        })?;
        f.write_str(match self.has_filters_in_place() {
            true => ", channels-last filters read in place",
            false => "",
        })?;
        let Some(reduced) = &self.reduced else {
            return Ok(());
        };
        let operation = match reduced.operation {
            ResultReduction::MAX => "maxima",
            ResultReduction::MIN => "minima",
            _ => "sums",
        };
        write!(f, "; written are {operation}")?;
        if reduced.log_filters > 0 {
            write!(f, " of {} filters", 1 << reduced.log_filters)?;
        }
        let [rows, columns] = reduced.window();
        match rows * columns {
            1 => Ok(()),
            _ => write!(f, " of windows of {rows}x{columns}"),
        }
    }
}

#[cfg(test)]
mod tests;

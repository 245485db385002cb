//! Warp-specialized tiles with channels-last halo tiles, from inputs read in place and from reformatted ones.
//! Both give the bits of NCHW tiles.

use std::collections::BTreeSet;

use cuda_std::Storage;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, K_VECTOR_VALUES, OperandFormat, Prescale, WARP_SPECIALIZED,
};
use ndarray::ArrayD;

use super::convolved::{Convolution, DEVICE, Operand, ScaledF16};
use super::implicit_gemm::{FOR_SINGLE_TILES, FOR_WARP_SPECIALIZED_TILES};
use super::implicit_gemm_launch::{Ended, Operands, multiply_warp_specialized, prepare};
use super::implicit_gemm_lists::nhwc;
use super::implicit_gemm_without_norm::storing;
use super::rows::{Row, rows};
use super::{Failure, Loaded, Outcome, Run, Tensor, bits, same_bits};

fn table() -> [Row; 12] {
    rows! {
        // Padding on all sides; two planes at a time.
        [2, 16, 24], [1, 7, 9], [1, 3, 3], padding([0, 1, 1]);
        // Four planes at a time; stride phases; a column and a row that no window sees.
        [1, 32, 16], [1, 18, 26], [1, 3, 3], stride([1, 2, 2]), padding([0, 1, 0]);
        // Groups.
        [2, 64, 16], [1, 9, 11], [1, 3, 3], padding([0, 1, 0]), dilation([1, 1, 2]), groups(2);
        // Octets of several slices, all strides, a slice of the filter a K block.
        [1, 24, 72], [9, 17, 18], [3, 3, 3], stride([2; 3]), padding([1; 3]), dilation([1, 2, 1]);
        // One plane, whose neighbouring columns form an MMA step.
        [2, 8, 20], [3, 9, 14], [2, 3, 5], padding([0, 1, 2]), dilation([1, 1, 3]);
        // Several tiles of filters, and pipelines that wrap around.
        [2, 72, 130], [1, 5, 18], [1, 1, 3];
        // Halo tiles in the padding alone.
        [1, 16, 9], [1, 4, 5], [1, 3, 3], padding([0, 40, 1]);
        // Groups of six planes, of which a K block has four, in two lines.
        [1, 96, 10], [1, 6, 8], [1, 1, 1], groups(2);
        // Four strips, whose boxes are rows.
        [1, 32, 9], [1, 8, 32], [1, 3, 3], padding([0, 1, 1]);
        // Split-K over two blocks.
        [3, 32, 16], [3, 17, 10], [3, 3, 3], split(2);
        // Boxes of stride phases, each in two pieces. The second piece is smaller where the producer converts
        // values.
        [1, 16, 8], [1, 65, 17], [1, 3, 3], stride([1, 2, 2]);
        // Large halo tiles, of which shared memory holds two.
        [1, 64, 9], [1, 59, 38], [1, 2, 2], dilation([1, 39, 18]);
    }
}

/// Dense inputs that the producer converts.
fn dense_table() -> [Row; 10] {
    rows! {
        // Rows of whole vectors of four f32, which the producer converts from a dense input. Padding on all
        // sides, and pipelines that wrap around.
        [3, 40, 72], [1, 13, 20], [1, 3, 3], padding([0, 1, 1]);
        // Output rows with any alignment.
        [1, 16, 72], [1, 9, 20], [1, 2, 4];
        // Channels that are no whole K-vector, and several rows of strips.
        [1, 13, 16], [1, 20, 40], [1, 3, 5], padding([0, 1, 2]);
        // Three channels: K-vectors of two columns of four channels, the last of them absent.
        [2, 3, 24], [1, 12, 16], [1, 3, 3], padding([0, 1, 1]);
        // One channel, K-vectors of eight columns; two channels, dilated columns.
        [1, 1, 16], [1, 20, 24], [1, 3, 9];
        [1, 2, 16], [1, 20, 24], [1, 3, 5], dilation([1, 1, 2]);
        // Slices of tiles and filters, strides in depth and columns.
        [1, 24, 72], [9, 17, 20], [3, 3, 3], stride([2, 1, 1]), padding([1; 3]), dilation([1, 2, 1]);
        [1, 16, 16], [3, 9, 36], [2, 3, 3], stride([1, 1, 2]), padding([0, 1, 1]);
        // Groups whose planes are whole K blocks.
        [2, 64, 32], [1, 9, 12], [1, 3, 3], padding([0, 1, 1]), groups(2);
        // Slices next to each other in the halo tile, whose last staged tile has fewer rows.
        [1, 8, 16], [5, 23, 12], [3, 3, 3];
    }
}

/// Strides of an input's samples, channels, slices, rows and columns, in elements. Channels are contiguous,
/// and gaps follow pixels, rows, slices and samples.
fn strides(conv: &ConvGeometry) -> [i64; 5] {
    let column = i64::from(conv.input_channels()) + 8;
    let row = i64::from(conv.w) * column + 16;
    let slice = i64::from(conv.h) * row + 8;
    let sample = i64::from(conv.d) * slice + 24;
    [sample, 1, slice, row, column]
}

/// The input in memory with these strides. The gaps are uninitialised.
fn laid_out<T: Storage>(
    run: &Run,
    x: &ArrayD<f32>,
    strides: [i64; 5],
) -> Result<Tensor<T>, Failure> {
    let place = |index: &[usize]| -> usize {
        let along = index.iter().zip(strides);
        along.map(|(&index, stride)| index * stride as usize).sum()
    };
    let last: Vec<usize> = x.shape().iter().map(|extent| extent - 1).collect();
    let tensor = run.empty::<T>(place(&last) + 1)?;
    for (index, &value) in x.indexed_iter() {
        let index: Vec<usize> = (0..5).map(|axis| index[axis]).collect();
        let at = place(&index) * size_of::<T>();
        tensor.buffer.write(at, &bits(T::from_f32(value)))?;
    }
    Ok(tensor)
}

/// The config of a row. It treats samples as large: the producer converts no others.
fn config_of<F: Operand>(conv: &Convolution, split_k: u32) -> GemmConfig {
    let geometry = conv.geometry;
    let config = GemmConfig::with_tile(&geometry, None, F::OPERANDS, &DEVICE, WARP_SPECIALIZED);
    let mut config = GemmConfig {
        split_k,
        ..config.expect("a config")
    };
    config.geometry.prescale = Prescale::OPTIMISTIC;
    config
}

/// Checks all rows, with and without a norm, also on non-finite values. For f32, [`dense_has_same_bits`] has
/// the rows of dense inputs.
pub(crate) fn same_bits_as_reformatted<F: Operand>(run: &Run) -> Outcome {
    let dense = F::OPERANDS.is_stored().then(dense_table);
    let rows = table().into_iter().chain(dense.into_iter().flatten());
    let mut strips = BTreeSet::new();
    for (number, row) in rows.enumerate() {
        let mut conv = Convolution::new::<F::Stored>(row);
        let config = config_of::<F>(&conv, row.split_k);
        if number == 1 {
            // Infinities in the last column, which no window reads.
            assert!(config.geometry.used_w < conv.geometry.w);
            for (index, x) in conv.case.x.indexed_iter_mut() {
                if index[4] + 1 == row.input[2] {
                    *x = f32::INFINITY;
                }
            }
        }
        strips.insert(config.geometry.strips);
        with_and_without_norm::<F>(run, &format!("row {number}"), conv, &config)?;
    }
    // The rows cover boxes of each kind.
    if F::OPERANDS.is_stored() {
        assert!(
            [0, 1, 2, 4].iter().all(|kind| strips.contains(kind)),
            "{strips:?}"
        );
    }
    Ok(())
}

/// Checks all rows of dense f32 inputs, as [`same_bits_as_reformatted`] does.
pub(crate) fn dense_has_same_bits(run: &Run) -> Outcome {
    let mut has_remainders = false;
    for (number, row) in dense_table().into_iter().enumerate() {
        let conv = Convolution::new::<f32>(row);
        let config = config_of::<ScaledF16>(&conv, row.split_k);
        let dense = config.dense_in_place(&FOR_WARP_SPECIALIZED_TILES);
        let g = dense.expect("a dense input").geometry;
        let [rows, slices] = [g.staged_tiles.extents[0], g.staged_tiles.counts[1]];
        has_remainders |= g.strips == 0 && slices > 1 && !g.slice_rows().is_multiple_of(rows);
        with_and_without_norm::<ScaledF16>(run, &format!("row {number}"), conv, &config)?;
    }
    assert!(has_remainders);
    Ok(())
}

fn with_and_without_norm<F: Operand>(
    run: &Run,
    what: &str,
    mut conv: Convolution,
    config: &GemmConfig,
) -> Outcome {
    check::<F>(run, what, &conv, config)?;
    let is_rounded = F::OPERANDS == OperandFormat::SCALED_F16;
    let last_sample_times = |conv: &mut Convolution, factor: f32| {
        let mut samples = conv.case.x.outer_iter_mut();
        let last = samples.next_back().expect("a sample");
        last.into_iter().for_each(|x| *x *= factor);
        format!("{what}, the last sample times {factor}")
    };
    if is_rounded {
        // A scale other than the optimistic one.
        let what = last_sample_times(&mut conv, 1e-6);
        check::<F>(run, &what, &conv, config)?;
    }
    let all = conv.case.x.len();
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for (index, value) in [0, all / 2 + 3, all - 1].into_iter().zip(values) {
        *conv.case.x.iter_mut().nth(index).expect("an element") = value;
    }
    // Only where the last K block is full: otherwise halo tiles of planes repeat the last plane, and it meets
    // filters of 0.
    if is_rounded && config.geometry.planes.is_multiple_of(4) {
        let what = last_sample_times(&mut conv, 1e10);
        check::<F>(run, &what, &conv, config)?;
    }
    let what = format!("{what}, alone");
    check::<F>(run, &what, &conv, &storing(*config))
}

/// Checks a random convolution, if its channels are whole K-vectors and it has several warp-specialized
/// tiles. Returns the number of checked convolutions.
pub(super) fn drawn<F: Operand>(
    run: &Run,
    what: &str,
    conv: Convolution,
) -> Result<usize, Failure> {
    let geometry = conv.geometry;
    let config = GemmConfig::with_tile(&geometry, None, F::OPERANDS, &DEVICE, WARP_SPECIALIZED);
    let strides = strides(&geometry);
    let of_k_vectors = config.filter(|config| {
        config.geometry.pixel_tiles() > 1
            && config
                .channels_last(strides, &FOR_WARP_SPECIALIZED_TILES)
                .is_some()
    });
    let Some(config) = of_k_vectors else {
        return Ok(0);
    };
    with_and_without_norm::<F>(run, what, conv, &config)?;
    Ok(1)
}

/// Whether the kernel reads the input in place: stored values that are operands, or f32 that the producer
/// converts.
fn is_read_as_it_lies(config: &GemmConfig) -> bool {
    let (format, g) = (config.format, &config.geometry);
    let is_rounded =
        format == OperandFormat::SCALED_F16 && !g.epilogue.is_store() && !g.prescale.is_scanned();
    let are_k_vectors = g.conv.group_c.is_multiple_of(K_VECTOR_VALUES);
    are_k_vectors && (format.is_stored() || is_rounded && g.strips != 2)
}

fn check<F: Operand>(run: &Run, what: &str, conv: &Convolution, config: &GemmConfig) -> Outcome {
    let Loaded { x, parameters } = run.load::<F::Stored>(&conv.case)?;
    let (weight, bias) = (&parameters[0], &parameters[1]);
    let ended = |x: &Tensor<F::Stored>| Ended {
        x: x.source::<F::Stored>(),
        weight: weight.source(),
        ..Ended::NONE
    };
    let outputs = conv.geometry.n
        * u64::from(conv.geometry.output_channels())
        * u64::from(conv.geometry.output_pixels());
    type Results<T> = (Tensor<T>, Tensor<f32>);
    let multiply = |config: &GemmConfig,
                    device: &GemmDevice,
                    operands: &Operands,
                    x: &Tensor<F::Stored>|
     -> Result<Results<F::Stored>, Failure> {
        let y = run.empty::<F::Stored>(outputs as usize)?;
        let moments = run.empty::<f32>(config.moment_elements() as usize)?;
        let ended = ended(x);
        multiply_warp_specialized::<F>(run, config, device, operands, bias, &ended, &y, &moments)?;
        let tensors = (operands, bias, &ended);
        // No kernel converts a dense input for an NHWC output.
        if !config.geometry.k_vectors.loader.is_dense_f32() {
            nhwc::<F>(run, what, (config, &[device]), tensors, &y, &[vec![]])?;
        }
        Ok((y, moments))
    };
    let operands = prepare::<F>(run, config, &x, weight)?;
    let (y, moments) = multiply(config, &FOR_WARP_SPECIALIZED_TILES, &operands, &x)?;
    // One and two tiles a block; both load halo tiles in the same way.
    let is_whole = conv.geometry.output_channels() <= WARP_SPECIALIZED.filters();
    let devices = [&FOR_WARP_SPECIALIZED_TILES, &FOR_SINGLE_TILES];
    let devices = &devices[..2 - usize::from(is_whole)];
    let same = |way: &str, (other, other_moments): Results<F::Stored>| {
        same_bits(&format!("{what}, {way}"), &other, &y)?;
        same_bits(&format!("{what}, {way}, moments"), &other_moments, &moments)
    };
    for device in devices {
        let Some(lined) = config.reformatted_to_nhwc(device) else {
            let g = &config.geometry;
            let is_odd = g.conv.input_pixels() % 2 == 1;
            let is_interleaved = g.strips == 2 && !F::OPERANDS.is_stored();
            let few = g.k_vector_channels < K_VECTOR_VALUES;
            assert!(
                g.pair_k_vectors > 0 || is_odd || is_interleaved || few,
                "{what}: no lines"
            );
            continue;
        };
        let operands = prepare::<F>(run, &lined, &x, weight)?;
        same("in lines", multiply(&lined, device, &operands, &x)?)?;
    }
    let operands = operands.without_input(run, conv.geometry.n as usize)?;
    for device in devices {
        if let Some(dense) = config.dense_in_place(device) {
            same("dense", multiply(&dense, device, &operands, &x)?)?;
        }
    }
    if !is_read_as_it_lies(config) {
        return Ok(());
    }
    let strides = strides(&conv.geometry);
    let x = laid_out::<F::Stored>(run, &conv.case.x, strides)?;
    for device in devices {
        let channels_last = config
            .channels_last(strides, device)
            .unwrap_or_else(|| panic!("{what}: no NHWC halo tile"));
        same("unpacked", multiply(&channels_last, device, &operands, &x)?)?;
    }
    Ok(())
}

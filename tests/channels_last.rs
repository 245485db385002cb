//! Channels-last inputs that warp-specialized kernels read in place: 16-bit values, and f32 that the
//! producer converts.

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::model::{Explanation, Precision, RegionFacts};
use convfuse::spec::{Conv2dSpec, Layout, MaxPool2dSpec};
use convfuse::{DType, Error, Inputs, Model, Options, Tensor, data};
use libtest_mimic::Trial;
use ndarray::Axis;

use crate::backend::{Backend, Outcome};
use crate::layouts::{Way, are_close, bits_of, channels_last, lying, lying_last, way};
use crate::suite::count;

pub(crate) fn trials() -> Vec<Trial> {
    let group = "channels_last";
    let name = "depthwise_convolutions_and_pools_reformat_nothing";
    let mut trials = Backend::trials(&Backend::KERNELS, group, &[(name, slides)]);
    trials.extend(Backend::trials(
        &Backend::KERNELS_OF_ALL,
        group,
        &[
            ("inputs_are_multiplied_without_a_copy", without_a_copy),
            ("networks_reformat_nothing", reformats_nothing),
            ("transposed_convolutions_reformat_nothing", transposes),
        ],
    ));
    trials
}

/// Transposed convolutions, whose phases are implicit GEMMs or depthwise convolutions. With NHWC inputs they
/// give the same bits as with dense ones, and their outputs are NHWC, too. Only tiles that shuffle results
/// of dense inputs sum in another order than tiles that write NHWC.
fn transposes(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let up = |filters, kernel: usize| Layer::conv_transpose2d("up", filters, kernel).stride(2);
    // Phases with few products need a reformatted input, or do not run on tensor cores.
    let wide = up(64, 3).padding(1).output_padding(1);
    for (layer, channels, is_in_place, reformats) in [
        (up(64, 2), 128, true, None),
        (up(32, 3).padding(1).output_padding(1), 128, false, None),
        // NHWC tiles of several phases with different padding.
        (wide, 128, false, Some(1)),
        // Rows of 39 columns, the last of which belongs to one phase only, and rows of 42.
        (up(64, 3).padding(1), 128, false, Some(1)),
        (up(64, 4), 128, false, Some(1)),
        (up(24, 3).stride(1).padding(1).groups(24), 24, true, Some(0)),
    ] {
        let is_depthwise = channels == 24;
        let chain = Chain::new(channels, [layer])?;
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let mut values = data::signed(1, &[2, channels, 12, 20][..]);
        values[[1, 5, 3, 4]] = f32::NAN;
        // A sample for which the optimistic scale fails.
        values
            .index_axis_mut(Axis(0), 1)
            .mapv_inplace(|v| 200.0 * v);
        for (dtype, precision) in [
            (DType::F16, Precision::Accurate),
            (DType::BF16, Precision::Accurate),
            (DType::F32, Precision::Accurate),
            (DType::F32, Precision::Fast),
        ] {
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let options = Options::default().precision(precision);
            let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward_with(&dense, &options)?)?;
            let explained = model.plan_for(&stream, &dense, &options)?.explain()?;
            let is_reformat = |name: &str| name.starts_with("implicit_gemm_reformat");
            let is_shuffled = explained.regions[0].config.contains("shuffled");
            let launches = explained.launches.iter();
            let got = launches.filter(|launch| is_reformat(launch.kernel)).count();
            // Padded planes have different padding.
            let has_nhwc = dtype != DType::F32 || precision == Precision::Fast;
            let arch = stream.device().properties().arch;
            if let Some(wanted) = reformats
                && arch.has_warpgroup_mma()
                && has_nhwc
            {
                assert_eq!(got, wanted, "{explained}");
            }
            let x = lying_last(&stream, &values, dtype)?;
            let y = model.forward_with(&x, &options)?;
            assert_eq!(y.strides()[1], 1, "{:?}", y.strides());
            match is_shuffled {
                true => are_close(&bits_of(&y)?, &wanted, (dtype, precision)),
                false => assert_eq!(bits_of(&y)?, wanted, "{dtype}"),
            }
            let explained = model.plan_for(&stream, &x, &options)?.explain()?;
            let can = is_depthwise || arch.has_warpgroup_mma() && dtype != DType::F32;
            if is_in_place && can {
                let region = &explained.regions[0];
                let layouts = (region.reads, region.writes);
                assert_eq!(layouts, (Layout::Nhwc, Layout::Nhwc), "{explained}");
            }
        }
    }
    Ok(())
}

/// Channels-last inputs give a channels-last output without a copy. Without warpgroup MMA, where both layouts
/// use the same kernels, the bits equal those of dense inputs. The option requests the other layout.
fn reformats_nothing(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let [h, w] = match backend {
        Backend::Emulator | Backend::EmulatorSm80 => [12, 20],
        _ => [24, 40],
    };
    let conv = |name: &str, filters, kernel: usize, stride: usize| {
        let conv = Layer::conv2d(name, filters, kernel).stride(stride);
        Layer::from(conv.padding(kernel / 2))
    };
    let chain = Chain::new(
        128,
        [
            conv("first", 256, 1, 1),
            Layer::from(Layer::batch_norm("norm")),
            Layer::silu(),
            conv("second", 128, 3, 1),
            Layer::from(Layer::batch_norm("behind")),
            Layer::add("residual"),
            Layer::relu(),
            conv("third", 128, 3, 2),
            Layer::hardswish(),
        ],
    )?;
    let fast = Options::default().precision(Precision::Fast);
    let shape = [2, 128, h, w];
    let mut values = data::signed(1, &shape[..]);
    values[[1, 5, 3, 4]] = f32::NAN;
    values[[0, 7, h - 1, w - 1]] = f32::INFINITY;
    let further = data::signed(2, &shape[..]);
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let dense = |values| Tensor::from_f32_array(&stream, values, dtype);
        let (x, residual) = (dense(&values)?, dense(&further)?);
        let wanted = model.forward_with(Inputs::new(&x).with("residual", &residual), &fast)?;
        assert!(wanted.is_contiguous());
        let wanted = bits_of(&wanted)?;
        let x = lying_last(&stream, &values, dtype)?;
        let residual = lying_last(&stream, &further, dtype)?;
        let inputs = || Inputs::new(&x).with("residual", &residual);
        let y = model.forward_with(inputs(), &fast)?;
        let [n, k, p, q] = *y.shape() else {
            return Err("an output of four axes".into());
        };
        assert_eq!(y.strides()[1], 1, "{:?}", y.strides());
        let needs_no_copy = stream.device().properties().arch.has_warpgroup_mma();
        let compare = |got: &[u32]| match needs_no_copy {
            true => are_close(got, &wanted, (dtype, Precision::Fast)),
            false => assert_eq!(got, wanted, "{dtype}"),
        };
        let of_run = bits_of(&y)?;
        compare(&of_run);
        let explained = model.plan_for(&stream, inputs(), &fast)?.explain()?;
        let copies = |explained: &Explanation| count(explained, "copy");
        if needs_no_copy {
            assert_eq!(copies(&explained), 0, "{explained}");
            let gemms = explained.regions.iter();
            let is_nhwc = |of: &RegionFacts| (of.reads, of.writes) == (Layout::Nhwc, Layout::Nhwc);
            assert!(
                gemms.clone().all(is_nhwc) && gemms.count() == 3,
                "{explained}"
            );
        }
        let options = fast.clone().output_layout(Layout::Nchw);
        let mut plan = model.plan_for(&stream, inputs(), &options)?;
        let mut y = plan.output()?;
        assert!(y.is_contiguous() && y.shape() == [n, k, p, q]);
        plan.execute(inputs(), &mut y)?;
        compare(&bits_of(&y)?);
        if needs_no_copy {
            // In f32 there is no kernel from NHWC to NCHW.
            let copied = usize::from(dtype == DType::F32);
            assert_eq!(copies(&plan.explain()?), copied);
        }
        // Tiles over several samples may sum in another order.
        let by_batch = fast.clone().batch_invariant(false);
        let got = model.forward_with(inputs(), &by_batch)?.to_f32_array()?;
        let close = |(got, &bits): (&f32, &u32)| {
            let wanted = f32::from_bits(bits);
            let off = (got - wanted).abs() <= 2e-2 * wanted.abs().max(1.0);
            got.is_nan() == wanted.is_nan() && (off || got == &wanted || wanted.is_nan())
        };
        assert!(got.iter().zip(&wanted).all(close), "{dtype}, by the batch");
        let explained = model.plan_for(&stream, inputs(), &by_batch)?.explain()?;
        let is_of_several = |of: &&RegionFacts| {
            of.kernels == "gemm" || of.config.contains("tiles of several samples")
        };
        let of_several = explained.regions.iter().filter(is_of_several).count();
        assert_eq!(of_several, if needs_no_copy { 3 } else { 0 }, "{explained}");
        // A tensor of one layout is refused as an output in the other.
        let mut plan = model.plan_for(&stream, inputs(), &fast)?;
        let refused = plan.execute(inputs(), &mut y).unwrap_err();
        assert!(matches!(refused, Error::LayoutMismatch { .. }));
        let way_out = "Plan::output() allocates one; Options::output_layout chooses among layouts";
        assert!(refused.to_string().ends_with(way_out), "{refused}");
        let mut y = plan.output()?;
        plan.execute(inputs(), &mut y)?;
        assert_eq!(bits_of(&y)?, of_run, "{dtype}");
    }
    Ok(())
}

/// Channels-last depthwise convolutions, pools and functions keep the layout without a copy, also after a
/// tensor-core convolution. The bits equal those of dense inputs.
fn slides(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let [h, w] = match backend {
        Backend::Emulator | Backend::EmulatorSm80 => [12, 20],
        _ => [24, 40],
    };
    let [channels, wide] = [128, 256];
    let conv = |name: &str, filters, kernel: usize, (groups, stride): (usize, usize)| {
        let mut conv = ConvLayer::<2>::new(name, filters, [kernel; 2]);
        conv.attributes = Conv2dSpec::default()
            .stride([stride; 2])
            .padding(kernel / 2)
            .groups(groups);
        Layer::from(conv)
    };
    let sliding = |channels| {
        [
            conv("depthwise", channels, 3, (channels, 1)),
            Layer::from(Layer::batch_norm("norm")),
            Layer::clamp(0.0, 6.0),
            Layer::from(MaxPool2dSpec::new(3).stride(2).padding(1)),
            conv("wider", channels, 5, (channels, 2)),
            Layer::silu(),
            Layer::from(Layer::avg_pool2d(2).stride(1)),
            Layer::relu(),
        ]
    };
    let behind = [
        conv("first", wide, 1, (1, 1)),
        Layer::from(Layer::batch_norm("behind")),
        Layer::clamp(0.0, 6.0),
    ];
    let has_warp_specialized = stream.device().properties().arch.has_warpgroup_mma();
    let alone = Chain::new(channels, sliding(channels))?;
    let behind = Chain::new(channels, behind.into_iter().chain(sliding(wide)))?;
    let shape = [2, channels, h, w];
    let mut values = data::signed(1, &shape[..]);
    values[[1, 5, 3, 4]] = f32::NAN;
    values[[0, 7, h - 1, w - 1]] = f32::INFINITY;
    for (chain, dtype) in [
        (&alone, DType::F32),
        (&alone, DType::F16),
        (&behind, DType::F16),
        (&behind, DType::BF16),
    ] {
        let parameters = convfuse::Parameters::init(chain, 3)?;
        let model = Model::with_dtype(&stream, chain, &parameters, dtype)?;
        let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
        let wanted = bits_of(&model.forward(&dense)?)?;
        let x = lying_last(&stream, &values, dtype)?;
        let y = model.forward(&x)?;
        assert_eq!(y.strides()[1], 1, "{:?}", y.strides());
        assert_eq!(bits_of(&y)?, wanted, "{dtype}");
        let plan = model.plan_for(&stream, &x, &Options::default())?;
        let explained = plan.explain()?;
        let kernels = |part: &str| count(&explained, part);
        assert_eq!(kernels("depthwise_nhwc"), 2, "{explained}");
        assert_eq!(kernels("pool_nhwc"), 2, "{explained}");
        if has_warp_specialized || chain.layers().len() == alone.layers().len() {
            assert_eq!(kernels("copy"), 0, "{explained}");
            let is_nhwc = |of: &RegionFacts| (of.reads, of.writes) == (Layout::Nhwc, Layout::Nhwc);
            assert!(explained.regions.iter().all(is_nhwc), "{explained}");
        }
    }
    // A number of channels that is no multiple of a vector: some kernels process pairs, others need dense
    // tensors.
    let odd = Chain::new(6, sliding(6))?;
    let values = data::signed(2, &[1, 6, h, w][..]);
    let model = Model::with_dtype(
        &stream,
        &odd,
        &convfuse::Parameters::init(&odd, 3)?,
        DType::F32,
    )?;
    let wanted =
        bits_of(&model.forward(&Tensor::from_f32_array(&stream, &values, DType::F32)?)?)?;
    let x = lying_last(&stream, &values, DType::F32)?;
    assert_eq!(bits_of(&model.forward(&x)?)?, wanted);
    Ok(())
}

/// A chain whose convolution uses warp-specialized kernels, if the device has them.
fn of_warp_specialized_tiles(
    norm: Option<Layer>,
    [channels, filters]: [usize; 2],
    (groups, stride): (usize, usize),
) -> convfuse::Result<Chain> {
    let mut conv = ConvLayer::<2>::new("conv", filters, [3, 3]);
    conv.attributes = Conv2dSpec::default()
        .stride([stride; 2])
        .padding(1)
        .groups(groups);
    let layers = [Some(Layer::from(conv)), norm, Some(Layer::relu())];
    Ok(Chain::new(channels, layers.into_iter().flatten())?)
}

fn without_a_copy(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let norm = || Layer::from(Layer::group_norm("norm", 8));
    // Sizes that are large for an emulated device would leave most multiprocessors of a GPU idle.
    let (normed, grouped, without_norm) = match backend {
        Backend::Emulator | Backend::EmulatorSm80 => ([2, 128, 12, 20], [64, 128], [17, 33]),
        _ => ([2, 128, 24, 40], [128, 256], [40, 66]),
    };
    // A size at which conversion in the producer is as fast as reformatting.
    let rounded = match backend {
        Backend::Emulator | Backend::EmulatorSm80 => normed,
        _ => [2, 128, 128, 128],
    };
    let cases = [
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            normed,
            DType::F16,
            1.0,
        ),
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            rounded,
            DType::F32,
            1.0,
        ),
        // A sample for which the optimistic scale fails.
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            rounded,
            DType::F32,
            1e4,
        ),
        // Without a norm, the NaN/Inf fix-up pass reads the input in place.
        (
            of_warp_specialized_tiles(None, grouped, (2, 2))?,
            [2, grouped[0], without_norm[0], without_norm[1]],
            DType::BF16,
            1.0,
        ),
    ];
    let options = Options::default()
        .precision(Precision::Fast)
        .output_layout(Layout::Nchw);
    for (chain, shape, dtype, factor) in cases {
        let mut values = data::signed(1, &shape[..]);
        let last = values.outer_iter_mut().next_back();
        last.expect("a sample").mapv_inplace(|x| x * factor);
        let is_without_norm = chain.layers().len() == 2;
        if is_without_norm {
            let specials = [f32::NAN, f32::INFINITY];
            let places = values.iter_mut().step_by(1000);
            places.zip(specials).for_each(|(x, special)| *x = special);
        }
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let x = Tensor::from_f32_array(&stream, &values, dtype)?;
        let wanted = bits_of(&model.forward_with(&x, &options)?)?;
        let plain = way("channels last", channels_last);
        let gap = Way {
            gap: 8,
            ..way(
                "channels last, with a whole cell between samples",
                channels_last,
            )
        };
        let odd = Way {
            before: 1,
            ..way("channels last from an odd address", channels_last)
        };
        let part = Way {
            gap: 4,
            ..way(
                "channels last, with half a cell between samples",
                channels_last,
            )
        };
        for (way, are_k_vectors) in [(&plain, true), (&gap, true), (&odd, false), (&part, false)] {
            let x = lying(&stream, &values, dtype, way)?;
            let plan = model.plan_for(&stream, &x, &options)?;
            let launches = plan.explain()?.launches;
            let has = |part: &str| launches.iter().any(|launch| launch.kernel.contains(part));
            let reads_k_vectors = are_k_vectors && has("gemm_sm90");
            assert_eq!(
                has("copy_strided"),
                !reads_k_vectors,
                "{} in {dtype}",
                way.name
            );
            // A dense copy is reformatted, or converted in the producer.
            assert_eq!(
                has("gemm_reformat") || has("dense_f32"),
                !reads_k_vectors,
                "{} in {dtype}",
                way.name
            );
            let has_warp_specialized = stream.device().properties().arch.has_warpgroup_mma();
            assert_eq!(has("gemm_sm90"), has_warp_specialized, "{dtype}");
            assert_eq!(
                bits_of(&model.forward_with(&x, &options)?)?,
                wanted,
                "{} in {dtype}",
                way.name
            );
        }
    }
    Ok(())
}

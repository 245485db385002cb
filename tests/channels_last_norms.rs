//! Norms of channels-last tensors: from NHWC to NHWC, alone and after convolutions.

use convfuse::graph::{Chain, Graph, Layer};
use convfuse::model::Precision;
use convfuse::spec::Layout;
use convfuse::{DType, Device, Inputs, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of, lying_last};
use crate::suite::count;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "channels_last_norms",
        &[
            ("are_those_of_dense_tensors_without_a_copy", blocks),
            ("follow_convolutions_of_few_filters", narrow),
            ("follow_first_convolutions_of_one_channel", first),
            ("stay_dense_where_there_is_no_kernel", refused),
            ("take_the_statistics_of_a_batch", of_batches),
            ("of_batches_follow_convolutions_without_a_copy", training),
            (
                "of_running_statistics_are_applied_without_a_copy",
                inference,
            ),
        ],
    )
}

/// A residual block as in image decoders, and an instance norm at the end.
fn layers(groups: usize) -> Vec<Layer> {
    let norm = |name: &str| Layer::from(Layer::group_norm(name, groups));
    let conv = |name: &str, filters| Layer::from(Layer::conv2d(name, filters, 3).padding(1));
    vec![
        norm("first"),
        Layer::silu(),
        conv("wide", 96),
        norm("second"),
        Layer::silu(),
        conv("back", 64),
        Layer::add("residual"),
        norm("third"),
        Layer::add("further"),
        Layer::relu(),
        conv("last", 64),
        Layer::from(Layer::instance_norm("each").affine(true)),
        Layer::mul(0.5),
    ]
}

fn blocks(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let [h, w] = match backend {
        Backend::Emulator | Backend::EmulatorSm80 => [9, 14],
        _ => [40, 56],
    };
    let fast = Options::default().precision(Precision::Fast);
    let shape = [2, 64, h, w];
    let [values, residual, further] = [1, 2, 3].map(|seed| data::signed(seed, &shape[..]));
    for (dtype, groups) in [(DType::F16, 8), (DType::BF16, 32), (DType::F32, 4)] {
        let chain = Chain::new(64, layers(groups))?;
        let model = Model::with_dtype(&stream, &chain, &Parameters::init(&chain, 3)?, dtype)?;
        let [x, a, b] = [&values, &residual, &further]
            .map(|values| Tensor::from_f32_array(&stream, values, dtype));
        let (x, a, b) = (x?, a?, b?);
        let wanted = model.forward_with(
            Inputs::new(&x).with("residual", &a).with("further", &b),
            &fast,
        )?;
        let wanted = bits_of(&wanted)?;
        let [x, a, b] =
            [&values, &residual, &further].map(|values| lying_last(&stream, values, dtype));
        let (x, a, b) = (x?, a?, b?);
        let inputs = || Inputs::new(&x).with("residual", &a).with("further", &b);
        let y = model.forward_with(inputs(), &fast)?;
        assert_eq!(y.strides()[1], 1, "{:?}", y.strides());
        // Three norms amplify the rounding of the convolutions.
        let coarse = if dtype == DType::F32 {
            DType::F16
        } else {
            dtype
        };
        let got = bits_of(&y)?;
        are_close(&got, &wanted, (coarse, Precision::Fast));
        assert_eq!(
            bits_of(&model.forward_with(inputs(), &fast)?)?,
            got,
            "{dtype}"
        );
        let explained = model.plan_for(&stream, inputs(), &fast)?.explain()?;
        let kernels = |part: &str| count(&explained, part);
        let arch = stream.device().properties().arch;
        if arch.has_warpgroup_mma() {
            assert_eq!(kernels("norm_nhwc_moments"), 4, "{explained}");
            assert_eq!(kernels("copy") + kernels("reformat"), 0, "{explained}");
            let mut regions = explained.regions.iter();
            let is_nhwc = regions.all(|of| [of.reads, of.writes] == [Layout::Nhwc; 2]);
            assert!(is_nhwc, "{explained}");
        } else {
            // After convolutions, these norms are fused in NCHW.
            assert_eq!(kernels("norm_nhwc_moments"), 1, "{explained}");
        }
    }
    Ok(())
}

/// Convolutions with few filters and several taps use the implicit GEMM, which also writes NHWC.
fn narrow(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = Layer::from(Layer::conv3d("conv", 32, 3).padding(1));
    let norm = Layer::from(Layer::instance_norm("norm").affine(true));
    let chain = Chain::new(32, [conv, norm, Layer::leaky_relu(0.01)])?;
    let parameters = Parameters::init(&chain, 3)?;
    let model = Model::with_dtype(&stream, &chain, &parameters, DType::F16)?;
    let values = data::signed(1, &[1, 32, 4, 9, 14][..]);
    let wanted = model.forward(&Tensor::from_f32_array(&stream, &values, DType::F16)?)?;
    let x = lying_last(&stream, &values, DType::F16)?;
    let y = model.forward(&x)?;
    assert_eq!(y.strides()[1], 1, "{:?}", y.strides());
    let close = (DType::F16, Precision::Fast);
    are_close(&bits_of(&y)?, &bits_of(&wanted)?, close);
    let explained = model
        .plan_for(&stream, &x, &Options::default())?
        .explain()?;
    if stream.device().properties().arch.has_warpgroup_mma() {
        let kernels = explained.regions.iter().map(|of| of.kernels);
        assert!(kernels.eq(["implicit-gemm", "tensor"]), "{explained}");
        assert_eq!(count(&explained, "copy"), 0, "{explained}");
    }
    Ok(())
}

/// An input with one channel has both layouts, so the option decides.
fn first(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = Layer::from(Layer::conv3d("conv", 32, 3).padding(1));
    let norm = Layer::from(Layer::instance_norm("norm").affine(true));
    let chain = Chain::new(1, [conv, norm, Layer::leaky_relu(0.1)])?;
    let parameters = Parameters::init(&chain, 3)?;
    let values = data::signed(1, &[2, 1, 5, 9, 14][..]);
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let x = Tensor::from_f32_array(&stream, &values, dtype)?;
        let dense = Options::default();
        let last = Options::default().output_layout(Layout::Nhwc);
        let wanted = model.forward_with(&x, &dense)?;
        let y = model.forward_with(&x, &last)?;
        let is_nhwc = [&wanted, &y].map(|of| of.strides()[1] == 1);
        assert_eq!(is_nhwc, [false, true], "{dtype}");
        let close = (dtype, Precision::default());
        are_close(&bits_of(&y)?, &bits_of(&wanted)?, close);
        let explained = model.plan_for(&stream, &x, &last)?.explain()?;
        let arch = stream.device().properties().arch;
        if arch.has_warpgroup_mma() && dtype != DType::F32 {
            let kernels = explained.regions.iter().map(|of| of.kernels);
            assert!(kernels.eq(["gemm", "tensor"]), "{explained}");
            let copies = ["copy", "reformat"].map(|part| count(&explained, part));
            assert_eq!(copies, [0; 2], "{explained}");
        }
    }
    Ok(())
}

/// Batch norms with the batch's statistics: of several samples and of one, of more pixels than a part has,
/// and of volumes. Then of samples of one pixel, after a pool.
fn of_batches(backend: Backend) -> Outcome {
    let of = |affine: bool| Layer::from(Layer::batch_norm("norm").training(true).affine(affine));
    let untracked = Layer::from(Layer::batch_norm("norm").track_running_stats(false));
    for (shape, norm, is_nhwc) in [
        (&[3, 8, 5, 7][..], of(true), true),
        (&[1, 8, 9, 14], of(false), true),
        (&[2, 64, 16, 17], untracked, true),
        (&[2, 8, 3, 4, 5], of(true), true),
        (&[3, 6, 5, 7], of(true), false),
    ] {
        let layers = vec![norm, Layer::add("residual"), Layer::silu()];
        of_batch(backend, shape, layers, is_nhwc)?;
    }
    let layers = vec![Layer::max_pool2d(2).into(), of(true), Layer::relu()];
    of_batch(backend, &[37, 12, 2, 2], layers, true)
}

fn of_batch(backend: Backend, shape: &[usize], layers: Vec<Layer>, is_nhwc: bool) -> Outcome {
    let (stream, cpu) = (backend.stream()?, Device::cpu().stream()?);
    let options = Options::default();
    let chain = Chain::new(shape[1], layers)?;
    let parameters = Parameters::init(&chain, 3)?;
    let [values, residual] = [1, 2].map(|seed| data::signed(seed, shape) + 2.0);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let on_cpu = Model::with_dtype(&cpu, &chain, &parameters, dtype)?;
        let [x, a] = [&values, &residual].map(|of| Tensor::from_f32_array(&cpu, of, dtype));
        let has_residual = !chain.inputs().is_empty();
        let with = |inputs, a| match has_residual {
            true => Inputs::with(inputs, "residual", a),
            false => inputs,
        };
        let (x, a) = (x?, a?);
        let wanted = on_cpu.forward_with(with(Inputs::new(&x), &a), &options)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let [x, a] = [&values, &residual].map(|of| lying_last(&stream, of, dtype));
        let (x, a) = (x?, a?);
        let y = model.forward_with(with(Inputs::new(&x), &a), &options)?;
        let close = (dtype, Precision::default());
        are_close(&bits_of(&y)?, &bits_of(&wanted)?, close);
        let plan = model.plan_for(&stream, with(Inputs::new(&x), &a), &options)?;
        let explained = plan.explain()?;
        let count = |part: &str| count(&explained, part);
        let counts = ["norm_nhwc", "batch_norm_moments", "copy_strided"].map(count);
        let wanted = if is_nhwc { [2, 1, 0] } else { [0, 1, 3] };
        assert_eq!(counts, wanted, "{shape:?}: {explained}");
    }
    Ok(())
}

/// The stem, a block and the last layers of a ResNet in training.
fn training(backend: Backend) -> Outcome {
    let conv = |name: &str, filters, kernel_size: usize, stride: usize| {
        let conv = Layer::conv2d(name, filters, kernel_size).stride(stride);
        Layer::from(conv.padding(kernel_size / 2).bias(false))
    };
    let norm = |name: &str| Layer::from(Layer::batch_norm(name).training(true));
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 64, 7, 2))
        .layer("stem.bn", "stem", norm("bn1"))
        .layer("stem.relu", "stem.bn", Layer::relu())
        .layer(
            "pooled",
            "stem.relu",
            Layer::max_pool2d(3).stride(2).padding(1),
        )
        .layer("first", "pooled", conv("first", 64, 3, 1))
        .layer("first.bn", "first", norm("first_bn"))
        .layer("first.relu", "first.bn", Layer::relu())
        .layer("second", "first.relu", conv("second", 64, 3, 1))
        .layer("second.bn", "second", norm("second_bn"))
        .layer("sum", "second.bn", Layer::add("pooled"))
        .layer("block", "sum", Layer::relu())
        .layer("y", "block", Layer::adaptive_avg_pool2d(1))
        .build("y")?;
    copies_nothing(backend, &graph, &[2, 3, 21, 26], [3, 1])
}

/// Layers of a DenseNet and of a MobileNet at inference.
fn inference(backend: Backend) -> Outcome {
    let conv = |name: &str, filters, kernel_size: usize| {
        Layer::from(Layer::conv2d(name, filters, kernel_size).padding(kernel_size / 2))
    };
    let depthwise = Layer::conv2d("depthwise", 48, 3).padding(1).groups(48);
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 16, 3))
        .layer("norm", "stem", Layer::batch_norm("bn1"))
        .layer("relu", "norm", Layer::relu())
        .layer("wide", "relu", conv("wide", 32, 1))
        .layer("joined", "wide", Layer::cat(["stem"], 1))
        .layer("before", "joined", Layer::batch_norm("bn2"))
        .layer("silu", "before", Layer::silu())
        .layer("apart", "silu", depthwise)
        .layer("apart.norm", "apart", Layer::batch_norm("bn3"))
        .layer("bounded", "apart.norm", Layer::clamp(0.0, 6.0))
        .layer("back", "bounded", conv("back", 32, 3))
        .layer("sum", "back", Layer::add("wide"))
        .layer("pooled", "sum", Layer::max_pool2d(2))
        .layer("last", "pooled", conv("last", 72, 3))
        .layer("y", "last", Layer::adaptive_avg_pool2d(1))
        .build("y")?;
    copies_nothing(backend, &graph, &[2, 3, 17, 26], [0, 1])
}

/// Checks a network of inputs of either layout in all types. On a device with kernels for it, nothing is
/// reformatted. `counts` are the launches for moments of norms, and for pools.
fn copies_nothing(backend: Backend, graph: &Graph, shape: &[usize], counts: [usize; 2]) -> Outcome {
    let (stream, cpu) = (backend.stream()?, Device::cpu().stream()?);
    let parameters = Parameters::init(graph, 3)?;
    let values = data::signed(1, shape);
    let fast = Options::default().precision(Precision::Fast);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let on_cpu = Model::with_dtype(&cpu, graph, &parameters, dtype)?;
        let wanted = on_cpu.forward(&Tensor::from_f32_array(&cpu, &values, dtype)?)?;
        let model = Model::with_dtype(&stream, graph, &parameters, dtype)?;
        let dense = Tensor::from_f32_array(&stream, &values, dtype)?;
        for x in [dense, lying_last(&stream, &values, dtype)?] {
            let y = model.forward_with(&x, &fast)?;
            are_close(&bits_of(&y)?, &bits_of(&wanted)?, (dtype, Precision::Fast));
            if !stream.device().properties().arch.has_warpgroup_mma() {
                continue;
            }
            let explained = model.plan_for(&stream, &x, &fast)?.explain()?;
            let count = |part: &str| count(&explained, part);
            let copies = count("copy_strided") + count("reformat");
            let [moments, pools] = [count("norm_nhwc_moments"), count("pool_nhwc")];
            assert_eq!(
                [moments, pools, copies],
                [counts[0], counts[1], 0],
                "{explained}"
            );
        }
    }
    Ok(())
}

/// A number of channels that is no multiple of a vector, a scale before the norm, and a PReLU after it.
fn refused(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let norm = || Layer::from(Layer::instance_norm("norm"));
    for (channels, layers) in [
        (6, vec![norm(), Layer::relu()]),
        (8, vec![Layer::scale("before").into(), norm()]),
        (8, vec![norm(), Layer::from(Layer::prelu("slopes", 8))]),
    ] {
        let chain = Chain::new(channels, layers)?;
        let model = Model::new(&stream, &chain, &Parameters::init(&chain, 3)?)?;
        let values = data::signed(1, &[2, channels, 5, 7][..]);
        let wanted = model.forward(&Tensor::from_array(&stream, &values)?)?;
        let x = lying_last(&stream, &values, DType::F32)?;
        let y = model.forward(&x)?;
        assert_eq!(bits_of(&y)?, bits_of(&wanted)?);
        let explained = model
            .plan_for(&stream, &x, &Options::default())?
            .explain()?;
        assert_eq!(count(&explained, "norm_nhwc"), 0, "{explained}");
    }
    Ok(())
}

//! Chains that are not presets.

use op_spec::graph::{BroadcastParameter, Layer, OtherTensor};
use op_spec::{Layout, ReductionOp, ReductionSpec};

use super::*;
use crate::operators::Precision;

/// Chains for which no kernel was specialised.
#[test]
fn other_chains() {
    let conv = |name| Layer::from(Layer::conv2d(name, 64, 3));
    let group_norm = || Layer::from(Layer::group_norm("group_norm", 16));
    let scale = || Layer::from(Layer::scale("scale"));
    let pool = || Layer::from(Layer::max_pool2d(4));
    let clamp = || Layer::clamp(0.0, 1.0);
    let chain = |layers: Vec<Layer>| Chain::new(8, layers).unwrap();
    let head = || vec![conv("a"), group_norm(), scale(), pool(), clamp()];
    let maximum = || Layer::max(&[1]);
    let eight_groups = || Layer::group_norm("norm", 8).affine(true);
    let batch_norm = || Layer::from(Layer::batch_norm("batch_norm").eps(1e-5).affine(true));
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let input = [2, 8, 128, 128];
    let alone = layers! {
        [conv("a")] => GEMM;
        [conv("a"), group_norm(), clamp()] => GEMM;
        [conv("a"), Layer::instance_norm("norm"), scale(), pool(), clamp()] => one_launch;
        // PyTorch's relu is a clamp.
        [conv("a"), group_norm(), scale(), pool(), Layer::relu()] => one_launch;
        [eight_groups(), scale(), pool(), clamp()] => ["tensor"; 3];
        [eight_groups(), scale(), clamp(), pool(), maximum()] => ["tensor | tensor"; 3];
        [scale(), pool(), clamp(), scale(), maximum()] => ["tensor | tensor | tensor"; 3];
        [clamp(), scale(), maximum(), clamp()] => ["tensor | tensor"; 3];
    };
    for (layers, rows) in alone {
        let chain = chain(layers);
        let case = (&*chain.operators(), chain.clone(), &input[..], rows);
        check(&[case], &DTYPES, &Options::default());
    }
    // The second convolution is followed by no norm, or by a norm with running statistics, and by functions.
    let (one, two) = ("implicit-gemm", "implicit-gemm | tensor");
    let endings: [(&[Layer], [&str; 3]); 6] = [
        (&[], [one; 3]),
        (&[batch_norm()], [one; 3]),
        (&[batch_norm(), Layer::relu()], [one; 3]),
        (&[Layer::leaky_relu(0.1), clamp()], [one; 3]),
        (&[batch_norm(), Layer::silu()], [one; 3]),
        // On warp-specialized tiles, several exponentials would take longer than a separate launch.
        (
            &[batch_norm(), Layer::silu(), Layer::tanh()],
            [two, one, one],
        ),
    ];
    for (behind, second) in endings {
        let two = chain([&head()[..], &[conv("b")], behind].concat());
        let rows = [0, 1, 2].map(|of| format!("{} | {}", one_launch[of], second[of]));
        let rows = rows.each_ref().map(String::as_str);
        let case = ("two convolutions", two, &input[..], rows);
        check(&[case], &DTYPES, &Options::default());
    }
    let of_79 = chain_79(of_79());
    let mut with_relu = of_79.layers().to_vec();
    with_relu[3] = Layer::relu();
    let with_relu = Chain::new(3, with_relu).unwrap();
    for properties in [H200, A100, SM_86] {
        let rows = |chain| {
            let (input, options) = (&KernelBench79::INPUT, Options::default());
            rows(chain, input, DType::F32, &properties, &options)
        };
        assert_eq!(rows(&with_relu), rows(&of_79));
    }
    // The one-launch kernel computes a maximum. Other operations are reduced after the producers of any
    // epilogue.
    for &operation in ReductionOp::ALL {
        let mut layers = of_79.layers().to_vec();
        layers[5] = ReductionSpec::new(operation, &[1]).into();
        let chain = Chain::new(3, layers).unwrap();
        let options = Options::default();
        let rows = rows(&chain, &KernelBench79::INPUT, DType::F16, &H200, &options);
        let in_one_launch = operation == ReductionOp::Max;
        assert_eq!(rows == "one-launch-3d", in_one_launch, "{rows}");
        // An operation that is not fusible is a separate region.
        let is_fused = !in_one_launch && operation.is_fusible();
        assert_eq!(rows == "implicit-gemm", is_fused, "{rows}");
    }
    // The factor after the norm differs from the factor before it.
    let mut layers = of_79.layers().to_vec();
    layers[4] = Layer::scale("other").into();
    let other_factor = Chain::new(3, layers).unwrap();
    check(
        &[(
            "another factor",
            other_factor,
            &KernelBench79::INPUT,
            ["implicit-gemm | tensor | tensor"; 3],
        )],
        &DTYPES,
        &Options::default(),
    );
}

/// Blocks of real networks at realistic sizes, each one region.
#[test]
fn blocks() {
    let norm = Layer::from(Layer::instance_norm("norm").affine(true));
    let volume = |from: usize, to, stride: usize| {
        let conv = Layer::conv3d("conv", to, 3)
            .attributes(Conv3dSpec::default().stride([stride; 3]).padding(1));
        let layers = (conv, norm.clone(), Layer::leaky_relu(0.01));
        Chain::new(from, layers).unwrap()
    };
    let image = |from: usize, to, extent: usize, stride: usize, behind: &[Layer]| {
        let conv = Layer::conv2d("conv", to, [extent; 2]).attributes(
            Conv2dSpec::default()
                .stride([stride; 2])
                .padding([extent / 2; 2]),
        );
        let layers = [
            &[conv.into(), Layer::from(Layer::group_norm("norm", 32))],
            behind,
        ]
        .concat();
        Chain::new(from, layers).unwrap()
    };
    let pool = Layer::max_pool2d(3).stride(2).padding(1);
    let decoder = |channels| image(channels, channels, 3, 1, &[Layer::silu()]);
    let head = image(256, 256, 3, 1, &[Layer::relu()]);
    let stem = image(3, 64, 7, 2, &[Layer::relu(), pool.into()]);
    let other_stem = image(3, 64, 7, 2, &[Layer::silu(), pool.into()]);
    check(
        &[
            ("volumes", volume(32, 32, 1), &[2, 32, 128, 128, 128], GEMM),
            ("to half", volume(32, 64, 2), &[2, 32, 128, 128, 128], GEMM),
            ("small", volume(320, 320, 1), &[2, 320, 8, 8, 8], GEMM),
            ("decoder", decoder(512), &[1, 512, 64, 64], GEMM),
            ("last", decoder(128), &[4, 128, 512, 512], GEMM),
            ("head", head.clone(), &[2, 256, 100, 152], GEMM),
            ("smallest", head, &[2, 256, 13, 19], GEMM),
            ("stem", stem, &[64, 3, 224, 224], GEMM),
            (
                "silu before the pool",
                other_stem,
                &[64, 3, 224, 224],
                ["implicit-gemm | tensor"; 3],
            ),
        ],
        &DTYPES,
        &Options::default(),
    );
}

/// Transposed convolutions take the following layers, except a norm, and except layers that are better fused
/// with later ones.
#[test]
fn transposed_convolutions() {
    let up = Layer::conv_transpose2d("up", 16, 3).stride(2);
    let up = || Layer::from(up.clone().output_padding(1));
    let norm = |groups| Layer::from(Layer::group_norm("norm", groups));
    let batch_norm = || Layer::from(Layer::batch_norm("batch_norm"));
    let scale = || Layer::from(Layer::scale("scale"));
    let each_channel = || Layer::from(Layer::instance_norm("each"));
    let clamp = || Layer::clamp(-0.5, 0.5);
    let maximum = || Layer::from(Layer::max(&[1]));
    let first = || OtherTensor::Layer(0);
    let interleave = "conv_transpose_interleave";
    for (layers, regions) in layers! {
        [up()] => &["conv_transpose2d"][..];
        [up(), batch_norm(), Layer::relu()] => &["conv_transpose2d batch_norm relu"][..];
        [up(), scale(), Layer::hardswish(), Layer::leaky_relu(0.1)]
            => &["conv_transpose2d scale hardswish leaky_relu"][..];
        [up(), Layer::add(BroadcastParameter::new("bias")), Layer::add(first()),
            Layer::mul(first()), Layer::add(first())] => &["conv_transpose2d add add mul add"][..];
        [up(), Layer::sub("residual"), Layer::hardswish(), Layer::mul(OtherTensor::Layer(1)),
            scale()] => &["conv_transpose2d sub hardswish mul scale"][..];
        // The normalising kernel cannot keep a value.
        [up(), norm(4), Layer::tanh(), Layer::div(OtherTensor::Layer(1))]
            => &["conv_transpose2d", "group_norm", "tanh div"][..];
        [up(), norm(4), scale(), Layer::relu()] => &["conv_transpose2d", "group_norm scale relu"][..];
        [up(), Layer::relu(), norm(4), Layer::relu()]
            => &["conv_transpose2d relu", "group_norm relu"][..];
        [up(), clamp(), scale(), maximum()] => &["conv_transpose2d clamp scale", "max"][..];
        [up(), scale(), each_channel(), clamp(), scale(), maximum()]
            => &["conv_transpose2d", "scale instance_norm clamp scale max"][..];
        // The windows are not whole multiples of the strides, so tiles do not reduce them.
        [up(), Layer::relu(), Layer::max_pool2d(3)] => &["conv_transpose2d relu", "max_pool2d"][..];
    } {
        let chain = Chain::new(8, layers).unwrap();
        for (dtype, properties) in DTYPES.iter().zip([H200, A100, SM_86]) {
            let chosen = chosen(
                &chain,
                &[2, 8, 9, 11],
                *dtype,
                &properties,
                &Options::default(),
            );
            let chosen = chosen.unwrap();
            let got: Vec<&str> = chosen.iter().map(|of| of.facts.layers.as_str()).collect();
            assert_eq!(got, regions, "{dtype}");
            let facts = &chosen[0].facts;
            assert_eq!(facts.kernels, "transposed");
            // In NCHW outputs, warp-specialized tiles write the rows.
            let is_shuffled = facts
                .config
                .ends_with("results are shuffled into the output");
            assert!(!is_shuffled || properties.arch.has_warpgroup_mma());
            let last = facts.launches.last().unwrap();
            assert!(is_shuffled || last.starts_with(interleave), "{last}");
            let all = facts
                .launches
                .iter()
                .filter(|name| name.starts_with(interleave));
            assert_eq!(
                all.count(),
                usize::from(!is_shuffled),
                "{:?}",
                facts.launches
            );
        }
    }
}

/// A transposed convolution with a single class writes the output itself: it applies the epilogue that its
/// convolution supports, and nothing is interleaved.
#[test]
fn transposed_convolutions_of_one_convolution() {
    let one = |channels: usize, groups| {
        let up = Layer::conv_transpose2d("up", channels, 3);
        Layer::from(up.padding(1).groups(groups))
    };
    let batch_norm = || Layer::from(Layer::batch_norm("batch_norm"));
    for (layers, regions) in [
        (vec![one(64, 1)], [1; 3]),
        (vec![one(64, 1), batch_norm(), Layer::relu()], [1; 3]),
        (vec![one(64, 1), Layer::relu(), Layer::mish()], [1; 3]),
        (vec![one(64, 1), Layer::mish(), Layer::mish()], [2, 1, 1]),
        (vec![one(32, 32), batch_norm(), Layer::mish()], [1; 3]),
        (vec![one(1, 1)], [1; 3]),
        (vec![one(1, 1), Layer::relu()], [2; 3]),
    ] {
        let chain = Chain::new(32, layers).unwrap();
        for (properties, regions) in [H200, A100, SM_86].iter().zip(regions) {
            let input = [2, 32, 12, 20];
            let chosen = chosen(&chain, &input, DType::F16, properties, &Options::default());
            let chosen = chosen.unwrap();
            assert_eq!(chosen.len(), regions, "{:?}", chosen[0].facts);
            let mut launches = chosen.iter().flat_map(|region| &region.facts.launches);
            assert!(!launches.any(|name| name.starts_with("conv_transpose_interleave")));
        }
    }
}

/// Shuffled results take lists in their launch, with residuals in f32 alone and if rows are whole vectors.
#[test]
fn lists_where_results_are_shuffled() {
    for (function, columns, [f32_regions, f16_regions]) in [
        (Layer::hardswish(), 64, [1; 2]),
        (Layer::silu(), 64, [1; 2]),
        (Layer::add("residual"), 64, [1, 2]),
        (Layer::add("residual"), 63, [2; 2]),
    ] {
        let up = Layer::conv_transpose2d("up", 64, 4).stride(2).padding(1);
        let chain = Chain::new(64, vec![Layer::from(up), function]).unwrap();
        for (dtype, regions) in [(DType::F32, f32_regions), (DType::F16, f16_regions)] {
            let input = [2, 64, 64, columns];
            let chosen = chosen(&chain, &input, dtype, &H200, &Options::default());
            let chosen = chosen.unwrap();
            assert_eq!(chosen.len(), regions, "{:?}", chosen[0].facts);
            let config = &chosen[0].facts.config;
            assert!(config.ends_with("results are shuffled into the output"));
        }
    }
}

/// A value that is kept in front of a residual would take the residual's place in the staged tile of f32.
#[test]
fn values_kept_around_a_residual() {
    let (add, gate) = (Layer::add("residual"), Layer::mul(OtherTensor::Layer(1)));
    for (behind, regions) in [
        ([add.clone(), Layer::sigmoid(), gate.clone()], 1),
        ([Layer::hardswish(), add, gate], 2),
    ] {
        let conv = Layer::conv2d("conv", 64, 3).padding(1);
        let chain = Chain::new(64, [Layer::from(conv)].into_iter().chain(behind)).unwrap();
        let options = Options::default().precision(Precision::Fast);
        let input = [2, 64, 64, 64];
        let chosen = chosen(&chain, &input, DType::F32, &H200, &options).unwrap();
        assert_eq!(chosen.len(), regions, "{:?}", chosen[0].facts);
    }
}

/// Classes with the same reformat share one reformatted input, even if their padding differs.
#[test]
fn transposed_convolutions_reformat_once() {
    let up = Layer::conv_transpose2d("up", 128, 3).stride(2).padding(1);
    let chain = Chain::new(128, [up.output_padding(1)]).unwrap();
    let launches = |dtype, properties: &DeviceProperties, precision| {
        let options = Options::default().precision(precision);
        let chosen = chosen(&chain, &[4, 128, 32, 32], dtype, properties, &options);
        let mut launches = chosen.unwrap().remove(0).facts.launches;
        launches.sort_unstable();
        let kernels = launches.chunk_by(|a, b| a == b);
        let counted = kernels.map(|alike| format!("{} {}", alike.len(), alike[0]));
        counted.collect::<Vec<_>>().join(", ")
    };
    for (dtype, properties, precision, wanted) in [
        (
            DType::F16,
            H200,
            Precision::Accurate,
            "1 implicit_gemm_reformat_f16, 2 implicit_gemm_sm90_store_halves_f16",
        ),
        (
            DType::F32,
            H200,
            Precision::Fast,
            "1 implicit_gemm_reformat_scaled_f16_f32, 1 implicit_gemm_rescale_scaled_f16_f32, \
             2 implicit_gemm_sm90_store_halves_scaled_f16_f32",
        ),
        // The input planes are padded, and the classes' padding differs.
        (
            DType::BF16,
            A100,
            Precision::Accurate,
            "1 conv_transpose_interleave_bf16, 4 implicit_gemm_m64n128_bf16, 4 implicit_gemm_reformat_bf16",
        ),
    ] {
        assert_eq!(launches(dtype, &properties, precision), wanted, "{dtype}");
    }
}

/// A dense input of one channel is read in the layout of the output. One of several channels is NCHW.
#[test]
fn inputs_of_one_channel_have_the_layout_of_the_output() {
    let options = Options::default().output_layout(Layout::Nhwc);
    for (channels, layout) in [(1, Layout::Nhwc), (8, Layout::Nchw)] {
        let conv = Layer::from(Layer::conv2d("conv", 64, 3));
        let chain = Chain::new(channels, vec![conv]).unwrap();
        let input = [2, channels, 20, 20];
        let runs = chosen(&chain, &input, DType::F16, &H200, &options).unwrap();
        assert_eq!(runs[0].facts.reads, layout, "{channels} channels");
    }
}

//! Chains that are no preset.

use op_spec::graph::Layer;
use op_spec::{ReductionOp, ReductionSpec};

use super::*;

/// Chains that nothing was made for.
#[test]
fn other_chains() {
    let conv = |name| Layer::from(Layer::conv2d(name, 64, 3));
    let group_norm = || Layer::from(Layer::group_norm("group_norm", 16));
    let scale = || Layer::from(Layer::scale("scale"));
    let pool = || Layer::from(Layer::max_pool2d(4));
    let clamp = || Layer::clamp(0.0, 1.0);
    let chain = |layers: Vec<Layer>| Chain::new(8, layers).unwrap();
    let head = || vec![conv("a"), group_norm(), scale(), pool(), clamp()];
    let instance_norm = vec![
        conv("a"),
        Layer::from(Layer::instance_norm("norm")),
        scale(),
        pool(),
        clamp(),
    ];
    let eight_groups = Layer::from(Layer::group_norm("norm", 8).affine(true));
    // PyTorch's relu is a clamp.
    let with_relu = [&head()[..4], &[Layer::relu()]].concat();
    let batch_norm = || Layer::from(Layer::batch_norm("batch_norm").eps(1e-5).affine(true));
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let input = [2, 8, 128, 128];
    check(
        &[
            ("conv", chain(vec![conv("a")]), &input, GEMM),
            (
                "no scale and pool",
                chain(vec![conv("a"), group_norm(), clamp()]),
                &input,
                GEMM,
            ),
            ("instance norm", chain(instance_norm), &input, one_launch),
            ("relu", chain(with_relu), &input, one_launch),
            (
                "no convolution",
                chain(vec![eight_groups.clone(), scale(), pool(), clamp()]),
                &input,
                ["tensor"; 3],
            ),
            (
                "two maxima",
                chain(vec![
                    eight_groups,
                    scale(),
                    clamp(),
                    pool(),
                    Layer::max(&[1]).into(),
                ]),
                &input,
                ["tensor | tensor"; 3],
            ),
            (
                "a factor first",
                chain(vec![
                    scale(),
                    pool(),
                    clamp(),
                    scale(),
                    Layer::max(&[1]).into(),
                ]),
                &input,
                ["tensor | tensor | tensor"; 3],
            ),
            (
                "a clamp before factor and maximum",
                chain(vec![clamp(), scale(), Layer::max(&[1]).into(), clamp()]),
                &input,
                ["tensor | tensor"; 3],
            ),
        ],
        &DTYPES,
        &Options::default(),
    );
    // The second one has no norm behind it; or one whose statistics are parameters, and functions.
    let endings: [(&[Layer], _); 5] = [
        (&[], "implicit-gemm"),
        (&[batch_norm()], "implicit-gemm"),
        (&[batch_norm(), Layer::relu()], "implicit-gemm"),
        (&[Layer::leaky_relu(0.1), clamp()], "implicit-gemm | tensor"),
        (&[batch_norm(), Layer::silu()], "implicit-gemm | tensor"),
    ];
    for (behind, second) in endings {
        let two = chain([&head()[..], &[conv("b")], behind].concat());
        let rows = one_launch.map(|first| format!("{first} | {second}"));
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
    // One launch computes a maximum. Other operations are reduced behind the producers of any epilogue.
    for &operation in ReductionOp::ALL {
        let mut layers = of_79.layers().to_vec();
        layers[5] = ReductionSpec::new(operation, &[1]).into();
        let chain = Chain::new(3, layers).unwrap();
        let options = Options::default();
        let rows = rows(&chain, &KernelBench79::INPUT, DType::F16, &H200, &options);
        let in_one_launch = operation == ReductionOp::Max;
        assert_eq!(rows == "one-launch-3d", in_one_launch, "{rows}");
        // The epilogue of a logarithm of sums is a region of its own.
        let is_fused = !in_one_launch && operation != ReductionOp::LogSumExp;
        assert_eq!(rows == "implicit-gemm", is_fused, "{rows}");
    }
    // The factor after the norm is another one than that before it.
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

/// Blocks of real networks, each a run, at the sizes that these have.
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

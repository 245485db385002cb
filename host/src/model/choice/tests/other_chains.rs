//! Chains that are no preset.

use op_spec::chain::{ConvLayer, GroupNormLayer, Layer};

use super::*;

/// Chains that nothing was made for.
#[test]
fn other_chains() {
    let conv = |name| Layer::conv2d(ConvLayer::new(name, 64, [3, 3]));
    let group_norm = || Layer::group_norm("group_norm", 16);
    let scale = || Layer::scale("scale");
    let pool = || Layer::max_pool2d(MaxPool2dSpec::new([4, 4]));
    let clamp = || Layer::clamp(0.0, 1.0);
    let chain = |layers: Vec<Layer>| Chain::new(8, layers).unwrap();
    let head = || vec![conv("a"), group_norm(), scale(), pool(), clamp()];
    let instance_norm = vec![
        conv("a"),
        Layer::instance_norm("norm"),
        scale(),
        pool(),
        clamp(),
    ];
    let eight_groups = Layer::GroupNorm(GroupNormLayer {
        name: "norm".to_owned(),
        attributes: GroupNormSpec::new(8),
        affine: true,
    });
    // PyTorch's relu is a clamp.
    let with_relu = [&head()[..4], &[Layer::relu()]].concat();
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let twice = [
        "one-launch-2d | direct",
        "implicit-gemm | direct",
        "implicit-gemm | direct",
    ];
    let input = [2, 8, 128, 128];
    check(
        &[
            ("conv", chain(vec![conv("a")]), &input, ["direct"; 3]),
            (
                "no scale and pool",
                chain(vec![conv("a"), group_norm(), clamp()]),
                &input,
                ["direct | norm | operator"; 3],
            ),
            ("instance norm", chain(instance_norm), &input, one_launch),
            ("relu", chain(with_relu), &input, one_launch),
            (
                "two convolutions",
                chain([head(), vec![conv("b")]].concat()),
                &input,
                twice,
            ),
            (
                "no convolution",
                chain(vec![eight_groups.clone(), scale(), pool(), clamp()]),
                &input,
                ["norm-scale-pool-clamp"; 3],
            ),
            (
                "two maxima",
                chain(vec![
                    eight_groups,
                    scale(),
                    clamp(),
                    pool(),
                    Layer::channel_max(),
                ]),
                &input,
                ["norm-scale | operator | operator | operator"; 3],
            ),
            (
                "a factor first",
                chain(vec![
                    scale(),
                    pool(),
                    clamp(),
                    scale(),
                    Layer::channel_max(),
                ]),
                &input,
                ["scale-pool-clamp | operator | operator"; 3],
            ),
            (
                "a clamp before factor and maximum",
                chain(vec![clamp(), scale(), Layer::channel_max(), clamp()]),
                &input,
                ["clamp-scale-max | operator"; 3],
            ),
        ],
        &DTYPES,
        &Options::default(),
    );
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
    // The factor behind the norm is another one than that before it.
    let mut layers = of_79.layers().to_vec();
    layers[4] = Layer::scale("other");
    let other_factor = Chain::new(3, layers).unwrap();
    check(
        &[(
            "another factor",
            other_factor,
            &KernelBench79::INPUT,
            ["direct | operator | norm | clamp-scale-max"; 3],
        )],
        &DTYPES,
        &Options::default(),
    );
}

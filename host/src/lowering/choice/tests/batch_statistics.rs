//! Channels-last networks with batch norms in training.

use op_spec::graph::{Layer, Partition};

use super::*;

/// Chooses for a channels-last input. Returns the regions' layers and rows, and all launches in order.
fn of_nhwc(
    graph: &Graph,
    input: &[usize],
    dtype: DType,
    options: &Options,
) -> Result<(String, Vec<&'static str>)> {
    let chosen = choose(Query {
        graph,
        problem: &graph.problem(input)?,
        dtype,
        orders: &[Order::of_layout(input, Layout::Nhwc)?],
        given: &[],
        read_as: &[],
        properties: &H200,
        options,
    })?;
    let facts = || chosen.iter().map(|region| &region.facts);
    let regions = facts().map(|facts| format!("{} @{}", facts.layers, facts.kernels));
    let launches = facts().flat_map(|facts| facts.launches.iter().copied());
    let regions = regions.collect::<Vec<_>>().join(" | ");
    Ok((regions, launches.collect()))
}

fn is_copy(kernel: &str) -> bool {
    ["copy", "reformat", "transpose"]
        .iter()
        .any(|part| kernel.contains(part))
}

fn conv(name: &str, filters: usize, kernel_size: usize, stride: usize) -> Layer {
    let conv = Layer::conv2d(name, filters, kernel_size).stride(stride);
    conv.padding(kernel_size / 2).bias(false).into()
}

fn norm(name: &str) -> Layer {
    Layer::batch_norm(name).training(true).into()
}

fn overlapping() -> Layer {
    Layer::max_pool2d(3).stride(2).padding(1).into()
}

/// The stem, a block and the head of a ResNet.
fn network() -> Graph {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 64, 7, 2))
        .layer("stem.bn", "stem", norm("bn1"))
        .layer("stem.relu", "stem.bn", Layer::relu())
        .layer("pooled", "stem.relu", overlapping())
        .layer("first", "pooled", conv("first", 64, 1, 1))
        .layer("first.bn", "first", norm("first_bn"))
        .layer("first.relu", "first.bn", Layer::relu())
        .layer("second", "first.relu", conv("second", 64, 3, 2))
        .layer("second.bn", "second", norm("second_bn"))
        .layer("second.relu", "second.bn", Layer::relu())
        .layer("third", "second.relu", conv("third", 256, 1, 1))
        .layer("third.bn", "third", norm("third_bn"))
        .layer("down", "pooled", conv("down", 256, 1, 2))
        .layer("down.bn", "down", norm("down_bn"))
        .layer("sum", "third.bn", Layer::add("down.bn"))
        .layer("block", "sum", Layer::relu())
        .layer("averaged", "block", Layer::adaptive_avg_pool2d(1))
        .layer("flat", "averaged", Layer::flatten())
        .layer("y", "flat", Layer::linear("fc", 256, 1000));
    graph.build("y").expect("a graph")
}

#[test]
fn residual_networks_in_training_copy_nothing() {
    for dtype in [DType::F16, DType::BF16] {
        let options = Options::default();
        let (regions, launches) =
            of_nhwc(&network(), &[8, 3, 224, 224], dtype, &options).expect("kernels");
        let copies: Vec<_> = launches.iter().filter(|of| is_copy(of)).collect();
        assert!(copies.is_empty(), "{regions}: {launches:?}");
        let count = |part: &str| launches.iter().filter(|of| of.contains(part)).count();
        let norms = ["norm_nhwc_moments", "batch_norm_moments", "norm_nhwc_"].map(count);
        assert_eq!(norms, [5, 5, 10], "{launches:?}");
        let (stem, _) = regions.split_once(" | conv2d").expect("several regions");
        assert_eq!(
            stem,
            "conv2d @gemm | batch_norm relu @tensor | max_pool2d @tensor"
        );
        let tail = "| batch_norm add relu @tensor | adaptive_avg_pool2d flatten @tensor |";
        assert!(regions.contains(tail), "{regions}");
    }
}

/// The last layers without a residual, and a mean over space as the end.
#[test]
fn reductions_over_space_read_nhwc() {
    for (name, reduction) in [
        ("adaptive_avg_pool2d", Layer::adaptive_avg_pool2d(1)),
        ("mean", Layer::from(Layer::mean(&[2, 3]))),
    ] {
        let layers = [
            conv("conv", 64, 1, 1),
            norm("norm"),
            Layer::relu(),
            reduction,
        ];
        let chain = Chain::new(64, layers).expect("a chain");
        let options = Options::default();
        let (regions, launches) =
            of_nhwc(&chain, &[8, 64, 14, 14], DType::F16, &options).expect("kernels");
        let wanted = format!("conv2d @gemm | batch_norm relu @tensor | {name} @tensor");
        assert_eq!(regions, wanted);
        assert!(!launches.iter().any(|of| is_copy(of)), "{launches:?}");
    }
}

/// A norm and a pool by themselves, where both have kernels for channels-last tensors. Pools of windows side
/// by side stay in the convolution, and a partition decides by itself.
#[test]
fn norms_and_pools_are_two_regions() {
    let layers = |pool: Layer| [norm("norm"), Layer::relu(), pool];
    let adjacent = || Layer::from(Layer::max_pool2d(2));
    let all = "batch_norm relu max_pool2d";
    let apart = "batch_norm relu @tensor | max_pool2d @tensor";
    for (channels, pool, wanted) in [
        (8, overlapping(), apart.to_owned()),
        (8, adjacent(), apart.to_owned()),
        (6, overlapping(), format!("{all} @tensor")),
    ] {
        let chain = Chain::new(channels, layers(pool)).expect("a chain");
        for dtype in DTYPES {
            let input = [2, channels, 20, 20];
            let options = Options::default();
            let (regions, launches) = of_nhwc(&chain, &input, dtype, &options).expect("kernels");
            assert_eq!(regions, wanted, "{dtype}");
            let copies = launches.iter().filter(|of| is_copy(of)).count();
            assert_eq!(copies, if channels == 8 { 0 } else { 2 }, "{launches:?}");
            for asked in [all.to_owned(), format!("{all} @tensor")] {
                let partition = Partition::parse(&chain, &asked).expect("a partition");
                let options = options.clone().partition(partition);
                let (regions, _) = of_nhwc(&chain, &input, dtype, &options).expect("kernels");
                assert_eq!(regions, format!("{all} @tensor"), "{dtype}");
            }
        }
    }
    let conv = conv("conv", 64, 3, 1);
    let options = Options::default();
    for (pool, wanted) in [
        (adjacent(), format!("conv2d {all} @implicit-gemm")),
        (overlapping(), format!("conv2d @gemm | {apart}")),
    ] {
        let layers = [&[conv.clone()][..], &layers(pool)].concat();
        let chain = Chain::new(64, layers).expect("a chain");
        let of = |options| of_nhwc(&chain, &[8, 64, 56, 56], DType::F16, options);
        assert_eq!(of(&options).expect("kernels").0, wanted);
        let asked = format!("conv2d {all}");
        let partition = Partition::parse(&chain, &asked).expect("a partition");
        let of = of(&options.clone().partition(partition));
        assert_eq!(of.expect("kernels").0, format!("{asked} @implicit-gemm"));
    }
}

/// A launch for each sample has no statistics of other samples.
#[test]
fn one_launch_has_the_statistics_of_a_sample() {
    let norm = |of_batch: bool| match of_batch {
        true => Layer::from(Layer::batch_norm("norm").training(true)),
        false => Layer::instance_norm("norm").affine(true).into(),
    };
    for of_batch in [false, true] {
        let layers = vec![
            Layer::conv2d("conv", 64, 3).into(),
            norm(of_batch),
            Layer::scale("scale").into(),
            Layer::max_pool2d(4).into(),
            Layer::clamp(0.0, 1.0),
        ];
        let chain = Chain::new(8, layers).unwrap();
        let row = rows(
            &chain,
            &[128, 8, 128, 128],
            DType::F32,
            &H200,
            &Options::default(),
        );
        assert_eq!(row == "one-launch-2d", !of_batch, "{row}");
    }
}

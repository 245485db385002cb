//! The layout of values inside of a graph.

use op_spec::graph::Layer;

use super::*;

/// Three convolutions, and perhaps a mean of all pixels.
fn graph(channels: usize, has_mean: bool) -> Graph {
    let conv = |name: &str, filters| Layer::from(Layer::conv2d(name, filters, 3).padding(1));
    let mut layers = vec![
        conv("first", 64),
        Layer::relu(),
        conv("second", 64),
        conv("third", 64),
    ];
    if has_mean {
        layers.push(Layer::adaptive_avg_pool2d(1));
    }
    Chain::new(channels, layers).expect("a chain").into()
}

/// Returns the launches and the layout that each region reads.
fn launches(graph: &Graph, channels: usize, dtype: DType, options: &Options) -> Vec<String> {
    let input = [8, channels, 56, 56];
    let chosen = chosen(graph, &input, dtype, &H200, options).expect("kernels");
    let of = |region: &Chosen| {
        format!(
            "{:?}: {}",
            region.facts.reads,
            region.facts.launches.join(" ")
        )
    };
    chosen.iter().map(of).collect()
}

#[test]
fn networks_are_channels_last_inside() {
    let fast = Options::default().precision(Precision::Fast);
    for dtype in [DType::F32, DType::F16] {
        let got = launches(&graph(3, true), 3, dtype, &fast);
        let [first, second, third, mean] = &got[..] else {
            panic!("{got:?}")
        };
        assert!(first.starts_with("Nchw: gemm_pad_channels"), "{first}");
        assert!(second.starts_with("Nhwc: gemm_sm90"), "{second}");
        assert!(third.starts_with("Nhwc: gemm_sm90"), "{third}");
        assert!(mean.starts_with("Nhwc: reduction_nhwc"), "{mean}");
    }
}

#[test]
fn few_convolutions_do_not_pay_for_reformats() {
    let fast = Options::default().precision(Precision::Fast);
    let is_nhwc = |graph: &Graph, channels| {
        let launches = launches(graph, channels, DType::F16, &fast);
        launches.iter().any(|of| of.contains("gemm_sm90_m"))
    };
    // Convolutions move six values for each value of a large input or output.
    assert!(is_nhwc(&graph(3, true), 3));
    assert!(!is_nhwc(&graph(64, false), 64));
    assert!(!is_nhwc(&graph(3, false), 3));
    assert!(!is_nhwc(&graph(64, true), 64));
}

#[test]
fn exact_products_stay_as_their_inputs() {
    let got = launches(&graph(3, true), 3, DType::F32, &Options::default());
    assert!(got.iter().all(|of| of.starts_with("Nchw")), "{got:?}");
}

/// A network is channels last if half of its products are matrix products.
#[test]
fn half_of_the_products_suffice() {
    let fast = Options::default().precision(Precision::Fast);
    let is_nhwc = |channels: usize, groups: [usize; 3]| {
        let conv = |at: usize| Layer::conv2d(format!("conv{at}"), 64, 3).padding(1);
        let convs = (0..3).map(|at| Layer::from(conv(at).groups(groups[at])));
        let layers: Vec<Layer> = convs.chain([Layer::adaptive_avg_pool2d(1)]).collect();
        let graph = Chain::new(channels, layers).unwrap();
        let got = launches(&graph, channels, DType::F16, &fast);
        got.iter().any(|of| of.contains("gemm_sm90_m"))
    };
    // The layers have `channels`, 64 / groups and 64 / groups multiply-adds per result and tap. Those of one
    // group are matrix products.
    assert!(is_nhwc(16, [1, 1, 1]));
    assert!(is_nhwc(32, [1, 4, 4]));
    assert!(!is_nhwc(24, [1, 4, 4]));
}

/// A flatten or reshape at the end of a region reads NCHW.
#[test]
fn regions_with_another_shape_write_nchw() {
    let depthwise = Layer::conv2d("conv", 16, 3).groups(16);
    let layers: [Layer; 7] = [
        Layer::relu(),
        Layer::max_pool2d(2).into(),
        Layer::avg_pool2d(2).into(),
        depthwise.into(),
        Layer::conv2d("conv", 32, 3).into(),
        Layer::batch_norm("norm").into(),
        Layer::instance_norm("norm").into(),
    ];
    let input = [8, 16, 20, 24];
    let orders = [
        Order::Dense,
        Order::of_layout(&input, Layout::Nhwc).unwrap(),
    ];
    for (layer, order) in layers
        .iter()
        .flat_map(|layer| orders.map(|order| (layer, order)))
    {
        let chain = Chain::new(16, vec![layer.clone(), Layer::flatten()]).unwrap();
        for (dtype, properties) in [(DType::F32, H200), (DType::F16, H200), (DType::F16, A100)] {
            let chosen = choose(Query {
                graph: &chain,
                problem: &chain.problem(&input).unwrap(),
                dtype,
                orders: &[order],
                given: &[],
                read_as: &[],
                properties: &properties,
                options: &Options::default(),
            });
            for region in chosen.unwrap() {
                let RegionFacts { layers, writes, .. } = &region.facts;
                assert!(
                    !layers.contains("flatten") || *writes == Layout::Nchw,
                    "{layers}"
                );
            }
        }
    }
}

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

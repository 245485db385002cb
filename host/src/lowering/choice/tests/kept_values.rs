//! Values that later arithmetic reads again, and residuals of shuffled results.

use op_spec::graph::{BroadcastParameter, Layer, OtherTensor};

use super::*;

/// Shuffled results are combined with a residual, or with a kept value, while they are written, if gain and
/// shift would otherwise need a separate launch.
#[test]
fn transposed_convolutions_meet_a_residual_where_results_are_shuffled() {
    let up = Layer::conv_transpose3d("up", 64, 3).stride(2).padding(1);
    let up = Layer::from(up.output_padding(1));
    let bias = Layer::add(BroadcastParameter::new("bias"));
    let added = [up.clone(), Layer::add("residual"), bias.clone()];
    let again = [up, bias, Layer::mul(OtherTensor::Layer(0))];
    for (layers, channels) in [(added, 32), (again, 16)] {
        let chain = Chain::new(channels, layers.to_vec()).unwrap();
        let input = [2, channels, 4, 16, 16];
        let chosen = chosen(&chain, &input, DType::F32, &H200, &Options::default());
        let [region] = &chosen.unwrap()[..] else {
            panic!("one region");
        };
        let config = &region.facts.config;
        assert!(
            config.ends_with("results are shuffled into the output"),
            "{config}"
        );
        let last = region.facts.launches.last().unwrap();
        assert!(last.starts_with("implicit_gemm_sm90_store"), "{last}");
    }
}

/// Columns of the last phases may lie beyond the output, and rows need not be whole vectors. In f32 a value
/// is kept in the tile.
#[test]
fn transposed_convolutions_shuffle_into_rows_of_any_length() {
    let chosen_for = |layers: Vec<Layer>, dtype| {
        let chain = Chain::new(32, layers).unwrap();
        let chosen = chosen(&chain, &[2, 32, 16, 16], dtype, &H200, &Options::default());
        let chosen = chosen.unwrap();
        let config = &chosen[0].facts.config;
        assert!(
            config.ends_with("results are shuffled into the output"),
            "{config}"
        );
        chosen.len()
    };
    for dtype in [DType::F32, DType::F16] {
        for output_padding in [0, 1] {
            for kernel_size in [3, 4, 5] {
                let up = Layer::conv_transpose2d("up", 64, kernel_size).stride(2);
                let up = Layer::from(up.padding(1).output_padding(output_padding));
                assert_eq!(chosen_for(vec![up.clone(), Layer::relu()], dtype), 1);
                let kept = vec![up, Layer::relu(), Layer::mul(OtherTensor::Layer(0))];
                let is_kept = chosen_for(kept, dtype) == 1;
                assert!(dtype != DType::F32 || is_kept);
            }
        }
    }
}

/// If a kernel cannot keep a value, or a list is too long for it, the region ends with that value.
#[test]
fn values_are_kept_within_a_launch() {
    let conv = |groups| Layer::from(Layer::conv2d("conv", 64, 3).padding(1).groups(groups));
    let gated = |groups| {
        vec![
            conv(groups),
            Layer::hardswish(),
            Layer::mul(OtherTensor::Layer(0)),
        ]
    };
    let long = || {
        let functions = vec![Layer::hardswish(); 7];
        [
            vec![conv(1)],
            functions,
            vec![Layer::mul(OtherTensor::Layer(0))],
        ]
        .concat()
    };
    let functions = |behind: &[Layer]| {
        let functions = [vec![Layer::tanh(); 6], vec![Layer::sigmoid()]].concat();
        [functions, behind.to_vec()].concat()
    };
    let nhwc = Order::of_layout(&[2, 64, 20, 24], Layout::Nhwc).unwrap();
    let names = |layers: Vec<Layer>, order: &Order| {
        let chain = Chain::new(64, layers).unwrap();
        let chosen = choose(Query {
            graph: &chain,
            problem: &chain.problem(&[2, 64, 20, 24]).unwrap(),
            dtype: DType::F16,
            orders: std::slice::from_ref(order),
            given: &[],
            read_as: &[],
            properties: &H200,
            options: &Options::default(),
        });
        let chosen = chosen.unwrap().into_iter().map(|of| of.facts);
        chosen
            .map(|facts| (facts.layers, facts.launches.len()))
            .collect::<Vec<_>>()
    };
    let of = |layers: &str, launches| (layers.to_owned(), launches);
    let whole = "conv2d hardswish mul";
    let apart = [of("conv2d", 1), of("hardswish mul", 1)];
    assert_eq!(names(gated(1), &Order::Dense), [of(whole, 2)]);
    assert_eq!(names(gated(1), &nhwc), apart);
    assert_eq!(names(gated(64), &Order::Dense), [of(whole, 1)]);
    assert_eq!(names(gated(64), &nhwc), apart);
    let seven = ["hardswish "; 7].concat() + "mul";
    assert_eq!(
        names(long(), &Order::Dense),
        [of("conv2d", 2), of(&seven, 1)]
    );
    // Consecutive clamps count as one.
    let clamps = [vec![conv(1)], vec![Layer::relu(); 9]].concat();
    let all = ["conv2d"]
        .into_iter()
        .chain([" relu"; 9])
        .collect::<String>();
    assert_eq!(names(clamps, &Order::Dense), [of(&all, 2)]);
    // The second launch begins with the value that it keeps.
    let behind = [
        Layer::relu(),
        Layer::tanh(),
        Layer::relu(),
        Layer::mul(OtherTensor::Layer(8)),
    ];
    let seven = "tanh tanh tanh tanh tanh tanh sigmoid";
    assert_eq!(
        names(functions(&behind), &Order::Dense),
        [of(&format!("{seven} relu tanh relu mul"), 2)]
    );
    let behind = [Layer::relu(), Layer::mul(OtherTensor::Layer(6))];
    assert_eq!(
        names(functions(&behind), &Order::Dense),
        [of(seven, 1), of("relu mul", 1)]
    );
}

use super::*;

/// Channels-last filters of 16 bits, and dense filters of one tap, need no launch before the convolution.
#[test]
fn channels_last_filters_are_read_in_place() {
    let stream = stream(Arch::Sm90);
    let conv = |kernel_size: usize| Layer::from(Layer::conv2d("conv", 64, kernel_size));
    let norm = Layer::from(Layer::group_norm("norm", 4));
    let cases = [
        (vec![conv(3), Layer::relu()], false),
        (vec![conv(1)], false),
        (vec![conv(3), norm, Layer::relu()], true),
    ];
    for (layers, batch_invariant) in cases {
        let chain = Chain::new(64, layers).unwrap();
        for dtype in [DType::F16, DType::BF16] {
            let x = data::signed(7, [2, 64, 18, 16]);
            let x = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
            let x = channels_last(&x);
            let dense = tensors(&stream, &values(&chain, 1), dtype);
            let given: Vec<Tensor> = dense.iter().map(channels_last).collect();
            let of = Inputs::new(&x);
            let options = Options::default().batch_invariant(batch_invariant);
            let launches = Launches::given(&stream, chain.as_ref(), of, &given, &options).unwrap();
            let explained = launches.explain().unwrap();
            let what = format!("{} {dtype}: {explained}", chain.operators());
            let first = &explained.launches[0].kernel;
            let kernels = ["implicit_gemm_sm90", "gemm_sm90"];
            assert!(kernels.iter().any(|of| first.starts_with(of)), "{what}");
            let model = Model::from_tensors(&stream, &chain, dense, dtype).unwrap();
            let expected = model.forward_with(&x, &options).unwrap();
            // The run's output is channels-last in memory.
            let expected = expected.permute(&[0, 2, 3, 1]).unwrap();
            let got = run(&launches, &stream, &x, &given);
            assert!(bits(&got) == bits(&expected), "{what}");
        }
    }
}

/// Filters that are not the tensors' type, or that another layer reads too, are not read in place.
#[test]
fn other_channels_last_filters_are_copied() {
    let stream = stream(Arch::Sm90);
    let conv = || Layer::from(Layer::conv2d("conv", 64, 3).padding(1));
    let alone = Chain::new(64, vec![conv(), Layer::relu()]).unwrap();
    let shared = Chain::new(64, vec![conv(), conv()]).unwrap();
    let direct = Partition::parse(&shared, "conv2d | conv2d @direct").unwrap();
    let direct = Options::default().partition(direct);
    for (chain, options, stored) in [
        (alone, Options::default(), DType::F32),
        (shared, direct, DType::F16),
    ] {
        let x = data::signed(7, [1, 64, 9, 8]);
        let x = Tensor::from_f32_array(&stream, &x, DType::F16).unwrap();
        let x = channels_last(&x);
        let options = options.output_layout(Layout::Nchw);
        let dense = tensors(&stream, &values(&chain, 1), stored);
        let given: Vec<Tensor> = dense.iter().map(channels_last).collect();
        let of = Inputs::new(&x);
        let launches = Launches::given(&stream, chain.as_ref(), of, &given, &options).unwrap();
        let model = Model::from_tensors(&stream, &chain, dense, DType::F16).unwrap();
        let expected = model.forward_with(&x, &options).unwrap();
        let got = run(&launches, &stream, &x, &given);
        assert!(bits(&got) == bits(&expected), "{}", chain.operators());
    }
}

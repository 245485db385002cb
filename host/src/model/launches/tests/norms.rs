//! Norms between 16-bit values, with f32 parameters.

use ndarray::{Dimension, IxDyn};

use super::*;

/// The extents of all inputs: even, so that values of alternating signs have the mean 0.
const SHAPE: [usize; 4] = [2, 8, 4, 6];

/// Returns every norm with a bias, whose weight is 1 and whose bias is `bias`.
fn norms() -> Vec<Layer> {
    let [_, c, h, w] = SHAPE;
    let layer_norm = |shape: &[usize]| Layer::layer_norm("norm", shape).eps(1e-12);
    vec![
        Layer::group_norm("norm", 2).eps(1e-12).into(),
        Layer::instance_norm("norm").eps(1e-12).affine(true).into(),
        layer_norm(&[c, h, w]).into(),
        layer_norm(&[h, w]).into(),
        layer_norm(&[w]).into(),
        layer_norm(&[c]).dim(1).into(),
        Layer::batch_norm("norm").eps(1e-12).into(),
        (Layer::batch_norm("norm").eps(1e-12))
            .track_running_stats(false)
            .into(),
    ]
}

/// A producer that pools reads the signs of the weights, here negative ones in f32: the largest results are
/// those of the smallest values.
#[test]
fn producers_that_pool_read_the_signs_of_f32_weights() {
    let layers = (
        Layer::conv2d("conv", SHAPE[1], 1),
        Layer::group_norm("norm", 2).eps(1e-12),
        Layer::max_pool2d(2),
    );
    let chain = Chain::new(SHAPE[1], layers).unwrap();
    let parameter = |parameter: &Parameter| {
        let identity = |index: IxDyn| f32::from(u8::from(index[0] == index[1]));
        let shape = &parameter.shape[..];
        match &*parameter.name {
            "conv.weight" => ArrayD::from_shape_fn(shape, identity),
            "norm.weight" => ArrayD::from_elem(shape, -1.0),
            _ => ArrayD::zeros(shape),
        }
    };
    let values: Vec<_> = chain.parameters().iter().map(parameter).collect();
    let partition = "conv2d group_norm max_pool2d @implicit-gemm";
    let partition = Partition::parse(&chain, partition).unwrap();
    let options = Options::default().partition(partition);
    let alternating = |index: IxDyn| 1.0 - 2.0 * (index.slice().iter().sum::<usize>() % 2) as f32;
    let signs = ArrayD::from_shape_fn(&SHAPE[..], alternating);
    for arch in ARCHS {
        let stream = stream(arch);
        let given = tensors(&stream, &values, DType::F32);
        let model = Model::from_tensors(&stream, &chain, given, DType::F16).unwrap();
        let x = Tensor::from_f32_array(&stream, &signs, DType::F16).unwrap();
        let y = model.forward_with(&x, &options).unwrap();
        let y = y.to_f32_array().unwrap();
        assert!(y.iter().all(|&y| y == 1.0), "{arch:?} {y}");
    }
}

/// The norms of 1 and -1 are these values plus the bias. The sum is rounded to another value if the bias is
/// rounded first, wherever the norm is: alone, after a convolution that changes nothing, and among functions.
#[test]
fn norms_between_16_bit_values_read_f32_parameters_as_they_are() {
    let conv = || Layer::from(Layer::conv2d("conv", SHAPE[1], 1));
    let around = [
        (vec![], vec![]),
        (vec![conv()], vec![Layer::relu()]),
        (vec![Layer::mul(-1.0)], vec![Layer::relu(), Layer::mul(2.0)]),
    ];
    let sign = |index: &IxDyn| match index.slice().iter().sum::<usize>() % 2 {
        0 => 1.0f32,
        _ => -1.0,
    };
    let signs = ArrayD::from_shape_fn(&SHAPE[..], |index| sign(&index));
    let streams = [stream(Arch::Sm100), stream(Arch::Sm90)];
    let streams = streams.into_iter().chain(Device::cpu().stream());
    for (stream, dtype) in streams.zip([DType::F16, DType::BF16, DType::F16]) {
        // A half and a little more of the distance between 1 and the next value.
        let half = match dtype {
            DType::F16 => 0.5f32.powi(11),
            _ => 0.5f32.powi(8),
        };
        let bias = half * (1.0 + 0.5f32.powi(12));
        assert_ne!(
            dtype.round(1.0 + bias),
            dtype.round(1.0 + dtype.round(bias))
        );
        for norm in norms() {
            for (before, behind) in &around {
                let layers = [&before[..], std::slice::from_ref(&norm), behind].concat();
                let chain = Chain::new(SHAPE[1], layers).unwrap();
                let parameter = |parameter: &Parameter| {
                    let identity = |index: IxDyn| f32::from(u8::from(index[0] == index[1]));
                    let shape = &parameter.shape[..];
                    match &*parameter.name {
                        "conv.weight" => ArrayD::from_shape_fn(shape, identity),
                        "norm.weight" | "norm.running_var" => ArrayD::ones(shape),
                        "norm.bias" => ArrayD::from_elem(shape, bias),
                        _ => ArrayD::zeros(shape),
                    }
                };
                let values: Vec<_> = chain.parameters().iter().map(parameter).collect();
                let given = tensors(&stream, &values, DType::F32);
                let model = Model::from_tensors(&stream, &chain, given, dtype).unwrap();
                let x = Tensor::from_f32_array(&stream, &signs, dtype).unwrap();
                let is_negated = before.len() == 1 && behind.len() == 2;
                let wanted = signs.mapv(|x| {
                    let y = dtype.round(if is_negated { -x } else { x } + bias);
                    let y = if behind.is_empty() { y } else { y.max(0.0) };
                    if is_negated { 2.0 * y } else { y }
                });
                for x in [channels_last(&x), x] {
                    let y = model.forward(&x).unwrap().to_f32_array().unwrap();
                    let device = stream.device();
                    assert_eq!(y, wanted, "{dtype} {device} {}", chain.operators());
                }
            }
        }
    }
}

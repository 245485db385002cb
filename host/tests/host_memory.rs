//! Sizes for which the host has no memory are errors, whatever their source.

use std::sync::Arc;

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::spec::{ClampSpec, Conv2dSpec};
use convfuse::{DType, Device, Error, Model, Options, Parameters, ParametersError, Tensor, ops};
use ndarray::Array4;

fn is_out_of_memory<T>(result: Result<T, Error>) {
    match result {
        Err(Error::OutOfMemory { requested, .. }) => assert!(requested > 1 << 30),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("was done"),
    }
}

fn ones(shape: [usize; 4]) -> Tensor {
    let stream = Device::cpu().stream().unwrap();
    Tensor::from_array(&stream, &Array4::<f32>::ones(shape)).unwrap()
}

#[test]
fn a_convolution_with_a_wide_pad() {
    let (x, weight) = (ones([1, 2, 5, 5]), ones([3, 2, 3, 3]));
    let spec = Conv2dSpec::default().padding([1_000_000; 2]);
    is_out_of_memory(ops::conv2d(&x, &weight, None, &spec));
}

#[test]
fn an_intermediate_of_a_chain() {
    let stream = Device::cpu().stream().unwrap();
    let mut conv = ConvLayer::new("conv", 16, [3, 3]);
    conv.attributes.padding = [400_000; 2].into();
    let pool = Layer::max_pool2d([800_000, 800_000]);
    let chain = Chain::new(2, (Layer::from(conv), pool)).unwrap();
    let model = Model::init(&stream, &chain, 1).unwrap();
    is_out_of_memory(model.forward(&ones([1, 2, 5, 5])));
}

/// The input has one element in memory, which its strides of 0 repeat billions of times.
#[test]
fn an_output_of_a_billion_samples() {
    let stream = Device::cpu().stream().unwrap();
    let mut element = Box::new(1.0f32);
    let pointer = std::ptr::from_mut(&mut *element).cast();
    let owner = Arc::new(element);
    let shape = [1 << 40, 1, 1, 1];
    // SAFETY: the strides only reach the one element, which the owner keeps.
    let x = unsafe {
        let strides = Some(&[0; 4][..]);
        Tensor::from_raw_parts(
            &stream,
            pointer,
            &shape,
            strides,
            DType::F32,
            Box::new(owner),
        )
    };
    let x = x.unwrap();
    is_out_of_memory(ops::conv2d(
        &x,
        &ones([3, 1, 1, 1]),
        None,
        &Conv2dSpec::default(),
    ));
    is_out_of_memory(ops::clamp(&x, &ClampSpec::new(0.0, 1.0)));
    is_out_of_memory(x.to_array::<f32>());
}

#[test]
fn parameters_of_more_channels_than_there_can_be() {
    let stream = Device::cpu().stream().unwrap();
    for channels in [10_usize.pow(13), usize::MAX / 4] {
        let conv = Layer::conv2d("conv", channels, 1);
        let chain = Chain::new(1, [conv]).unwrap();
        let error = Model::init(&stream, &chain, 1).unwrap_err();
        let Error::Parameters(ParametersError::TooLarge { name, .. }) = &error else {
            panic!("{error}")
        };
        assert_eq!(name, "conv.weight");
        assert!(Parameters::load(&chain, "/dev/null").is_err());
    }
}

#[test]
fn shapes_that_no_array_has_though_they_hold_nothing() {
    let stream = Device::cpu().stream().unwrap();
    let shape = [0, 1 << 62, 1 << 62];
    is_out_of_memory(Tensor::zeros(&stream, &shape, DType::F32));
}

/// The specification refuses sizes beyond any memory, on every device.
#[test]
fn outputs_beyond_an_address_space() {
    let spec = Conv2dSpec::default().padding([1 << 31, 1 << 31]);
    let error = ops::conv2d(&ones([1, 1, 1, 1]), &ones([1, 1, 1, 1]), None, &spec).unwrap_err();
    assert!(matches!(error, Error::Spec(_)), "{error}");
    let chain = Chain::new(1, [Layer::conv2d("conv", 4, 1)]).unwrap();
    let stream = Device::cpu().stream().unwrap();
    let model = Model::init(&stream, &chain, 1).unwrap();
    let planned = model.plan(&stream, &[1 << 60, 1, 1, 1], &Options::default());
    assert!(matches!(planned.unwrap_err(), Error::Graph(_)));
}

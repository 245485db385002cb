//! Inputs without a batch give the same bits as a batch of one sample, without the batch axis.

use convfuse::graph::{Chain, Layer};
use convfuse::spec::{
    Conv1dSpec, Conv2dSpec, Conv3dSpec, LayerNormSpec, Layout, MaxPool2dSpec, Padding, PaddingMode,
};
use convfuse::{DType, Model, Options, PinnedArray, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{ArrayD, Axis, IxDyn};

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "no_batch",
        &[
            ("operators_give_the_bits_of_a_batch_of_one", operators),
            ("models_give_the_bits_of_a_batch_of_one", models),
            ("is_refused_by_layers_that_take_one", refusals),
        ],
    )
}

/// Values of this shape, and the same values as a batch of one sample.
fn sample(shape: &[usize]) -> [ArrayD<f32>; 2] {
    let x: ArrayD<f32> = data::signed(5, IxDyn(shape));
    let batch = x.clone().insert_axis(Axis(0));
    [x, batch]
}

fn operators(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let both =
        |shape: &[usize], operator: &dyn Fn(&Tensor) -> convfuse::Result<Tensor>| -> Outcome {
            let [x, batch] = sample(shape);
            let wanted = operator(&Tensor::from_array(&stream, &batch)?)?.to_array::<f32>()?;
            let wanted = wanted.remove_axis(Axis(0));
            let got = operator(&Tensor::from_array(&stream, &x)?)?;
            assert_eq!(got.shape(), wanted.shape());
            assert_eq!(got.to_array::<f32>()?, wanted);
            Ok(())
        };
    let weight = |shape: &[usize]| Tensor::from_array(&stream, &data::signed(6, IxDyn(shape)));
    let of_sequences = weight(&[4, 3, 3])?;
    let same = Conv1dSpec::default().padding(Padding::Same);
    both(&[3, 17], &|x| ops::conv1d(x, &of_sequences, None, &same))?;
    let of_images = weight(&[4, 3, 3, 2])?;
    let reflect = Conv2dSpec::default()
        .padding([1, 2])
        .padding_mode(PaddingMode::Reflect);
    both(&[3, 7, 9], &|x| ops::conv2d(x, &of_images, None, &reflect))?;
    let of_volumes = weight(&[4, 3, 2, 3, 2])?;
    let plain = Conv3dSpec::default();
    both(&[3, 4, 5, 6], &|x| {
        ops::conv3d(x, &of_volumes, None, &plain)
    })?;
    let pool = MaxPool2dSpec::new([2, 3]);
    both(&[3, 7, 9], &|x| ops::max_pool2d(x, &pool))?;
    let norm = LayerNormSpec::default();
    both(&[3, 7, 9], &|x| {
        ops::layer_norm(x, &[3, 7, 9], None, None, &norm)
    })
}

/// A head without layers that require a batch axis.
fn chain() -> convfuse::Result<Chain> {
    let conv = Layer::conv2d("conv", 5, [3, 2]);
    let (norm, scale) = (Layer::instance_norm("norm"), Layer::scale("scale"));
    let pool = Layer::max_pool2d(2);
    Ok(Chain::new(3, (conv, norm, scale, Layer::silu(), pool))?)
}

fn models(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = Model::init(&stream, &chain()?, 3)?;
    let [x, batch] = sample(&[3, 9, 11]);
    let wanted = model.forward_array(&batch)?.remove_axis(Axis(0));
    assert_eq!(model.output_shape(x.shape())?, wanted.shape());

    let tensor = Tensor::from_array(&stream, &x)?;
    let y = model.forward(&tensor)?;
    assert_eq!(y.shape(), wanted.shape());
    assert_eq!(y.to_array::<f32>()?, wanted);
    // The same values in channels-last memory order.
    let permuted = x.view().permuted_axes(IxDyn(&[1, 2, 0]));
    let last = permuted.as_standard_layout().into_owned();
    let last = last.permuted_axes(IxDyn(&[2, 0, 1]));
    let y = model.forward(&Tensor::from_array(&stream, &last)?)?;
    assert_eq!(y.to_array::<f32>()?, wanted);

    // An output without a batch has one layout.
    let options = Options::default().output_layout(Layout::Nhwc);
    let y = model.forward_with(&tensor, &options)?;
    assert!(y.is_contiguous());
    assert_eq!(y.to_array::<f32>()?, wanted);

    assert_eq!(model.forward_array(&x)?, wanted);
    let mut into = ArrayD::zeros(wanted.raw_dim());
    model.forward_array_into(&x, &mut into, &Options::default())?;
    assert_eq!(into, wanted);

    let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
    assert_eq!(
        (plan.input_shape(), plan.output_shape()),
        (x.shape(), wanted.shape())
    );
    let mut y = plan.output()?;
    for _ in 0..2 {
        plan.execute(&tensor, &mut y)?;
        assert_eq!(y.to_array::<f32>()?, wanted);
    }
    Ok(())
}

fn refusals(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = || Layer::from(Layer::conv2d("conv", 6, 3));
    let x = Tensor::zeros(&stream, &[3, 9, 11], DType::F32)?;
    for (layer, words) in [
        (
            Layer::from(Layer::group_norm("norm", 2)),
            "layer 1: group_norm: the input has rank 3 and no batch, expected rank 4",
        ),
        (
            Layer::batch_norm("norm").into(),
            "layer 1: batch_norm: the input has rank 3 and no batch, expected rank 4",
        ),
        (
            Layer::max(&[1]).into(),
            "layer 1: max: the input has rank 3 and no batch, expected rank 4",
        ),
    ] {
        let model = Model::init(&stream, &Chain::new(3, (conv(), layer))?, 3)?;
        says(model.forward(&x), words)?;
    }
    // The layers do not determine the input's rank, so the first axis is the batch.
    let norm = Model::init(&stream, &Chain::new(9, [Layer::instance_norm("norm")])?, 3)?;
    assert_eq!(norm.forward(&x)?.shape(), [3, 9, 11]);
    // Pinned arrays always have a batch.
    let model = Model::init(&stream, &chain()?, 3)?;
    let shape = model.output_shape(&[3, 9, 11])?;
    let pinned = |shape: &[usize]| PinnedArray::<f32>::zeros(stream.device(), shape);
    if let (Ok(x), Ok(mut y)) = (pinned(&[3, 9, 11]), pinned(&shape)) {
        let refused = model.forward_pinned(&x, &mut y, &Options::default());
        assert!(refused.is_err(), "a batch is what is cut into chunks");
    }
    Ok(())
}

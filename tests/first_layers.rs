//! First layers of every kind, which read inputs of any layout: alone, and fused with a norm and a function.

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::model::Precision;
use convfuse::spec::{ConvSpec, Padding, PaddingMode};
use convfuse::{DType, Model, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{WAYS, are_close, bits_of, lying};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "first_layers",
        &[("give_the_bits_of_contiguous_inputs", any_way)],
    )
}

/// Samples, channels and extents of inputs, for as many dimensions as layers have.
const INPUTS: [&[usize]; 3] = [&[2, 8, 13], &[2, 8, 7, 9], &[2, 8, 3, 6, 5]];

/// Padding of a convolution, and its groups. With `Same`, an even filter has more padding on one side.
fn edges<const D: usize>() -> [(ConvSpec<D>, [usize; D]); 5] {
    let plain = ConvSpec::default();
    let with = |padding, padding_mode, groups| {
        plain
            .padding(padding)
            .padding_mode(padding_mode)
            .groups(groups)
    };
    let zeros = PaddingMode::Zeros;
    [
        (plain, [3; D]),
        (with([1; D].into(), zeros, 2), [3; D]),
        (with([1; D].into(), zeros, 8), [3; D]),
        (with(Padding::Same, zeros, 1), [2; D]),
        (with([1; D].into(), PaddingMode::Circular, 1), [3; D]),
    ]
}

fn convolutions<const D: usize>() -> impl Iterator<Item = Layer>
where
    Layer: From<ConvLayer<D>>,
{
    edges().into_iter().map(|(attributes, filter)| {
        ConvLayer::new("conv", 16, filter)
            .attributes(attributes)
            .into()
    })
}

/// First layers, each with its input shape.
fn layers() -> Vec<(Layer, &'static [usize])> {
    let [line, image, volume] = INPUTS;
    let convolutions = convolutions::<1>()
        .map(|layer| (layer, line))
        .chain(convolutions::<2>().map(|layer| (layer, image)))
        .chain(convolutions::<3>().map(|layer| (layer, volume)));
    let others = [
        (Layer::from(Layer::group_norm("norm", 2)), volume),
        (Layer::layer_norm("norm", &image[1..]).into(), image),
        (Layer::scale("scale").into(), volume),
        (Layer::prelu("prelu", 8).into(), image),
        (Layer::silu(), volume),
        (Layer::max_pool2d([3, 2]).into(), image),
        (Layer::avg_pool3d([2, 3, 1]).into(), volume),
        (Layer::max(&[1]).into(), volume),
        (Layer::log_softmax(&[2, 3]), image),
        (Layer::layer_norm("norm", &image[3..]).into(), image),
    ];
    convolutions.chain(others).collect()
}

fn any_way(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let ways = WAYS.iter().step_by(2);
    for (number, (layer, input)) in layers().into_iter().enumerate() {
        let is_convolution = number < 15;
        let mut chains = vec![vec![layer.clone()]];
        if is_convolution {
            chains.push(vec![
                layer,
                Layer::from(Layer::group_norm("norm", 4)),
                Layer::relu(),
            ]);
        }
        for (index, layers) in chains.into_iter().enumerate() {
            let chain = Chain::new(input[1], layers)?;
            let values = data::signed(1, input);
            let parameters = Parameters::init(&chain, 3)?;
            let dtype = [DType::F32, DType::F16][(number + index) % 2];
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            let x = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward(&x)?)?;
            for way in ways.clone() {
                let x = lying(&stream, &values, dtype, way)?;
                let got = bits_of(&model.forward(&x)?)?;
                let what = format!("{} in {dtype}, {}", chain.operators(), way.name);
                if index == 1 && way.name == "channels last" {
                    // The norm is channels last, too, and sums in another order.
                    are_close(&got, &wanted, (dtype, Precision::Accurate));
                    continue;
                }
                assert!(got == wanted, "layer {number}: {what}");
            }
        }
    }
    Ok(())
}

//! Chains other than the presets, without specialized kernels.

use convfuse::graph::{BroadcastParameter, Chain, Layer, Partition};
use convfuse::model::{Precision, Strategy};
use convfuse::spec::{Conv2dSpec, Padding, PaddingMode};
use convfuse::{DType, Inputs, Model, Options, Tensor, data};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::layouts::{are_close, bits_of, lying_last};
use crate::suite::in_every_type;

pub(crate) fn trials() -> Vec<Trial> {
    let cases = || cases().into_iter().map(|(case, _)| case).collect();
    let mut trials = in_every_type("other_chains", cases);
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "other_chains",
        &[
            ("take_the_fewest_launches_there_are", launches),
            ("do_functions_in_their_order", orders_of_functions),
            ("have_the_bits_of_launches_apart", transposed_apart),
        ],
    ));
    trials
}

fn conv(name: &str, filters: usize) -> Layer {
    Layer::conv2d(name, filters, 3).into()
}

fn pool(window: usize) -> Layer {
    Layer::max_pool2d([window, window]).into()
}

/// The layers of problem 85.
fn head() -> Vec<Layer> {
    let norm = Layer::group_norm("group_norm", 4);
    let (scale, clamp) = (Layer::scale("scale"), Layer::clamp(-0.7, 0.6));
    vec![conv("conv", 24), norm.into(), scale.into(), pool(2), clamp]
}

/// Problem 85 with an instance norm.
fn with_instance_norm(affine: bool) -> Vec<Layer> {
    let mut layers = head();
    layers[1] = Layer::from(
        Layer::instance_norm("instance_norm")
            .eps(1e-3)
            .affine(affine),
    );
    layers
}

/// Problem 79 on images, which none of its layers exclude.
fn flat_79() -> Vec<Layer> {
    let (scale, norm) = (Layer::scale("scale"), Layer::instance_norm("norm"));
    let clamp = Layer::clamp(-0.5, 0.8);
    let convolution = conv("conv", 24);
    let maximum = Layer::max(&[1]);
    vec![
        convolution,
        scale.clone().into(),
        norm.into(),
        clamp,
        scale.into(),
        maximum.into(),
    ]
}

fn layer_norm(normalized_shape: &[usize], elementwise_affine: bool) -> Layer {
    Layer::from(
        Layer::layer_norm("layer_norm", normalized_shape)
            .elementwise_affine(elementwise_affine)
            .bias(true),
    )
}

/// Problem 85 with a layer norm.
fn with_layer_norm(affine: bool) -> Vec<Layer> {
    let mut layers = head();
    layers[1] = layer_norm(&[24, 12, 15], affine);
    layers
}

/// A head whose convolution has `Same` padding and an even filter, which requires a separate padding launch.
fn padded(padding_mode: PaddingMode) -> Vec<Layer> {
    let mut layers = head();
    layers[0] = Layer::conv2d("conv", 24, [4, 3])
        .attributes(
            Conv2dSpec::default()
                .padding(Padding::Same)
                .padding_mode(padding_mode),
        )
        .into();
    layers
}

/// The chains, each with the kernel row of its first layers.
pub(crate) fn cases() -> Vec<(Case, &'static str)> {
    let group_norm = |groups| Layer::from(Layer::group_norm("group_norm", groups).affine(false));
    let clamp = || Layer::clamp(-0.6, 0.5);
    let scale = || Layer::from(Layer::scale("scale"));
    let strided = Layer::conv2d("second", 5, [3, 2])
        .attributes(Conv2dSpec::default().stride([2, 1]).padding([1, 0]))
        .bias(false);
    let mut other_factor = flat_79();
    other_factor[4] = Layer::scale("other").into();
    let case = |name: &str, layers: Vec<Layer>| {
        let chain = Chain::new(8, layers).expect("a chain");
        Case::of_graph(&format!("other/{name}"), chain, &[2, 8, 14, 17])
    };
    let two = [head(), vec![strided.clone().into()]].concat();
    let two_heads = [head(), vec![conv("b", 8), group_norm(2), clamp()]].concat();
    // The second and the third convolution have filters of the same shape.
    let alike = ["a", "b", "c"].map(|name| [conv(name, 24), group_norm(4), clamp()]);
    // No kernel applies these factors before a norm with several channels per group, or a minimum instead of
    // a maximum.
    let factors_before = vec![conv("conv", 24), scale(), group_norm(4), clamp()];
    let falling = vec![
        conv("conv", 24),
        group_norm(4),
        Layer::leaky_relu(-0.5),
        pool(2),
    ];
    let by_gemm = [
        case("two_convolutions", two),
        case("two_heads", two_heads),
        case("alike", alike.concat()),
        case("factors_before", factors_before),
        case("falling", falling),
        case("instance_norm", with_instance_norm(false)),
        case("instance_norm_affine", with_instance_norm(true)),
        case("flat_79", flat_79()),
        case("layer_norm", with_layer_norm(false)),
        case("layer_norm_affine", with_layer_norm(true)),
        case("circular", padded(PaddingMode::Circular)),
        case("same", padded(PaddingMode::Zeros)),
        case("other_factor", other_factor),
    ];
    let norm = || group_norm(4);
    let direct = [
        case("conv2d", vec![conv("conv", 6)]),
        case("no_factor", vec![conv("conv", 6), group_norm(3), clamp()]),
        case(
            "convolutions_alone",
            vec![conv("a", 6), strided.into(), clamp()],
        ),
    ];
    let first = layer_norm(&[8, 14, 17], false);
    let maximum = || Layer::from(Layer::max(&[1]));
    let by_tensors = [
        case("no_convolution", head()[2..].to_vec()),
        case("norm_first", vec![norm(), scale(), pool(3), clamp()]),
        case("layer_norm_first", vec![first, scale(), pool(3), clamp()]),
        case("one_norm", vec![clamp(), group_norm(2), scale(), clamp()]),
        case("two_maxima", vec![pool(2), clamp(), maximum(), clamp()]),
    ];
    let up = |strides| Layer::conv_transpose2d("up", 8, [3, 2]).stride(strides);
    let volumes = Layer::conv_transpose3d("up", 8, [1, 3, 2]).stride([2, 2, 3]);
    let wide = || Layer::conv_transpose2d("up", 64, 3).stride(2).padding(1);
    let gain = || Layer::mul(BroadcastParameter::new("gain"));
    let shape = [2, 8, 14, 17];
    let by_phases = chains::table! {
        "transposed_batch_norm": [up([2, 2]), Layer::batch_norm("norm"), Layer::relu()],
            shape => "transposed";
        // Some outputs have no taps.
        "transposed_gaps": [up([1, 3]).bias(false), Layer::batch_norm("norm").affine(true),
            Layer::add("residual"), Layer::sigmoid()], shape => "transposed";
        "transposed_normed": [up([2, 1]), Layer::silu(), norm(), Layer::relu()],
            shape => "transposed";
        // Phases that share a reformatted input.
        "transposed_wide": [wide().output_padding(1)], [1, 128, 12, 20] => "transposed";
        "transposed_odd_rows": [wide(), gain(), Layer::hardswish()],
            [2, 64, 9, 14] => "transposed";
        "transposed_volumes": [volumes, gain(), Layer::hardswish(), Layer::add("residual")],
            [2, 4, 3, 4, 5] => "transposed";
    };
    let of = |row: &'static str| move |case: Case| (case, row);
    let rows = by_gemm.into_iter().map(of("implicit-gemm"));
    let rows = rows.chain(direct.into_iter().map(of("direct")));
    let rows = rows.chain(by_tensors.into_iter().map(of("tensor")));
    rows.chain(chains::cases("other", by_phases)).collect()
}

/// Two functions that do not commute, in either order, in all places of a chain that allow functions: after
/// a norm, with and without a convolution, and after or on both sides of a pool with adjacent or overlapping
/// windows.
fn orders_of_functions(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let functions = [Layer::leaky_relu(0.25), Layer::clamp(-0.2, 0.5)];
    let apart = Layer::max_pool2d(3).stride(2);
    let norm = || Layer::from(Layer::group_norm("norm", 4));
    // Enough filters for the implicit GEMM.
    let heads = [vec![conv("conv", 24), norm()], vec![norm()]];
    for [first, second] in [[0, 1], [1, 0]] {
        let [f, g] = [first, second].map(|index: usize| functions[index].clone());
        let mut tails = vec![vec![f.clone(), g.clone()]];
        for pool in [pool(2), apart.into()] {
            tails.push(vec![pool.clone(), f.clone(), g.clone()]);
            tails.push(vec![f.clone(), pool.clone(), g.clone()]);
            tails.push(vec![f.clone(), g.clone(), pool]);
        }
        let chains = heads.iter().flat_map(|head| {
            let tails = tails.iter();
            tails.map(move |tail| [&head[..], &tail[..]].concat())
        });
        for layers in chains.chain(tails[1..2].iter().cloned()) {
            let chain = Chain::new(8, layers)?;
            let name = format!("{first} and {second}: {}", chain.operators());
            let case = Case::of_graph(&name, chain, &[1, 8, 9, 11]);
            let x = Tensor::from_array(&stream, &case.x)?;
            let y = chains::model(&stream, &case, DType::F32)?.forward(&x)?;
            let checked = case
                .expected(&oracle::Precision::F16X2)?
                .check(y.to_array()?.view());
            checked.map_err(|complaint| format!("{name}: {complaint}"))?;
        }
    }
    Ok(())
}

/// The explained launches match the actual ones under every strategy. The fused strategy never has more
/// launches than others.
fn launches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, first_row) in cases() {
        let model = chains::model(&stream, &case, DType::F32)?;
        let x = Tensor::from_array(&stream, &case.x)?;
        let residual = case.inputs.first();
        let residual = residual.map(|values| Tensor::from_array(&stream, values));
        let residual = residual.transpose()?;
        let inputs = || match &residual {
            Some(residual) => Inputs::new(&x).with("residual", residual),
            None => Inputs::new(&x),
        };
        for strategy in Strategy::all(&case.graph) {
            let options = strategy.options();
            let explanation = model.explain(case.x.shape(), &options)?;
            if strategy.name == Strategy::FUSED {
                assert_eq!(explanation.regions[0].kernels, first_row, "{}", case.name);
                let single = model.explain(x.shape(), &Strategy::all(&case.graph)[1].options())?;
                assert!(explanation.regions.len() <= single.regions.len());
            }
            // The first run may also prepare parameters.
            drop(model.forward_with(inputs(), &options)?);
            stream.take_counts();
            drop(model.forward_with(inputs(), &options)?);
            let counts = stream.take_counts();
            assert_eq!(explanation.launches.len() as u64, counts.launches);
            let moved = explanation.launches.iter().map(|launch| launch.bytes_moved);
            assert_eq!(moved.sum::<u64>(), counts.bytes_moved);
        }
    }
    Ok(())
}

/// Transposed convolutions whose results are interleaved, because they have few filters, give the same bits
/// as separate launches, for every layout, type and math mode, except for exponentials in fast f32. In the
/// volumes, some outputs have no taps.
fn transposed_apart(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let flat = [
        Layer::from(Layer::conv_transpose2d("up", 6, 3).stride(2).padding(1)),
        Layer::from(Layer::batch_norm("norm")),
        Layer::relu(),
    ];
    let volumes = [
        Layer::from(Layer::conv_transpose3d("up", 6, [1, 2, 3]).stride([2, 1, 2])),
        Layer::mul(BroadcastParameter::new("gain")),
        Layer::hardswish(),
        Layer::add("residual"),
    ];
    // With a stride of 1 there is a single convolution, whose launch does not contain this list.
    let whole = [
        Layer::from(Layer::conv_transpose2d("up", 12, 3).padding(1)),
        Layer::relu(),
        Layer::mish(),
    ];
    for (chain, shape, output, text) in [
        (
            Chain::new(8, flat)?,
            &[2, 8, 6, 7][..],
            None,
            "conv_transpose2d | batch_norm | relu",
        ),
        (
            Chain::new(8, volumes)?,
            &[2, 8, 3, 4, 5],
            Some([2, 6, 5, 5, 11]),
            "conv_transpose3d | mul | hardswish add",
        ),
        (
            Chain::new(32, whole)?,
            &[2, 32, 6, 7],
            None,
            "conv_transpose2d | relu | mish",
        ),
    ] {
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let mut values = data::signed(1, shape);
        values[[&[1, 5, 2], &vec![3; shape.len() - 3][..]]
            .concat()
            .as_slice()] = f32::NAN;
        let residual = output.map(|output| data::signed(2, &output[..]));
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
            for precision in [Precision::Accurate, Precision::Fast] {
                let options = Options::default().precision(precision);
                let apart = options.clone().partition(Partition::parse(&chain, text)?);
                for in_nhwc in [false, true] {
                    let tensor = |values| match in_nhwc {
                        true => lying_last(&stream, values, dtype),
                        false => Ok(Tensor::from_f32_array(&stream, values, dtype)?),
                    };
                    let x = tensor(&values)?;
                    let residual = residual.as_ref().map(tensor).transpose()?;
                    let inputs = || match &residual {
                        Some(residual) => Inputs::new(&x).with("residual", residual),
                        None => Inputs::new(&x),
                    };
                    let explained = model.plan_for(&stream, inputs(), &options)?.explain()?;
                    assert_eq!(explained.regions.len(), 1, "{explained}");
                    let got = bits_of(&model.forward_with(inputs(), &options)?)?;
                    let wanted = bits_of(&model.forward_with(inputs(), &apart)?)?;
                    let message = format!("{text}, {dtype}, NHWC: {in_nhwc}");
                    // Behind products in 11 bits, exponentials are as coarse.
                    let is_coarse = dtype == DType::F32 && precision == Precision::Fast;
                    match is_coarse && text.ends_with("mish") {
                        true => are_close(&got, &wanted, (dtype, precision)),
                        false => assert_eq!(got, wanted, "{message}"),
                    }
                }
            }
        }
    }
    Ok(())
}

//! Blocks of real networks from `examples/chains`: convolution, norm, functions, and following layers.

use convfuse::graph::{Chain, Layer};
use convfuse::model::Precision as MathMode;
use convfuse::spec::{Conv2dSpec, GeluApproximation};
use convfuse::{DType, Options, Tensor};
use convfuse_cli::rounded;
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::{DTYPES, all_right, bits, in_every_type};

/// A chain file, the divisor of its channels in tests, and an input with the divided channels.
struct Block {
    name: &'static str,
    text: &'static str,
    narrower: usize,
    input: &'static [usize],
}

macro_rules! block {
    ($name:literal, $narrower:literal, $input:expr) => {
        Block {
            name: $name,
            text: include_str!(concat!("../examples/chains/", $name, ".json")),
            narrower: $narrower,
            input: &$input,
        }
    };
}

const BLOCKS: [Block; 5] = [
    block!("segmentation", 4, [2, 8, 3, 5, 9]),
    block!("segmentation_stride_2", 4, [2, 8, 5, 7, 10]),
    block!("decoder", 16, [1, 32, 5, 8]),
    block!("head", 16, [2, 16, 7, 13]),
    block!("stem", 4, [1, 3, 21, 27]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let cases = || {
        let epilogues = epilogues().into_iter().map(|(case, ..)| case);
        BLOCKS
            .iter()
            .map(case)
            .chain(variants())
            .chain(epilogues)
            .collect()
    };
    let mut trials = in_every_type("blocks", cases);
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "blocks",
        &[
            (
                "without_a_norm_keep_infinities_and_nan_to_their_windows",
                without_norm,
            ),
            ("make_nan_of_a_whole_sample_and_of_no_other", special_values),
            ("notice_nothing_that_no_window_has", unseen_rows),
        ],
    ));
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "blocks",
        &[
            ("are_a_run_each", one_run),
            ("end_in_functions_and_residuals", fused_epilogues),
            ("give_a_sample_the_same_bits_in_any_batch", batches),
        ],
    ));
    trials
}

/// The chain of a block with fewer channels, and thus fewer groups.
fn narrow(block: &Block) -> Chain {
    let chain: Chain = serde_json::from_str(block.text).expect("a chain");
    let layers = chain.layers().iter().cloned().map(|mut layer| {
        match &mut layer {
            Layer::Conv2d(conv) => conv.out_channels /= block.narrower,
            Layer::Conv3d(conv) => conv.out_channels /= block.narrower,
            Layer::GroupNorm(norm) => norm.attributes.num_groups /= block.narrower,
            _ => {}
        }
        layer
    });
    Chain::new(block.input[1], layers).expect("fewer channels make a chain, too")
}

fn case(block: &Block) -> Case {
    let name = format!("blocks/{}", block.name);
    Case::of_graph(&name, narrow(block), block.input).shifted(-0.5)
}

/// Other chains of this kind: with factors on both sides of a norm, with more functions than a launch
/// applies, and with functions on both sides of a pool, with adjacent and other windows. Some functions must
/// not be exchanged with a maximum.
fn variants() -> Vec<Case> {
    let head = narrow(&BLOCKS[3]).layers()[..2].to_vec();
    let with = |name: &str, before: &[Layer], behind: &[Layer]| {
        let mut layers = head.clone();
        layers.splice(1..1, before.iter().cloned());
        layers.extend_from_slice(behind);
        let chain = Chain::new(16, layers).expect("a chain");
        Case::of_graph(&format!("blocks/{name}"), chain, &[2, 16, 7, 10]).shifted(-0.5)
    };
    let instance_norm = |name: &str, behind: &[Layer]| {
        let mut case = with(name, &[Layer::scale("before").into()], &[]);
        let mut layers = case.graph.layers()[..2].to_vec();
        layers.push(Layer::instance_norm("norm").into());
        layers.extend_from_slice(behind);
        case = Case::of_graph(
            &case.name,
            Chain::new(16, layers).expect("a chain"),
            &[2, 16, 7, 10],
        );
        case.shifted(-0.5)
    };
    let pool = |extent: usize, stride: usize| {
        Layer::from(Layer::max_pool2d([extent; 2]).stride([stride; 2]))
    };
    let scale = || Layer::from(Layer::scale("scale"));
    let gelu = || Layer::gelu(GeluApproximation::None);
    let many = [
        Layer::silu(),
        Layer::leaky_relu(0.5),
        Layer::mish(),
        Layer::tanh(),
        Layer::hardswish(),
        Layer::elu(1.5),
        gelu(),
        Layer::clamp(-0.75, 0.5),
        Layer::softplus(1.0, 20.0),
        Layer::sigmoid(),
    ];
    vec![
        with("no_functions", &[], &[]),
        with("scale_only", &[], &[scale()]),
        with("scale_silu", &[], &[scale(), Layer::silu()]),
        with("many_functions", &[], &many),
        with(
            "scale_behind_functions",
            &[],
            &[gelu(), scale(), Layer::relu()],
        ),
        with("scale_before_groups", &[scale()], &[Layer::relu()]),
        instance_norm("scale_before_channels", &[Layer::silu()]),
        instance_norm("scales_around", &[scale(), Layer::leaky_relu(0.1)]),
        with("pool_alone", &[], &[pool(2, 2)]),
        with(
            "functions_around_windows",
            &[],
            &[Layer::leaky_relu(0.1), pool(2, 2), gelu()],
        ),
        with(
            "functions_around_a_pool",
            &[],
            &[scale(), Layer::tanh(), pool(3, 2), Layer::mish()],
        ),
        with(
            "clamp_and_function",
            &[],
            &[Layer::relu(), pool(3, 1), Layer::elu(1.0)],
        ),
        with("silu_before_a_pool", &[], &[Layer::silu(), pool(2, 2)]),
    ]
}

/// Chains whose functions and residuals run in the epilogue of the convolution or norm, with the row of the
/// kernel table and the number of regions.
fn epilogues() -> Vec<(Case, &'static str, usize)> {
    let conv = |in_channels, groups, row| {
        let layer = Layer::conv2d("conv", 32, 3).padding(1).groups(groups);
        (in_channels, Layer::from(layer), row)
    };
    let dense = conv(24, 1, "implicit-gemm");
    let depthwise = conv(32, 32, "depthwise");
    let batch_norm = || Layer::from(Layer::batch_norm("norm"));
    let group_norm = || Layer::from(Layer::group_norm("norm", 4));
    let [relu, silu] = [Layer::relu, Layer::silu];
    let [add, other] = ["shortcut", "other"].map(|name| move || Layer::add(name));
    let of = |name: &str, conv: &(usize, Layer, &'static str), width, behind: &[Layer], regions| {
        let (channels, layer, row) = conv;
        let layers = [std::slice::from_ref(layer), behind].concat();
        let chain = Chain::new(*channels, layers).expect("a chain");
        let input = [2, *channels, 7, width];
        let case = Case::of_graph(&format!("blocks/epilogue_{name}"), chain, &input).shifted(-0.5);
        (case, *row, regions)
    };
    let mapped = [batch_norm(), relu(), add(), Layer::mish()];
    let many = vec![Layer::tanh(); 9];
    let relu6 = [batch_norm(), Layer::clamp(0.0, 6.0)];
    let inverted = [batch_norm(), silu(), add()];
    let normed = [group_norm(), silu(), add(), relu()];
    vec![
        of("silu", &dense, 16, &[silu()], 1),
        of("residual", &dense, 14, &[add(), relu()], 2),
        of("mapped_residual", &dense, 9, &mapped, 2),
        of("two_residuals", &dense, 16, &[silu(), add(), other()], 2),
        of("many", &dense, 16, &many, 2),
        of("depthwise", &depthwise, 13, &relu6, 1),
        of("depthwise_residual", &depthwise, 16, &inverted, 1),
        of("norm_residual", &dense, 16, &normed, 1),
        of(
            "norm_two_residuals",
            &dense,
            9,
            &[group_norm(), add(), other()],
            1,
        ),
    ]
}

/// Functions and residuals belong to the preceding region, up to the limit of its launch.
fn fused_epilogues(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, row, regions) in epilogues() {
        for dtype in [DType::F32, DType::F16] {
            let model = chains::model(&stream, &case, dtype)?;
            let explained = model.explain(case.x.shape(), &Options::default())?.regions;
            let name = &case.name;
            assert_eq!(
                (explained[0].kernels, explained.len()),
                (row, regions),
                "{name} {dtype}"
            );
        }
    }
    Ok(())
}

/// A non-finite value makes its whole sample NaN, but no other sample, as in PyTorch: every group has
/// windows with the value.
fn special_values(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for block in &BLOCKS {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut case = case(block);
            let (model, mut input) = (narrow(block), block.input.to_vec());
            input[0] = 2;
            case = Case::of_graph(&case.name, model, &input).shifted(-0.5);
            let clean = Tensor::from_array(&stream, &case.x)?;
            if let Some(x) = case.x.iter_mut().nth(3) {
                *x = value;
            }
            let x = Tensor::from_array(&stream, &case.x)?;
            let model = chains::model(&stream, &case, DType::F32)?;
            let [y, clean] = [x, clean].map(|x| model.forward(&x));
            let [y, clean] = [y?.to_array::<f32>()?, clean?.to_array::<f32>()?];
            let [first, second] = [0, 1].map(|sample| y.index_axis(ndarray::Axis(0), sample));
            assert!(first.iter().all(|y| y.is_nan()), "{} {value}", block.name);
            let wanted = clean.index_axis(ndarray::Axis(0), 1);
            assert_eq!(second, wanted, "{} {value}", block.name);
        }
    }
    Ok(())
}

/// Infinities in rows between windows do not change any bit. A channel block with seven columns has an odd
/// number of taps, which warpgroups multiply in pairs.
fn unseen_rows(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let attributes = Conv2dSpec::default().stride([4, 1]);
    let layer = Layer::conv2d("conv", 64, [3, 7]).attributes(attributes);
    let chain = Chain::new(8, (layer, Layer::group_norm("norm", 4)))?;
    let clean = Case::of_graph("blocks/unseen_rows", chain, &[2, 8, 39, 40]);
    let mut case = clean.clone();
    for (index, x) in case.x.indexed_iter_mut() {
        if index[2] % 4 == 3 {
            *x = f32::INFINITY;
        }
    }
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let model = chains::model(&stream, &clean, dtype)?;
        for math_mode in [MathMode::Accurate, MathMode::Fast] {
            let options = Options::default().precision(math_mode);
            let of = |case: &Case| -> convfuse::Result<_> {
                let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
                model.forward_with(&x, &options)?.to_f32_array()
            };
            let (y, wanted) = (of(&case)?, of(&clean)?);
            assert!(wanted.iter().all(|y| y.is_finite()));
            assert_eq!(y, wanted, "{dtype} {math_mode:?}");
        }
    }
    Ok(())
}

/// Each block is one region, whose last kernel applies everything after the statistics.
fn one_run(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let last_of =
        |case: &Case| -> Result<(Vec<&'static str>, &'static str), libtest_mimic::Failed> {
            let model = chains::model(&stream, case, DType::F16)?;
            let facts = model.explain(case.x.shape(), &Options::default())?;
            let rows = facts.regions.iter().map(|run| run.kernels).collect();
            Ok((
                rows,
                facts.launches.last().map_or("", |launch| launch.kernel),
            ))
        };
    for block in &BLOCKS {
        let (rows, last) = last_of(&case(block))?;
        assert_eq!(rows, ["implicit-gemm"], "{}", block.name);
        let wanted = match block.name {
            "stem" => "group_norm_scale_max_pool2d_clamp_f16",
            _ => "group_norm_scale_pointwise_f16",
        };
        assert_eq!(last, wanted, "{}", block.name);
    }
    for case in variants() {
        let (rows, last) = last_of(&case)?;
        let (wanted, kernel): (&[&str], _) = match case.name.as_str() {
            "blocks/scale_behind_functions" => {
                (&["implicit-gemm", "tensor", "tensor"], "pointwise_f16")
            }
            "blocks/scale_before_groups" => (
                &["implicit-gemm", "tensor"],
                "group_norm_scale_pointwise_f16",
            ),
            "blocks/silu_before_a_pool" => (&["implicit-gemm", "tensor"], "max_pool2d_f16"),
            "blocks/many_functions"
            | "blocks/functions_around_a_pool"
            | "blocks/clamp_and_function" => (&["implicit-gemm"], "pointwise_f16"),
            _ => (&["implicit-gemm"], "group_norm_scale_pointwise_f16"),
        };
        assert_eq!((&rows[..], last), (wanted, kernel), "{}", case.name);
    }
    Ok(())
}

/// The last sample of a batch of three has the same bits as alone.
fn batches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for block in &BLOCKS {
        for dtype in [DType::F32, DType::F16] {
            let mut input = block.input.to_vec();
            input[0] = 3;
            let case = Case::of_graph(&format!("blocks/{}", block.name), narrow(block), &input);
            let model = chains::model(&stream, &case, dtype)?;
            let last = case
                .x
                .slice_axis(ndarray::Axis(0), (2..3).into())
                .to_owned();
            let all = Tensor::from_f32_array(&stream, &case.x, dtype)?;
            let one = Tensor::from_f32_array(&stream, &last, dtype)?;
            let all = model.forward(&all)?.to_f32_array()?;
            let all = all.slice_axis(ndarray::Axis(0), (2..3).into()).to_owned();
            let one = model.forward(&one)?.to_f32_array()?;
            assert_eq!(bits(&all), bits(&one), "{} {dtype}", block.name);
        }
    }
    Ok(())
}

/// Convolutions without a norm: with whole K blocks, with one channel more, depthwise, with few channels,
/// with strides, with few products.
fn without_norm(backend: Backend) -> Outcome {
    let conv = |stride: usize, groups: usize, extents: [usize; 2]| {
        let attributes = Conv2dSpec::default()
            .stride([stride; 2])
            .padding(1)
            .groups(groups);
        Layer::conv2d("conv", 32, extents).attributes(attributes)
    };
    let tail = [Layer::leaky_relu(0.1), Layer::from(Layer::max_pool2d(2))];
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for (channels, [h, w], layer, row) in [
        (32, [10, 9], conv(1, 1, [3, 3]), "implicit-gemm"),
        (64, [10, 9], conv(2, 2, [3, 3]), "implicit-gemm"),
        (24, [10, 9], conv(1, 1, [3, 2]), "implicit-gemm"),
        (33, [10, 9], conv(1, 1, [3, 3]), "implicit-gemm"),
        (3, [24, 30], conv(2, 1, [7, 7]), "implicit-gemm"),
        (3, [10, 9], conv(1, 1, [1, 1]), "direct"),
        (32, [10, 9], conv(1, 32, [3, 3]), "depthwise"),
    ] {
        let chain = Chain::new(channels, [&[layer.into()], &tail[..]].concat())?;
        let name = format!("blocks/without_norm_{channels}");
        let plain = Case::of_graph(&name, chain, &[2, channels, h, w]).shifted(-0.5);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 60_000.0] {
            let mut case = plain.clone();
            // At the first tap of one window, at the last tap of another, and in the middle of the other
            // sample.
            case.x[[0, 0, 1, 1]] = value;
            case.x[[0, channels - 1, h - 1, w - 1]] = -value;
            case.x[[1, channels / 2, 4, 5]] = value;
            // Infinity times 0 is NaN.
            case.parameters[0]
                .iter_mut()
                .step_by(7)
                .for_each(|w| *w = 0.0);
            for (dtype, precision) in DTYPES {
                let case = rounded(&case, dtype);
                let model = chains::model(&stream, &case, dtype)?;
                let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
                let y = model.forward(&x)?.to_f32_array()?;
                assert!(y.iter().any(|y| y.is_finite()), "{name}");
                let verdict = case.expected(&precision)?.check(y.view());
                complaints.extend(
                    verdict
                        .err()
                        .map(|c| format!("{name} {dtype} {value}: {c}")),
                );
                if backend == Backend::Emulator {
                    let rows = model.explain(case.x.shape(), &Options::default())?.regions;
                    assert_eq!(rows[0].kernels, row, "{name} {dtype}");
                }
            }
        }
    }
    all_right(&complaints)
}

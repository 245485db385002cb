//! `prelu`.

use convfuse::graph::{Chain, ConvLayer, Layer, Partition};
use convfuse::spec::MaxPool2dSpec;
use convfuse::{DType, Error, Options, Tensor, data, ops};
use convfuse_cli::{compare, rounded};
use libtest_mimic::Trial;
use ndarray::{Array1, Array3, IxDyn, array};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::{all_right, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "prelu",
        &[
            (
                "refuses_slopes_that_are_not_one_or_one_per_channel",
                wrong_length,
            ),
            ("refuses_another_element_type", wrong_dtype),
            ("has_the_signs_of_products", signs),
            ("takes_any_rank_with_one_slope", other_ranks),
            ("is_done_by_the_kernel_that_normalises", behind_a_norm),
            (
                "behind_a_norm_has_the_bits_of_a_launch_of_its_own",
                same_bits,
            ),
        ],
    )
}

fn wrong_length(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array3::<f32>::ones((2, 3, 4)))?;
    let slopes = Tensor::from_array(&stream, &Array1::<f32>::ones(4))?;
    says(
        ops::prelu(&x, &slopes),
        "prelu: weight[0] is 4, expected 1 or the channels, 3",
    )?;
    says(
        ops::prelu(&slopes, &slopes),
        "prelu: input has 1 dimensions, minimum 2",
    )?;
    says(
        ops::prelu(&x, &x),
        "prelu: weight has 3 dimensions, expected 1",
    )
}

fn wrong_dtype(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array3::<f32>::ones((2, 3, 4)))?;
    let slopes = Tensor::from_f32_array(&stream, &Array1::ones(3), DType::F16)?;
    let result = ops::prelu(&x, &slopes);
    assert!(matches!(result, Err(Error::DTypeMismatch { .. })));
    says(result, "prelu: weight is f16, must be f32")
}

/// The reference is compared by value, so the signs of zeros are looked at here. One slope, and one for each
/// of two channels.
fn signs(backend: Backend) -> Outcome {
    const INFINITY: f32 = f32::INFINITY;
    let x = array![-INFINITY, -2.0, -0.0, 0.0, 2.0, INFINITY, f32::NAN];
    let rows = [
        (0.5, [-INFINITY, -1.0, -0.0, 0.0, 2.0, INFINITY]),
        (0.0, [f32::NAN, -0.0, -0.0, 0.0, 2.0, INFINITY]),
        (-0.0, [f32::NAN, 0.0, 0.0, -0.0, 2.0, INFINITY]),
        (-0.5, [INFINITY, 1.0, 0.0, -0.0, 2.0, INFINITY]),
        (
            INFINITY,
            [-INFINITY, -INFINITY, f32::NAN, f32::NAN, 2.0, INFINITY],
        ),
        (
            f32::NAN,
            [f32::NAN, f32::NAN, f32::NAN, f32::NAN, 2.0, INFINITY],
        ),
    ];
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let one = Tensor::from_f32_array(&stream, &x.clone().into_dyn(), dtype)?;
        let twice = ndarray::concatenate![ndarray::Axis(0), x, x];
        let twice = twice.into_shape_with_order((1, 2, 7))?.into_dyn();
        let two = Tensor::from_f32_array(&stream, &twice, dtype)?;
        for (slope, want) in rows {
            let want = want.into_iter().chain([f32::NAN]);
            let slopes = |values: &[f32]| {
                let values = Array1::from(values.to_vec()).into_dyn();
                Tensor::from_f32_array(&stream, &values, dtype)
            };
            let of_one = ops::prelu(&one, &slopes(&[slope])?)?.to_f32_array()?;
            let of_two = ops::prelu(&two, &slopes(&[1.0, slope])?)?.to_f32_array()?;
            let second = of_two.iter().skip(7);
            for ((one, second), want) in of_one.iter().zip(second).zip(want) {
                for y in [one, second] {
                    let same = y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan();
                    assert!(same, "slope {slope} in {dtype}: {y} instead of {want}");
                }
            }
        }
    }
    Ok(())
}

/// Which no chain has, whose inputs have samples and channels.
fn other_ranks(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let slope = Tensor::from_f32_array(&stream, &array![-0.5].into_dyn(), dtype)?;
        for shape in [&[][..], &[1], &[1031]] {
            let x = Tensor::from_f32_array(&stream, &data::signed(1, IxDyn(shape)), dtype)?;
            let y = ops::prelu(&x, &slope)?.to_f32_array()?;
            let want = x.to_f32_array()?;
            assert_eq!(y, want.mapv(|v| if v > 0.0 { v } else { v * -0.5 }));
        }
    }
    Ok(())
}

/// A convolution and a norm, and what is behind them; the rows of the table that do it, and the last kernel.
type Block = (
    &'static str,
    Vec<Layer>,
    &'static [&'static str],
    &'static str,
);

fn blocks() -> Vec<Block> {
    let norm = || Layer::instance_norm("norm");
    let one = || Layer::prelu("act", 1);
    let each = || Layer::prelu("act", 24);
    let fused = "group_norm_scale_pointwise_f32";
    let pool = || Layer::max_pool2d(MaxPool2dSpec::new([2, 2]));
    vec![
        ("one_slope", vec![norm(), one()], &["implicit-gemm"], fused),
        ("each", vec![norm(), each()], &["implicit-gemm"], fused),
        (
            "scale_before",
            vec![Layer::scale("before"), norm(), each(), Layer::silu()],
            &["implicit-gemm"],
            fused,
        ),
        (
            "groups",
            vec![Layer::group_norm("norm", 6), one(), Layer::tanh()],
            &["implicit-gemm"],
            fused,
        ),
        (
            "scale_between",
            vec![norm(), Layer::scale("scale"), each()],
            &["implicit-gemm", "tensor"],
            "scale_f32",
        ),
        (
            "residual_between",
            vec![norm(), Layer::add("shortcut"), each()],
            &["implicit-gemm", "tensor", "tensor"],
            "scale_f32",
        ),
        (
            "batch_norm",
            vec![Layer::batch_norm("norm"), one()],
            &["implicit-gemm", "tensor"],
            "scale_f32",
        ),
        (
            "before_a_pool",
            vec![norm(), each(), pool()],
            &["implicit-gemm", "tensor"],
            "max_pool2d_f32",
        ),
        (
            "behind_a_pool",
            vec![norm(), pool(), each()],
            &["implicit-gemm", "tensor"],
            "scale_f32",
        ),
        (
            "behind_a_channel_maximum",
            vec![norm(), Layer::channel_max(), one()],
            &["implicit-gemm", "tensor", "tensor"],
            "scale_f32",
        ),
    ]
}

fn cases() -> Vec<(Case, &'static [&'static str], &'static str)> {
    let case = |(name, behind, rows, last): Block| {
        let conv = Layer::conv2d(ConvLayer::new("conv", 24, [3, 3]));
        let layers = [vec![conv], behind].concat();
        let chain = Chain::new(16, layers).expect("a chain");
        let case = Case::of_graph(&format!("prelu/{name}"), chain, &[2, 16, 9, 12]);
        (case.shifted(-0.5), rows, last)
    };
    blocks().into_iter().map(case).collect()
}

fn behind_a_norm(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, rows, last) in cases() {
        for dtype in [DType::F32, DType::F16] {
            let case = rounded(&case, dtype);
            let results = compare(&case, dtype, &stream, |precision| case.expected(precision));
            let wrong = results
                .into_iter()
                .filter_map(|(way, result)| Some((way, result.err()?)));
            let wrong = wrong.map(|(way, wrong)| format!("{} {way}: {wrong}", case.name));
            all_right(&wrong.collect::<Vec<_>>())?;
        }
        if backend == Backend::Cpu {
            continue;
        }
        let model = chains::model(&stream, &case, DType::F32)?;
        let facts = model.explain(case.x.shape(), &Options::default())?;
        let taken: Vec<_> = facts.regions.iter().map(|run| run.kernels).collect();
        assert_eq!(taken, rows, "{}", case.name);
        let kernel = facts.launches.last().map(|launch| launch.kernel);
        assert_eq!(kernel, Some(last), "{}", case.name);
    }
    Ok(())
}

/// In f32, where nothing is rounded between a norm and its prelu.
fn same_bits(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for num_parameters in [1, 5] {
        let layers = [
            Layer::group_norm("norm", 5),
            Layer::prelu("act", num_parameters),
        ];
        let case = Case::of_graph(
            &format!("prelu/bits_{num_parameters}"),
            Chain::new(5, layers)?,
            &[3, 5, 7, 13],
        );
        let model = chains::model(&stream, &case, DType::F32)?;
        let x = Tensor::from_f32_array(&stream, &case.x, DType::F32)?;
        let of = |partition: &str| -> Result<Vec<u32>, libtest_mimic::Failed> {
            let partition = Partition::parse(&case.graph, partition)?;
            let options = Options::default().partition(partition);
            let y = model.forward_with(&x, &options)?.to_f32_array()?;
            Ok(y.iter().map(|v| v.to_bits()).collect())
        };
        let together = of("group_norm prelu")?;
        assert_eq!(together, of("group_norm | prelu")?, "{num_parameters}");
    }
    Ok(())
}

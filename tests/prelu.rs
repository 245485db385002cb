//! `prelu`.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::{DType, Options, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, IxDyn, array};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::{bits, match_reference, must_be};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "prelu",
        &[
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

/// The comparison with the reference ignores the signs of zeros, so they are checked here: with one slope,
/// and with one slope for each of two channels.
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
            let slopes = |values: &[f32]| {
                let values = Array1::from(values.to_vec()).into_dyn();
                Tensor::from_f32_array(&stream, &values, dtype)
            };
            let of_one = ops::prelu(&one, &slopes(&[slope])?)?.to_f32_array()?;
            let of_two = ops::prelu(&two, &slopes(&[1.0, slope])?)?.to_f32_array()?;
            let what = format!("slope {slope} in {dtype}");
            must_be(&of_one, &want, &what);
            must_be(of_two.iter().skip(7), &want, &what);
        }
    }
    Ok(())
}

/// Ranks that no chain has, since its inputs have samples and channels.
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

/// A convolution and a norm with following layers, the rows of the kernel table, and the last kernel.
type Block = (
    &'static str,
    Vec<Layer>,
    &'static [&'static str],
    &'static str,
);

fn blocks() -> Vec<Block> {
    let norm = || Layer::from(Layer::instance_norm("norm"));
    let one = || Layer::from(Layer::prelu("act", 1));
    let each = || Layer::from(Layer::prelu("act", 24));
    let fused = "group_norm_scale_pointwise_f32";
    let pool = || Layer::from(Layer::max_pool2d(2));
    vec![
        ("one_slope", vec![norm(), one()], &["implicit-gemm"], fused),
        ("each", vec![norm(), each()], &["implicit-gemm"], fused),
        (
            "scale_before",
            vec![
                Layer::from(Layer::scale("before")),
                norm(),
                each(),
                Layer::silu(),
            ],
            &["implicit-gemm"],
            fused,
        ),
        (
            "groups",
            vec![
                Layer::from(Layer::group_norm("norm", 6)),
                one(),
                Layer::tanh(),
            ],
            &["implicit-gemm"],
            fused,
        ),
        (
            "scale_between",
            vec![norm(), Layer::from(Layer::scale("scale")), each()],
            &["implicit-gemm", "tensor"],
            "scale_f32",
        ),
        (
            "residual_between",
            vec![norm(), Layer::add("shortcut"), each()],
            &["implicit-gemm", "tensor"],
            "scale_f32",
        ),
        (
            "batch_norm",
            vec![Layer::from(Layer::batch_norm("norm")), one()],
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
            vec![norm(), Layer::max(&[1]).into(), one()],
            &["implicit-gemm", "tensor", "tensor"],
            "scale_f32",
        ),
    ]
}

fn cases() -> Vec<(Case, &'static [&'static str], &'static str)> {
    let case = |(name, behind, rows, last): Block| {
        let conv = Layer::from(Layer::conv2d("conv", 24, 3));
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
        match_reference(
            backend,
            std::slice::from_ref(&case),
            &[DType::F32, DType::F16],
        )?;
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

/// Equal bits in f32, where no value is rounded between a norm and its PReLU.
fn same_bits(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for num_parameters in [1, 5] {
        let layers = [
            Layer::from(Layer::group_norm("norm", 5)),
            Layer::from(Layer::prelu("act", num_parameters)),
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
            Ok(bits(&y))
        };
        let together = of("group_norm prelu")?;
        assert_eq!(together, of("group_norm | prelu")?, "{num_parameters}");
    }
    Ok(())
}

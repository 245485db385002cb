//! The pointwise functions.

use convfuse::graph::{Chain, Layer};
use convfuse::model::Strategy;
use convfuse::spec::{ClampSpec, GeluApproximation, PointwiseSpec};
use convfuse::{DType, Tensor, data, lab, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, IxDyn, array};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::{bits, must_be};

pub(crate) fn trials() -> Vec<Trial> {
    let of_clamp = Backend::trials(
        &Backend::DEVICES,
        "clamp",
        &[
            ("keeps_nan_and_lets_the_upper_bound_win", special_values),
            ("takes_scalars_and_vectors", other_ranks),
        ],
    );
    let name = "takes_the_kernels_of_clamp_and_gives_its_bits";
    let of_relu = Backend::trials(&Backend::DEVICES, "relu", &[(name, relu_is_a_clamp)]);
    let name = "treats_zeros_and_infinities_as_pytorch_does";
    let of_leaky_relu = Backend::trials(&Backend::DEVICES, "leaky_relu", &[(name, signs)]);
    let of_functions = Backend::trials(
        &Backend::DEVICES,
        "tensor",
        &[
            ("treats_zeros_and_infinities_as_pytorch_does_on_a_gpu", ends),
            ("takes_a_launch_for_eight_functions", lists),
            ("gives_arithmetic_with_constants_its_bits", arithmetic),
        ],
    );
    let all = of_clamp.into_iter().chain(of_relu).chain(of_leaky_relu);
    all.chain(of_functions).collect()
}

/// Chains with this function, each with the row of the kernel table that applies it.
fn chains_with(function: &Layer) -> Vec<(Case, &'static str)> {
    let pool = || Layer::from(Layer::max_pool2d(2));
    let group_norm = || Layer::from(Layer::group_norm("norm", 2));
    let scale = || Layer::from(Layer::scale("scale"));
    let maximum = || Layer::from(Layer::max(&[1]));
    let f = || function.clone();
    let conv = || Layer::from(Layer::conv2d("conv", 24, 3));
    let case = |layers: Vec<Layer>| {
        let chain = Chain::new(8, layers).expect("a chain");
        // Values of both signs.
        let case = Case::of_graph("pointwise/in_a_chain", chain, &[2, 8, 14, 17]);
        case.shifted(-0.5)
    };
    let tail = || [group_norm(), scale(), pool(), f()];
    let norm = || Layer::from(Layer::instance_norm("instance_norm"));
    let reducing = || [scale(), norm(), f(), scale(), maximum()];
    vec![
        (case(vec![f()]).special(), "tensor"),
        (case([&[conv()], &tail()[..]].concat()), "implicit-gemm"),
        (case([&[conv()], &reducing()[..]].concat()), "implicit-gemm"),
        (case(tail().into()), "tensor"),
        (case(reducing().into()), "tensor"),
        (case(vec![scale(), pool(), f()]), "tensor"),
        (case(vec![pool(), f()]).special(), "tensor"),
        (case(vec![f(), scale(), maximum()]), "tensor"),
    ]
}

fn relu_is_a_clamp(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let clamp = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(0.0, None)));
    let cases = chains_with(&clamp).into_iter();
    for ((clamped, kernels), (rectified, _)) in cases.zip(chains_with(&Layer::relu())) {
        for dtype in [DType::F32, DType::F16] {
            for strategy in Strategy::all(&rectified.graph) {
                let options = strategy.options();
                let run = |case: &Case| -> convfuse::Result<(Vec<u32>, Vec<&str>)> {
                    let model = chains::model(&stream, case, dtype)?;
                    let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
                    let y = model.forward_with(&x, &options)?.to_f32_array()?;
                    let bits = bits(&y);
                    if backend == Backend::Cpu {
                        return Ok((bits, Vec::new()));
                    }
                    let runs = model.explain(case.x.shape(), &options)?.regions;
                    Ok((bits, runs.iter().map(|run| run.kernels).collect()))
                };
                let (clamped, rectified) = (run(&clamped)?, run(&rectified)?);
                assert_eq!(clamped, rectified, "{strategy}, {kernels}");
                if strategy.name == Strategy::FUSED && backend != Backend::Cpu {
                    assert_eq!(clamped.1, [kernels]);
                }
            }
        }
    }
    Ok(())
}

fn special_values(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = array![f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 1.0, f32::INFINITY];
    let x = Tensor::from_array(&stream, &x)?;
    let clamped = |min, max| -> convfuse::Result<Vec<f32>> {
        let y = ops::clamp(&x, &ClampSpec::new(min, max))?;
        Ok(y.to_array::<f32>()?.into_iter().collect())
    };
    let both = clamped(Some(-0.5), Some(0.5))?;
    assert!(both[0].is_nan());
    assert_eq!(both[1..], [-0.5, -0.5, 0.0, 0.5, 0.5]);
    let crossed = clamped(Some(0.5), Some(-0.5))?;
    assert!(crossed[0].is_nan());
    assert_eq!(crossed[1..], [-0.5; 5]);
    assert_eq!(
        clamped(Some(0.0), None)?[1..],
        [0.0, 0.0, 0.0, 1.0, f32::INFINITY]
    );
    assert_eq!(
        clamped(None, Some(0.0))?[1..],
        [f32::NEG_INFINITY, -1.0, 0.0, 0.0, 0.0]
    );
    Ok(())
}

fn signs(backend: Backend) -> Outcome {
    let further = (3.0, [-f32::INFINITY, -6.0, -0.0, 0.0, 2.0, f32::INFINITY]);
    slopes_give_signs(backend, further, |x, slope| {
        let y = ops::leaky_relu(x, slope.into())?.to_f32_array()?;
        Ok(vec![y.into_iter().collect()])
    })
}

/// Checks functions that multiply what is not above 0 by a slope: every result of `apply`, for a vector, with
/// slopes of all kinds and the `further` one. The comparison with the reference ignores the signs of zeros.
pub(crate) fn slopes_give_signs(
    backend: Backend,
    further: (f32, [f32; 6]),
    apply: impl Fn(&Tensor, f32) -> convfuse::Result<Vec<Vec<f32>>>,
) -> Outcome {
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
        further,
    ];
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = Tensor::from_f32_array(&stream, &x.clone().into_dyn(), dtype)?;
        for (slope, want) in rows {
            for y in apply(&x, slope)? {
                must_be(&y, &want, &format!("slope {slope} in {dtype}"));
            }
        }
    }
    Ok(())
}

/// The comparison with the reference ignores the signs of zeros, so they are checked here. Minus infinity
/// times 0 is NaN.
fn ends(backend: Backend) -> Outcome {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = array![-inf, -1000.0, -0.0, 0.0, 1000.0, inf, nan];
    let product = [nan, -0.0, -0.0, 0.0, 1000.0, inf];
    let rows = [
        (Layer::silu(), product),
        (Layer::gelu(GeluApproximation::None), product),
        (Layer::gelu(GeluApproximation::Tanh), product),
        (Layer::hardswish(), product),
        (Layer::mish(), product),
        (Layer::sigmoid(), [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]),
        (Layer::tanh(), [-1.0, -1.0, -0.0, 0.0, 1.0, 1.0]),
        (Layer::elu(0.5), [-0.5, -0.5, -0.0, 0.0, 1000.0, inf]),
        (Layer::elu(-2.0), [2.0, 2.0, 0.0, -0.0, 1000.0, inf]),
        (Layer::elu(0.0), [-0.0, -0.0, -0.0, 0.0, 1000.0, inf]),
        (Layer::hardsigmoid(), [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]),
        (Layer::add(-0.0), [-inf, -1000.0, -0.0, 0.0, 1000.0, inf]),
        (Layer::add(0.0), [-inf, -1000.0, 0.0, 0.0, 1000.0, inf]),
        (
            Layer::add(-1000.0),
            [-inf, -2000.0, -1000.0, -1000.0, 0.0, inf],
        ),
        (Layer::add(f64::INFINITY), [nan, inf, inf, inf, inf, inf]),
        (Layer::sub(0.0), [-inf, -1000.0, -0.0, 0.0, 1000.0, inf]),
        (Layer::sub(-0.0), [-inf, -1000.0, 0.0, 0.0, 1000.0, inf]),
        (
            Layer::sub(1000.0),
            [-inf, -2000.0, -1000.0, -1000.0, 0.0, inf],
        ),
        (Layer::mul(0.0), [nan, -0.0, -0.0, 0.0, 0.0, nan]),
        (Layer::mul(-0.0), [nan, 0.0, 0.0, -0.0, -0.0, nan]),
        (Layer::mul(-2.0), [inf, 2000.0, 0.0, -0.0, -2000.0, -inf]),
        (Layer::mul(f64::INFINITY), [-inf, -inf, nan, nan, inf, inf]),
        (Layer::div(0.0), [-inf, -inf, nan, nan, inf, inf]),
        (Layer::div(-0.5), [inf, 2000.0, 0.0, -0.0, -2000.0, -inf]),
        (Layer::div(f64::INFINITY), [nan, -0.0, -0.0, 0.0, 0.0, nan]),
        (Layer::minimum(1.0), [-inf, -1000.0, -0.0, 0.0, 1.0, 1.0]),
        (Layer::minimum(f64::NAN), [nan; 6]),
        (Layer::maximum(-1.0), [-1.0, -1.0, -0.0, 0.0, 1000.0, inf]),
        (Layer::maximum(f64::NAN), [nan; 6]),
    ];
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = Tensor::from_f32_array(&stream, &x.clone().into_dyn(), dtype)?;
        for (layer, want) in &rows {
            let y = lab::layer(&x, layer, &[], &Default::default())?;
            let y = y.to_f32_array()?;
            must_be(&y, want, &format!("{layer:?} in {dtype}"));
        }
        let y = ops::softplus(&x, 1.0, 20.0)?.to_f32_array()?;
        assert_eq!((y[[0]], y[[1]], y[[5]]), (0.0, 0.0, inf), "{dtype}");
        assert!(y[[6]].is_nan(), "{dtype}");
    }
    Ok(())
}

/// Arithmetic with a constant in f32 gives the bits of the single operation for all magnitudes: a fused
/// multiply-add with a factor of 1, or with a summand of -0, adds no rounding. A division is a product.
fn arithmetic(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    // All exponents of finite numbers, with both signs and several fractions.
    let numbers = (0..4096u32).map(|i| f32::from_bits(i.wrapping_mul(0x0010_1011) & 0xff7f_ffff));
    let x = Array1::from_iter(numbers.filter(|x| x.is_finite())).into_dyn();
    let tensor = Tensor::from_array(&stream, &x)?;
    for value in [0.3, -0.3, 1.0, -1e-3, 3e4, 1e30, -1e-30] {
        let c = value as f32;
        let same = |y: Tensor, exact: &dyn Fn(f32) -> f32, what: &str| -> convfuse::Result<()> {
            let (got, want) = (bits(&y.to_f32_array()?), bits(&x.mapv(exact)));
            assert_eq!(got, want, "{what} {value}");
            Ok(())
        };
        same(ops::add(&tensor, value)?, &|x| x + c, "add")?;
        same(ops::sub(&tensor, value)?, &|x| x - c, "sub")?;
        same(ops::mul(&tensor, value)?, &|x| x * c, "mul")?;
        same(ops::div(&tensor, value)?, &|x| x * (1.0 / c), "div")?;
        same(ops::minimum(&tensor, value)?, &|x| x.min(c), "minimum")?;
        same(ops::maximum(&tensor, value)?, &|x| x.max(c), "maximum")?;
    }
    Ok(())
}

/// Ten functions need two launches. In f32, without rounding in between, they give the same bits as ten
/// launches.
fn lists(backend: Backend) -> Outcome {
    let layers = [
        Layer::elu(1.5),
        Layer::silu(),
        Layer::leaky_relu(-0.5),
        Layer::gelu(GeluApproximation::None),
        Layer::softplus(0.5, 20.0),
        Layer::mish(),
        Layer::tanh(),
        Layer::hardswish(),
        Layer::clamp(0.0, 0.5),
        Layer::sigmoid(),
    ];
    let stream = backend.stream()?;
    let case = Case::of_graph("pointwise/list", Chain::new(3, layers)?, &[2, 3, 37, 41]);
    let model = chains::model(&stream, &case, DType::F32)?;
    let x = Tensor::from_f32_array(&stream, &case.x, DType::F32)?;
    let mut results = Vec::new();
    for strategy in Strategy::all(&case.graph) {
        let launches = if strategy.name == Strategy::FUSED {
            2
        } else {
            10
        };
        let options = strategy.options();
        results.push(bits(&model.forward_with(&x, &options)?.to_f32_array()?));
        if backend != Backend::Cpu {
            let facts = model.explain(case.x.shape(), &options)?;
            assert_eq!(facts.launches.len(), launches, "{strategy}");
            assert!(facts.regions.iter().all(|run| run.kernels == "tensor"));
        }
    }
    assert!(results.len() > 1);
    assert!(results.iter().all(|result| *result == results[0]));
    Ok(())
}

fn other_ranks(backend: Backend) -> Outcome {
    let spec = ClampSpec::new(-0.25, 0.5);
    any_rank_gives(backend, |x| ops::clamp(x, &spec), |v| v.clamp(-0.25, 0.5))
}

/// Checks a function on ranks that no chain has, since its inputs have samples and channels.
pub(crate) fn any_rank_gives(
    backend: Backend,
    apply: impl Fn(&Tensor) -> convfuse::Result<Tensor>,
    want: impl Fn(f32) -> f32,
) -> Outcome {
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for shape in [&[][..], &[1], &[1031]] {
            let x = Tensor::from_f32_array(&stream, &data::signed(1, IxDyn(shape)), dtype)?;
            let y = apply(&x)?.to_f32_array()?;
            assert_eq!(y, x.to_f32_array()?.mapv(&want));
        }
    }
    Ok(())
}

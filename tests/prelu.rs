//! `prelu`.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::{DType, Options, Tensor, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, array};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::pointwise::{any_rank_gives, slopes_give_signs};
use crate::suite::{bits, match_reference};

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

/// Signs with one slope, and with one slope for each of two channels.
fn signs(backend: Backend) -> Outcome {
    let nan = f32::NAN;
    let further = (nan, [nan, nan, nan, nan, 2.0, f32::INFINITY]);
    slopes_give_signs(backend, further, |x, slope| {
        let of = |x: &Tensor, slopes: &[f32]| -> convfuse::Result<Vec<f32>> {
            let slopes = Array1::from(slopes.to_vec()).into_dyn();
            let slopes = Tensor::from_f32_array(x.stream(), &slopes, x.dtype())?;
            Ok(ops::prelu(x, &slopes)?
                .to_f32_array()?
                .into_iter()
                .collect())
        };
        let values = x.to_f32_array()?;
        let twice = ndarray::stack![ndarray::Axis(0), values, values].insert_axis(ndarray::Axis(0));
        let twice = Tensor::from_f32_array(x.stream(), &twice, x.dtype())?;
        Ok(vec![
            of(x, &[slope])?,
            of(&twice, &[1.0, slope])?.split_off(values.len()),
        ])
    })
}

fn other_ranks(backend: Backend) -> Outcome {
    let apply = |x: &Tensor| {
        let slope = Tensor::from_f32_array(x.stream(), &array![-0.5].into_dyn(), x.dtype())?;
        ops::prelu(x, &slope)
    };
    any_rank_gives(backend, apply, |v| if v > 0.0 { v } else { v * -0.5 })
}

/// A convolution and a norm with following layers, the rows of the kernel table, and the last kernel.
fn cases() -> Vec<(Case, (&'static [&'static str], &'static str))> {
    let conv = || Layer::conv2d("conv", 24, 3);
    let norm = || Layer::instance_norm("norm");
    let [one, each] = [1, 24].map(|slopes| move || Layer::prelu("act", slopes));
    let pool = || Layer::max_pool2d(2);
    let gemm = &["implicit-gemm"][..];
    let apart = &["implicit-gemm", "tensor"][..];
    let thrice = &["implicit-gemm", "tensor", "tensor"][..];
    let [fused, alone] = ["group_norm_scale_pointwise_f32", "scale_f32"];
    let shape = [2, 16, 9, 12];
    let table = chains::table! {
        "one_slope": [conv(), norm(), one()], shape => (gemm, fused);
        "each": [conv(), norm(), each()], shape => (gemm, fused);
        "scale_before": [conv(), Layer::scale("before"), norm(), each(), Layer::silu()],
            shape => (gemm, fused);
        "groups": [conv(), Layer::group_norm("norm", 6), one(), Layer::tanh()],
            shape => (gemm, fused);
        "scale_between": [conv(), norm(), Layer::scale("scale"), each()], shape => (apart, alone);
        "residual_between": [conv(), norm(), Layer::add("shortcut"), each()],
            shape => (apart, alone);
        "batch_norm": [conv(), Layer::batch_norm("norm"), one()], shape => (apart, alone);
        "before_a_pool": [conv(), norm(), each(), pool()], shape => (apart, "max_pool2d_f32");
        "behind_a_pool": [conv(), norm(), pool(), each()], shape => (apart, alone);
        "behind_a_channel_maximum": [conv(), norm(), Layer::max(&[1]), one()],
            shape => (thrice, alone);
    };
    let cases = chains::cases("prelu", table).into_iter();
    cases.map(|(case, of)| (case.shifted(-0.5), of)).collect()
}

fn behind_a_norm(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, (rows, last)) in cases() {
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

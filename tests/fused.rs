//! Fusions without a convolution, requested by partitions: compared with the single operators on the same
//! device, and with the reference for special values.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::spec::{ReductionOp, ReductionSpec};
use convfuse::{DType, Options, Stream, Tensor, data, lab};
use libtest_mimic::Trial;
use ndarray::{Array1, IxDyn};
use oracle::{Case, Precision};

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::all_right;

const DTYPES: [(DType, Precision); 3] = [
    (DType::F32, Precision::F32),
    (DType::F16, Precision::F16),
    (DType::BF16, Precision::BF16),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::DEVICES {
        for (row, chains) in fusions() {
            let group = format!("fused::{row}");
            for (dtype, precision) in DTYPES {
                let cases = chains.clone().into_iter();
                let cases: Vec<Case> = cases.map(|layers| case(layers, &[2, 12, 19, 23])).collect();
                let test = move |backend: Backend| {
                    let stream = backend.stream()?;
                    cases
                        .iter()
                        .try_for_each(|case| equals_its_operators(&stream, case, row, dtype))
                };
                let name = format!("equals_its_operators_in_{dtype}");
                trials.push(backend.trial(&group, &name, test));

                let cases = chains.clone().into_iter();
                let cases: Vec<Case> = cases.map(|layers| case(layers, &[2, 12, 9, 11])).collect();
                let precision = of_row(row, &precision);
                let test = move |backend: Backend| {
                    let stream = backend.stream()?;
                    let special = cases.iter().cloned().map(Case::special);
                    let poisoned = cases.iter().cloned().map(Case::poisoned);
                    let mut complaints = Vec::new();
                    for case in special.chain(poisoned) {
                        let case = convfuse_cli::rounded(&case, dtype);
                        let y = fused(&stream, &case, row, dtype)?.to_f32_array()?;
                        let verdict = case.expected(&precision)?.check(y.view());
                        complaints.extend(verdict.err().map(|complaint| complaint.to_string()));
                    }
                    all_right(&complaints)
                };
                let name = format!("matches_reference_on_special_values_in_{dtype}");
                trials.push(backend.trial(&group, &name, test));
            }
        }
        let name = "equals_its_operators_where_rows_stay_in_shared_memory";
        trials.push(backend.trial("fused::norm-scale", name, resident_norm_scale));
    }
    trials
}

/// Fusions without a convolution, each with chains of one region: norms with and without weight and bias,
/// and every reduction over the channels.
fn fusions() -> [(&'static str, Vec<Vec<Layer>>); 7] {
    let scale = || Layer::from(Layer::scale("scale"));
    let clamp = || Layer::clamp(-0.4, 0.7);
    let pool = || Layer::from(Layer::max_pool2d([3, 4]).padding([1, 0]).stride([2, 3]));
    let norms = [true, false];
    let norm_scale = norms.map(|affine| vec![group_norm(3, affine), scale()]);
    let norm_scale_pool_clamp = norms.map(|affine| {
        let norm = group_norm(3, affine);
        vec![norm, scale(), pool(), clamp()]
    });
    let reductions = |before: &[Layer]| {
        let operations = ReductionOp::ALL.iter();
        let operations = operations.filter(|&&operation| operation.is_fusible());
        let reductions = operations.map(|&operation| ReductionSpec::new(operation, &[1]));
        let with = |last: ReductionSpec| [before, &[last.into()]].concat();
        reductions.map(with).collect::<Vec<_>>()
    };
    let scale_norm_clamp_scale_reduction = norms.map(|affine| {
        let norm = Layer::from(Layer::instance_norm("norm").affine(affine));
        reductions(&[scale(), norm, clamp(), scale()])
    });
    let with_relu = |layers: &[Layer]| {
        let relu = |layer: &Layer| match layer {
            Layer::Pointwise(_) => Layer::relu(),
            layer => layer.clone(),
        };
        vec![layers.to_vec(), layers.iter().map(relu).collect()]
    };
    [
        ("norm-scale", norm_scale.to_vec()),
        ("folded", norm_scale.to_vec()),
        ("norm-scale-pool-clamp", norm_scale_pool_clamp.to_vec()),
        (
            "scale-norm-clamp-scale-reduction",
            scale_norm_clamp_scale_reduction.concat(),
        ),
        ("scale-pool-clamp", with_relu(&[scale(), pool(), clamp()])),
        ("pool-clamp", with_relu(&[pool(), clamp()])),
        ("clamp-scale-reduction", reductions(&[clamp(), scale()])),
    ]
}

pub(crate) fn group_norm(groups: usize, affine: bool) -> Layer {
    Layer::from(Layer::group_norm("norm", groups).affine(affine))
}

/// A case with values of both signs. A parameter with more than five channels has one zero.
pub(crate) fn case(layers: Vec<Layer>, input: &[usize]) -> Case {
    let chain = Chain::new(input[1], layers).expect("a chain");
    let mut case = Case::of_graph("fused", chain, input);
    case.x = data::signed(1, IxDyn(input));
    for (values, seed) in case.parameters.iter_mut().zip(2..) {
        *values = data::signed(seed, values.raw_dim());
        if let Some(value) = values.iter_mut().nth(5) {
            *value = 0.0;
        }
    }
    case
}

/// Runs the fusion of a case: row `folded` if it is that one, else row `tensor`.
pub(crate) fn fused(
    stream: &Stream,
    case: &Case,
    row: &str,
    dtype: DType,
) -> convfuse::Result<Tensor> {
    let operators: Vec<&str> = case.graph.layers().iter().map(Layer::operator).collect();
    let row = match row {
        "folded" => row,
        _ => "tensor",
    };
    let text = format!("{} @{row}", operators.join(" "));
    let partition = Partition::parse(&case.graph, &text).expect("a partition");
    let x = Tensor::from_f32_array(stream, &case.x, dtype)?;
    chains::model(stream, case, dtype)?.forward_with(&x, &Options::default().partition(partition))
}

/// Runs the operators of a case one after the other.
pub(crate) fn composed(stream: &Stream, case: &Case, dtype: DType) -> convfuse::Result<Tensor> {
    let vector = |&slot: &usize| {
        let values: Array1<f32> = case.parameters[slot].iter().copied().collect();
        Tensor::from_f32_array(stream, &values, dtype)
    };
    let mut x = Tensor::from_f32_array(stream, &case.x, dtype)?;
    for (index, layer) in case.graph.layers().iter().enumerate() {
        let slots = case.graph.parameters_of(index).iter();
        let parameters: Vec<Tensor> = slots.map(vector).collect::<convfuse::Result<_>>()?;
        x = lab::layer(&x, layer, &parameters, &Options::default())?;
    }
    Ok(x)
}

/// Both results match the oracle.
fn equals_its_operators(stream: &Stream, case: &Case, row: &str, dtype: DType) -> Outcome {
    let case = convfuse_cli::rounded(case, dtype);
    let known = DTYPES.iter().find(|(known, _)| *known == dtype);
    let (_, precision) = known.ok_or("no precision is known")?;
    for (y, precision) in [
        (fused(stream, &case, row, dtype)?, of_row(row, precision)),
        (composed(stream, &case, dtype)?, *precision),
    ] {
        let expected = case.expected(&precision)?;
        expected.check(y.to_f32_array()?.view())?;
    }
    Ok(())
}

/// The precision of a row's results.
fn of_row(row: &str, precision: &Precision) -> Precision {
    match row {
        "folded" => precision.folding_scale(),
        _ => *precision,
    }
}

/// Enough rows of sufficient length for the kernel that computes the statistics itself.
fn resident_norm_scale(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let layers = vec![group_norm(4, true), Layer::from(Layer::scale("scale"))];
    let case = case(layers, &[32, 12, 63, 66]);
    stream.take_counts();
    equals_its_operators(&stream, &case, "norm-scale", DType::F32)?;
    let launches = stream.take_counts().launches;
    // Three launches of the composition, and one or two of the fusion.
    assert!(
        backend == Backend::Cpu || launches == 4 || launches == 5,
        "{launches}"
    );
    Ok(())
}

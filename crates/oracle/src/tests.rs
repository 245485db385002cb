//! Tests of the cases of all operators, and properties of the operators on random values.

use std::collections::HashSet;

use ndarray::{ArrayD, Axis, IxDyn};
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::graph::{Chain, Layer};
use op_spec::{
    Conv2dSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec, ReductionOp, ReductionSpec,
    SpecError,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::data::signed;
use crate::operators::Operator;
use crate::{Case, Precision, all, operators};

fn all_cases() -> Vec<Case> {
    [crate::smoke(), crate::ragged(), crate::realistic()].concat()
}

#[test]
fn a_kernel_of_several_layers_is_off_by_one_storing() {
    let chain = Chain::new(3, (Layer::scale("a"), Layer::scale("b"))).unwrap();
    let case = Case::of_graph("scale/twice", chain, &[2, 3, 5]);
    let precision = Precision::F16;
    let y = case.bounded_of_one_kernel(&precision).unwrap();
    for (y, tolerance) in y.values.iter().zip(&y.tolerance) {
        let stored = precision.storage * y.abs() + precision.underflow;
        assert!((stored..1.01 * stored).contains(tolerance));
    }
}

#[test]
fn every_kind_has_cases_in_every_table_and_their_names_are_unique() {
    let mut names = HashSet::new();
    for cases in all() {
        for table in [cases.smoke, cases.ragged, cases.realistic] {
            let table = table();
            assert!(!table.is_empty(), "{cases:?}");
            for case in table {
                assert_eq!(case.kind(), cases.kind, "{}", case.name);
                assert!(names.insert(case.name.clone()), "{} twice", case.name);
            }
        }
    }
}

#[test]
fn the_case_of_an_operator_ends_with_its_layer() {
    for cases in operators::all() {
        for case in (cases.ragged)() {
            let last = case.graph.layers().len() - 1;
            assert!(case.graph.operators().ends_with(cases.kind));
            // Only layers with several operands have preceding layers, which compute these operands.
            let joins = case.graph.operands(last).len() > 1;
            assert!(last == 0 || joins, "{}", case.name);
        }
    }
}

#[test]
fn cases_cost_something_unless_they_are_empty() {
    for case in all_cases() {
        let problem = case.graph.problem(case.x.shape()).expect("a case");
        let is_empty = problem.output_shape().contains(&0);
        assert_eq!(case.cost() == 0, is_empty, "{}", case.name);
    }
}

/// The cost that the emulator computes in a few seconds in a development build.
const AFFORDABLE: u64 = 600_000;

#[test]
fn every_kind_has_a_realistic_case_that_is_small() {
    for cases in all() {
        let small = (cases.realistic)()
            .iter()
            .any(|case| case.cost() < AFFORDABLE);
        assert!(small, "{cases:?}");
    }
}

#[test]
fn tolerances_surround_the_reference() {
    for case in all_cases() {
        let reference = case.reference().unwrap();
        let expected = case.expected(&Precision::F32).unwrap();
        let agreement = expected.check_f64(reference.view()).unwrap();
        assert!(
            agreement.largest_error < 1e-12,
            "{}: {agreement:?}",
            case.name
        );
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(85),
        ..ProptestConfig::default()
    }
}

fn wide(seed: u64, shape: &[usize]) -> ArrayD<f64> {
    signed(seed, shape).mapv(f64::from)
}

/// A batch of images.
fn images() -> impl Strategy<Value = ArrayD<f64>> {
    (any::<u32>(), 1..3_usize, 1..7_usize, 2..9_usize, 2..9_usize)
        .prop_map(|(seed, n, c, h, w)| wide(seed.into(), &[n, c, h, w]))
}

fn conv2d(
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    spec: &Conv2dSpec,
) -> Result<ArrayD<f64>, SpecError> {
    let problem = spec.problem(x.shape(), weight.shape(), None)?;
    Ok(problem.reference(x, &[weight]))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn instance_norm_is_group_norm_with_a_group_per_channel(x in images(), eps in 0.0..0.1) {
        let c = x.shape()[1];
        let weight = wide(1, &[c]);
        let instance = InstanceNormSpec::default().eps(eps).problem(x.shape(), Some(&[c]), None).unwrap();
        let group = GroupNormSpec::new(c).eps(eps).problem(x.shape(), Some(&[c]), None).unwrap();
        prop_assert_eq!(instance.reference(&x, &[&weight]), group.reference(&x, &[&weight]));
    }

    #[test]
    fn constant_input_gives_the_bias(value in -1e3..1e3_f64, c in 1..6_usize, spatial in 2..50_usize) {
        let x = ArrayD::from_elem(IxDyn(&[2, c, spatial]), value);
        let (weight, bias) = (wide(1, &[c]), wide(2, &[c]));
        let problem = InstanceNormSpec::default().problem(x.shape(), Some(&[c]), Some(&[c])).unwrap();
        let y = problem.reference(&x, &[&weight, &bias]);
        for (channel, bias) in y.axis_iter(Axis(1)).zip(bias) {
            // The mean of equal numbers may be rounded, and its error is divided by sqrt(eps).
            prop_assert!(channel.iter().all(|v| (v - bias).abs() < 1e-9));
        }
    }

    #[test]
    fn a_shift_of_the_input_does_not_change_a_norm(x in images(), shift in -1e3..1e3_f64) {
        let problem = GroupNormSpec::new(1).problem(x.shape(), None, None).unwrap();
        let (y, shifted) = (problem.reference(&x, &[]), problem.reference(&(&x + shift), &[]));
        prop_assert!((y - shifted).iter().all(|difference| difference.abs() < 1e-9));
    }

    #[test]
    fn maxima_commute_with_increasing_maps(
        x in images(),
        gain in 0.01..100.0_f64,
        kernel in 1..3_usize,
    ) {
        let map = |v: f64| (v * gain + 0.5).exp();
        let spec = MaxPool2dSpec::new([kernel; 2]).padding([kernel / 2; 2]);
        let pool = spec.problem(x.shape()).unwrap().pool;
        prop_assert_eq!(pool.reference(&x, &[]).mapv(map), pool.reference(&x.mapv(map), &[]));
        let channels = ReductionSpec::new(ReductionOp::Max, &[1]).problem(x.shape()).unwrap();
        prop_assert_eq!(channels.reference(&x, &[]).mapv(map), channels.reference(&x.mapv(map), &[]));
    }

    #[test]
    fn a_convolution_is_linear(x in images(), gain in -10.0..10.0_f64) {
        let weight = wide(1, &[3, x.shape()[1], 2, 2]);
        let spec = Conv2dSpec::default().padding([1, 0]);
        let y = conv2d(&x, &weight, &spec).unwrap() * gain;
        let scaled = conv2d(&(&x * gain), &weight, &spec).unwrap();
        prop_assert!((y - scaled).iter().all(|difference| difference.abs() < 1e-12));
    }

    #[test]
    fn a_group_is_a_convolution_of_its_own(x in images(), padding in 0..3_usize) {
        let c = x.shape()[1];
        let pair = ndarray::concatenate![Axis(1), x, x.mapv(|v| v - 1.0)];
        let weight = wide(1, &[4, c, 2, 2]);
        let spec = Conv2dSpec::default().padding([padding; 2]);
        let y = conv2d(&pair, &weight, &spec.groups(2)).unwrap();
        prop_assert_eq!(pair.shape()[1], 2 * c);
        for group in 0..2 {
            let part = |len: usize| (group * len..(group + 1) * len).into();
            let x = pair.slice_axis(Axis(1), part(c)).to_owned();
            let weight = weight.slice_axis(Axis(0), part(2)).to_owned();
            let alone = conv2d(&x, &weight, &spec).unwrap();
            prop_assert_eq!(y.slice_axis(Axis(1), part(2)), alone);
        }
    }

    #[test]
    fn a_chain_is_the_composition_of_its_layers(
        seed in any::<u32>(),
        n in 1..4_usize,
        extents in (5..12_usize, 5..12_usize),
        num_groups in prop_oneof![Just(1), Just(2), Just(6)],
    ) {
        let of_85 = KernelBench85 {
            in_channels: 2,
            out_channels: 6,
            group_norm: GroupNormSpec::new(num_groups),
            max_pool: MaxPool2dSpec::new([2, 3]),
            ..KernelBench85::default()
        };
        let of_79 = KernelBench79 {
            in_channels: 2,
            out_channels: 3,
            ..KernelBench79::default()
        };
        let images = [n, 2, extents.0, extents.1];
        let volumes = [n, 2, 4, extents.0, extents.1];
        let name = format!("composed/{seed}");
        for case in [
            Case::of_graph(&name, of_85.chain().unwrap(), &images),
            Case::of_graph(&name, of_79.chain().unwrap(), &volumes),
        ] {
            let parameters: Vec<_> = case.parameters.iter().map(|v| v.mapv(f64::from)).collect();
            let mut y = case.x.mapv(f64::from);
            // The whole batch at once.
            for (index, step) in case.problem().unwrap().steps.iter().enumerate() {
                let slots = case.graph.parameters_of(index).iter();
                let parameters: Vec<_> = slots.map(|&slot| &parameters[slot]).collect();
                y = operators::of(&step.problem).reference(&y, &parameters);
            }
            prop_assert_eq!(case.reference().unwrap(), y);
        }
    }
}

#[test]
fn the_memory_of_a_case_is_known_before_it_is_made() {
    let chain = || Chain::new(2, [Layer::max_pool2d(2)]).unwrap();
    let bytes = |input: &[usize]| Case::bytes_on_threads(&chain(), input, 2);
    // 64 input elements, of which each sample has 32 in f32, and 16 output elements.
    assert_eq!(
        bytes(&[2, 2, 4, 4]).unwrap(),
        Some(4 * 2 * 64 + 8 * (4 * 16 + 2 * 4 * 40))
    );
    assert_eq!(bytes(&[1 << 58, 2, 4, 4]).ok().flatten(), None);
    assert!(bytes(&[2, 3, 4, 4]).is_err());
}

#[test]
fn precisions_side_by_side_are_what_each_is_alone() {
    let chain = KernelBench85::default().chain().unwrap();
    let case = Case::of_graph("kernelbench_85/precisions", chain, &[3, 8, 9, 10]);
    for precisions in [
        [Precision::F32, Precision::TF32, Precision::F64],
        [
            Precision::F16,
            Precision::F16.folding_scale(),
            Precision::BF16,
        ],
    ] {
        let all = case.expected_at(&precisions).unwrap();
        for (one, precision) in all.iter().zip(&precisions) {
            let alone = case.expected(precision).unwrap();
            assert_eq!(format!("{one:?}"), format!("{alone:?}"), "{precision:?}");
        }
    }
}

#[test]
fn progress_ends_with_all_layers_of_all_samples() {
    let chain = KernelBench85::default().chain().unwrap();
    let case = Case::of_graph("kernelbench_85/progress", chain, &[3, 8, 9, 10]);
    for precision in [Precision::F32, Precision::F16.folding_scale()] {
        let told = std::sync::Mutex::new(Vec::new());
        let progress = |done, of| told.lock().unwrap().push((done, of));
        case.expected_with_progress(&precision, &progress).unwrap();
        let told = told.into_inner().unwrap();
        assert_eq!(told.iter().max(), Some(&(15, 15)), "{told:?}");
        assert!(told.len() >= 12, "{told:?}");
    }
}

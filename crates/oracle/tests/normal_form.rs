//! The normal form of a chain computes what its layers compute, on random chains with at most one
//! convolution, one norm and one maximum.

use ndarray::{ArrayD, Axis};
use op_spec::graph::{
    Chain, ConvLayer, GraphProblem, GroupNormLayer, InstanceNormLayer, Layer, LayerNormLayer,
    NormalForm, Operand, Pointwise,
};
use op_spec::{
    ConvSpec, GroupNormProblem, GroupNormSpec, InstanceNormSpec, LayerNormSpec, MaxPool2dSpec,
    PaddingMode,
};
use oracle::operators::Operator;
use oracle::{Bounded, Case, Precision};
use proptest::bool::ANY;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A normal form, and the parameters that its layers have.
struct Evaluation<'a> {
    case: &'a Case,
    problem: GraphProblem,
    form: NormalForm,
    parameters: Vec<ArrayD<f64>>,
}

impl<'a> Evaluation<'a> {
    fn new(case: &'a Case) -> Self {
        let problem = case.problem().unwrap();
        let form = NormalForm::of(&problem, 0..problem.steps.len()).unwrap();
        let parameters = case.parameters.iter().map(|v| v.mapv(f64::from));
        Self {
            case,
            problem,
            form,
            parameters: parameters.collect(),
        }
    }

    fn parameters_of(&self, layer: usize) -> Vec<&ArrayD<f64>> {
        let slots = self.case.graph.parameters_of(layer).iter();
        slots.map(|&slot| &self.parameters[slot]).collect()
    }

    /// The further input that a layer takes.
    fn input_of(&self, layer: usize) -> ArrayD<f64> {
        let [_, Operand::Input(input)] = *self.case.graph.operands(layer) else {
            panic!("no layer that takes a further input");
        };
        self.case.inputs[input - 1].mapv(f64::from)
    }

    /// The factor of channel `c` of a layer.
    fn factor(&self, layer: usize, c: usize) -> f64 {
        *self.parameters_of(layer)[0].iter().nth(c).unwrap()
    }

    fn output(&self) -> ArrayD<f64> {
        let mut y = self.convolved(self.case.x.mapv(f64::from));
        if let Some((layer, norm)) = self.form.epilogue.norm {
            self.normalise(&mut y, layer, &norm);
        }
        self.map(&mut y, &self.form.epilogue.list);
        if let Some((layer, _)) = self.form.epilogue.reduce {
            let tolerance = ArrayD::zeros(y.raw_dim());
            let mapped = Bounded {
                values: y,
                tolerance,
            };
            let reduction = &self.problem.steps[layer].problem;
            y = mapped.through(reduction, &[], &Precision::F64).values;
        }
        self.map(&mut y, &self.form.epilogue.after);
        y
    }

    /// Images are one voxel deep.
    fn convolved(&self, x: ArrayD<f64>) -> ArrayD<f64> {
        let Some((layer, conv)) = self.form.convolution else {
            return x;
        };
        let parameters = self.parameters_of(layer);
        if x.ndim() == 5 {
            return conv.reference(&x, &parameters);
        }
        let depth = Axis(2);
        let weight = parameters[0].clone().insert_axis(depth);
        let mut parameters = parameters;
        parameters[0] = &weight;
        let y = conv.reference(&x.insert_axis(depth), &parameters);
        y.remove_axis(depth)
    }

    /// `y = a * y + b` for each sample and channel, from the moments of what was convolved: the product with
    /// the factors before the norm is never made.
    fn normalise(&self, y: &mut ArrayD<f64>, layer: usize, norm: &GroupNormProblem) {
        let affine = self.parameters_of(layer);
        let before = |c: usize| -> f64 {
            let factors = self.form.epilogue.before.iter();
            factors.map(|&(layer, _)| self.factor(layer, c)).product()
        };
        let behind = |c: usize| -> f64 {
            let factors = self.form.epilogue.affine.iter();
            factors.map(|&(layer, _)| self.factor(layer, c)).product()
        };
        for mut sample in y.axis_iter_mut(Axis(0)) {
            let moments: Vec<(f64, f64)> = sample
                .axis_iter(Axis(0))
                .map(|channel| {
                    let count = channel.len() as f64;
                    let mean = channel.sum() / count;
                    let variance = channel.mapv(|v| (v - mean).powi(2)).sum() / count;
                    (mean, variance)
                })
                .collect();
            let per_group = norm.channels_per_group();
            for (c, mut channel) in sample.axis_iter_mut(Axis(0)).enumerate() {
                let weight = affine.first().filter(|_| norm.weight);
                let weight = weight.map_or(1.0, |weight| weight[c]) * behind(c);
                let bias = affine.get(1).filter(|_| norm.bias);
                let bias = bias.map_or(0.0, |bias| bias[c]) * behind(c);
                let factor = before(c);
                let (gain, shift) = if per_group == 1 {
                    // A sign and another eps, which is infinite for a factor of 0.
                    let (mean, variance) = moments[c];
                    let sign = if factor == 0.0 { 0.0 } else { factor.signum() };
                    let gain = sign / (variance + norm.eps / factor.powi(2)).sqrt();
                    (gain, -mean * gain)
                } else {
                    // Factors weight the channels' moments.
                    let group = c / per_group * per_group..(c / per_group + 1) * per_group;
                    let scaled = || {
                        let moments = group.clone().map(|c| (before(c), moments[c]));
                        moments.map(|(f, (mean, variance))| (f * mean, f * f * variance))
                    };
                    let count = per_group as f64;
                    let mean = scaled().map(|(mean, _)| mean).sum::<f64>() / count;
                    let spread = scaled().map(|(m, variance)| variance + (m - mean).powi(2));
                    let rstd = 1.0 / (spread.sum::<f64>() / count + norm.eps).sqrt();
                    (factor * rstd, -mean * rstd)
                };
                let (a, b) = (gain * weight, shift * weight + bias);
                channel.mapv_inplace(|v| a * v + b);
            }
        }
    }

    fn map(&self, y: &mut ArrayD<f64>, pointwise: &[(usize, Pointwise)]) {
        for (layer, pointwise) in pointwise {
            *y = match pointwise {
                Pointwise::Function(problem) => problem.reference(y, &[]),
                Pointwise::Scale(problem) => problem.reference(y, &self.parameters_of(*layer)),
                Pointwise::Prelu(problem) => problem.reference(y, &self.parameters_of(*layer)),
                Pointwise::Residual(problem) => problem.reference(y, &[&self.input_of(*layer)]),
                Pointwise::LayerAffine(_) => {
                    let mut y = y.clone();
                    for mut sample in y.axis_iter_mut(Axis(0)) {
                        let [weight, bias] = self.parameters_of(*layer)[..] else {
                            panic!("the layer norms here have both");
                        };
                        sample *= weight;
                        sample += bias;
                    }
                    y
                }
                Pointwise::BatchNorm(problem) => problem.reference(y, &self.parameters_of(*layer)),
            };
        }
    }
}

/// How often each part of a normal form stands in a chain.
#[derive(Clone, Copy, Debug)]
struct Plan {
    volumes: bool,
    convolution: bool,
    bias: bool,
    factors_before: usize,
    /// None, group norm, instance norm, layer norm.
    norm: u32,
    affine: bool,
    factors_behind: usize,
    /// Clamps (behind a maximum relu, too), factors and residuals.
    pointwise: [bool; 3],
    /// A batch norm before them, and one behind the maximum.
    batch_norms: [bool; 2],
    /// A slope for each channel before them, and one for all behind the maximum.
    prelus: [bool; 2],
    /// None, pooling, maximum over the channels.
    reduction: u32,
    behind: [bool; 3],
    per_group: usize,
}

fn plans() -> impl Strategy<Value = Plan> {
    let first = (ANY, ANY, ANY, 0..3_usize, 0..4_u32, ANY);
    let second = (
        0..3_usize,
        [ANY, ANY, ANY],
        0..3_u32,
        [ANY, ANY, ANY],
        1..4_usize,
        [ANY, ANY],
        [ANY, ANY],
    );
    (first, second).prop_map(|(first, second)| {
        let (volumes, convolution, bias, factors_before, norm, affine) = first;
        let (factors_behind, pointwise, reduction, behind, per_group, batch_norms, prelus) = second;
        Plan {
            volumes,
            convolution,
            bias,
            factors_before,
            norm,
            affine,
            factors_behind,
            pointwise,
            batch_norms,
            prelus,
            reduction,
            behind,
            per_group,
        }
    })
}

const GROUPS: usize = 2;

/// A chain of this plan, and its input's shape.
fn chain(plan: Plan, n: usize) -> (Chain, Vec<usize>) {
    let channels = GROUPS * plan.per_group;
    let in_channels = if plan.convolution { 2 } else { channels };
    let shape: &[usize] = if plan.volumes { &[3, 4, 5] } else { &[6, 7] };
    let mut layers = Vec::new();
    if plan.convolution && plan.volumes {
        layers.push(Layer::conv3d(conv(channels, [2, 1, 2], plan.bias)));
    } else if plan.convolution {
        layers.push(Layer::conv2d(conv(channels, [2, 3], plan.bias)));
    }
    // Two layers of one name share their factor.
    let scale = |name: &str, _| Layer::scale(name);
    layers.extend((0..plan.factors_before).map(|index| scale("shared", index)));
    match plan.norm {
        1 => layers.push(Layer::GroupNorm(GroupNormLayer {
            name: "norm".to_owned(),
            attributes: GroupNormSpec {
                num_groups: GROUPS,
                eps: 1e-3,
            },
            affine: plan.affine,
        })),
        3 => {
            // Paddings of convolutions by filters of these extents.
            let grown: &[usize] = match (plan.convolution, plan.volumes) {
                (false, _) => &[0; 3],
                (true, true) => &[1, 2, 1],
                (true, false) => &[1, 0],
            };
            let mut extents = vec![channels];
            extents.extend(shape.iter().zip(grown).map(|(extent, more)| extent + more));
            layers.push(Layer::LayerNorm(LayerNormLayer {
                name: "norm".to_owned(),
                normalized_shape: extents,
                attributes: LayerNormSpec { eps: 1e-3 },
                elementwise_affine: plan.affine,
                bias: true,
            }));
        }
        2 => layers.push(Layer::InstanceNorm(InstanceNormLayer {
            name: "norm".to_owned(),
            attributes: InstanceNormSpec { eps: 1e-3 },
            affine: plan.affine,
        })),
        _ => {}
    }
    let behind = ["own", "shared"].into_iter().take(plan.factors_behind);
    layers.extend(behind.map(Layer::scale));
    layers.extend(plan.batch_norms[0].then(|| Layer::batch_norm("early_statistics")));
    layers.extend(plan.prelus[0].then(|| Layer::prelu("slopes", channels)));
    let [clamp, factor, residual] = plan.pointwise;
    layers.extend(clamp.then(|| Layer::clamp(-0.8, 0.7)));
    // Twice the same one, with a factor in between.
    layers.extend(residual.then(|| Layer::add("early")));
    layers.extend(factor.then(|| Layer::scale("late")));
    layers.extend((residual && factor).then(|| Layer::add("early")));
    match plan.reduction {
        1 if !plan.volumes => layers.push(Layer::max_pool2d(MaxPool2dSpec::new([2, 3]))),
        2 => layers.push(Layer::channel_max()),
        _ => {}
    }
    let has_channels = plan.reduction != 2;
    layers.extend((plan.batch_norms[1] && has_channels).then(|| Layer::batch_norm("statistics")));
    layers.extend(plan.prelus[1].then(|| Layer::prelu("slope", 1)));
    let [clamp, factor, residual] = plan.behind;
    // A factor needs channels.
    layers.extend((factor && has_channels).then(|| Layer::scale("last")));
    let last = if plan.affine {
        Layer::relu()
    } else {
        Layer::clamp(-0.5, 0.6)
    };
    layers.extend(residual.then(|| Layer::add("late")));
    layers.extend(clamp.then_some(last));
    if layers.is_empty() {
        layers.push(Layer::clamp(0.0, 1.0));
    }
    let input = [&[n, in_channels], shape].concat();
    (Chain::new(in_channels, layers).unwrap(), input)
}

fn conv<const D: usize>(channels: usize, kernel_size: [usize; D], bias: bool) -> ConvLayer<D> {
    ConvLayer {
        bias,
        attributes: ConvSpec {
            padding: [1; D].into(),
            padding_mode: [PaddingMode::Zeros, PaddingMode::Circular][usize::from(bias)],
            groups: 2,
            ..ConvSpec::default()
        },
        ..ConvLayer::new("conv", channels, kernel_size)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(79),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_normal_form_computes_what_the_layers_compute(
        plan in plans(),
        n in 1..3_usize,
        name in any::<u32>(),
        zeros in vec(prop_oneof![3 => Just(false), 1 => Just(true)], 8),
    ) {
        let (chain, input) = chain(plan, n);
        let mut case = Case::of_graph(&format!("random/{name}"), chain, &input);
        // Of the factors, which have both signs, some are nothing.
        for (values, parameter) in case.parameters.iter_mut().zip(case.graph.parameters()) {
            if !parameter.name.contains('.') {
                for (value, &zero) in values.iter_mut().zip(zeros.iter().cycle()) {
                    *value = if zero { 0.0 } else { *value };
                }
            }
        }
        let got = Evaluation::new(&case).output();
        let verdict = case.expected(&Precision::F64).unwrap().check_f64(got.view());
        prop_assert!(verdict.is_ok(), "{}: {}", case.graph.operators(), verdict.unwrap_err());
    }
}

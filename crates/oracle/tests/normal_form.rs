//! The normal form of a chain gives the same results as its layers. The random chains have at most one
//! convolution, one norm and one maximum.

use ndarray::{ArrayD, ArrayViewD, Axis};
use op_spec::graph::{
    Chain, ChannelAffine, ConvLayer, GraphProblem, Layer, NormalForm, Operand, OtherTensor,
    Pointwise,
};
use op_spec::{ConvSpec, GroupNormProblem, PaddingMode, ReductionOp, ReductionSpec};
use oracle::operators::Operator;
use oracle::{Bounded, Case, Precision, layer_of};
use proptest::bool::ANY;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Evaluates the normal form of a case.
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

    /// The further input of a layer.
    fn input_of(&self, layer: usize) -> ArrayD<f64> {
        let [_, Operand::Input(input)] = *self.case.graph.operands(layer) else {
            panic!("no layer that takes a further input");
        };
        self.case.inputs[input - 1].mapv(f64::from)
    }

    /// The factor of a scale layer for channel `c`.
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

    /// Computes the convolution. Images are one voxel deep.
    fn convolved(&self, x: ArrayD<f64>) -> ArrayD<f64> {
        let form = &self.form;
        let (layer, conv): (usize, &dyn Operator) = match (&form.convolution, &form.transposed) {
            (Some((layer, conv)), _) => (*layer, conv),
            (None, Some((layer, conv))) => (*layer, conv),
            (None, None) => return x,
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

    /// Applies `y = a * y + b` for each sample and channel, with the moments of the convolution's output.
    /// The product with the factors before the norm is never computed.
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
        let moments = |channel: ArrayViewD<'_, f64>| {
            let count = channel.len() as f64;
            let mean = channel.sum() / count;
            let variance = channel.mapv(|v| (v - mean).powi(2)).sum() / count;
            (mean, variance)
        };
        let of_batch: Vec<(f64, f64)> = y.axis_iter(Axis(1)).map(moments).collect();
        for mut sample in y.axis_iter_mut(Axis(0)) {
            let moments: Vec<(f64, f64)> = match norm.over_batch {
                true => of_batch.clone(),
                false => sample.axis_iter(Axis(0)).map(moments).collect(),
            };
            let per_group = norm.channels_per_group();
            for (c, mut channel) in sample.axis_iter_mut(Axis(0)).enumerate() {
                let weight = affine.first().filter(|_| norm.weight);
                let weight = weight.map_or(1.0, |weight| weight[c]) * behind(c);
                let bias = affine.get(1).filter(|_| norm.bias);
                let bias = bias.map_or(0.0, |bias| bias[c]) * behind(c);
                let factor = before(c);
                let (gain, shift) = if per_group == 1 {
                    // Only the sign of the factor remains, and eps is divided by its square: infinite for a
                    // factor of 0.
                    let (mean, variance) = moments[c];
                    let sign = if factor == 0.0 { 0.0 } else { factor.signum() };
                    let gain = sign / (variance + norm.eps / factor.powi(2)).sqrt();
                    (gain, -mean * gain)
                } else {
                    // The factors weight the channels' moments.
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
        let mut kept = None;
        for (layer, pointwise) in pointwise {
            *y = match pointwise {
                Pointwise::Keep => {
                    kept = Some(y.clone());
                    continue;
                }
                Pointwise::Kept(problem) => {
                    problem.reference(y, &[kept.as_ref().expect("a value is kept")])
                }
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
                Pointwise::Affine(ChannelAffine::BatchNorm(problem)) => {
                    problem.reference(y, &self.parameters_of(*layer))
                }
                Pointwise::Affine(ChannelAffine::Arithmetic(problem)) => {
                    problem.reference(y, &self.parameters_of(*layer))
                }
            };
        }
    }
}

const GROUPS: usize = 2;

/// Axes of a reduction.
const DIMS: [&[isize]; 6] = [&[1], &[2, 3], &[-1], &[1, -2], &[1, -1], &[2]];

prop_compose! {
    /// A chain and its input's shape, from the number of each part of a normal form. `norm` is none, a group
    /// norm, an instance norm or a layer norm; `reduction` is none, a pool, a reduction over axes or a
    /// softmax.
    fn chains()(
        [volumes, convolution, bias, affine] in [ANY; 4],
        [before, behind] in [0..3_usize, 0..3],
        norm in 0..5_u32,
        reduction in 0..4_u32,
        (operation, keepdim) in (0..ReductionOp::ALL.len(), ANY),
        dim in 0..DIMS.len(),
        per_group in 1..4_usize,
        n in 1..3_usize,
        // After a maximum, a clamp may be a ReLU.
        [early, late] in [[ANY; 3], [ANY; 3]],
        batch_norms in [ANY; 2],
        arithmetic in option::of(prop_oneof![Just("add"), Just("sub"), Just("mul")]),
        // A slope for each channel before the reduction, and a shared slope after it.
        prelus in [ANY; 2],
        // Products with functions of the factor, before and after the reduction.
        gates in [ANY; 2],
    ) -> (Chain, Vec<usize>) {
        let channels = GROUPS * per_group;
        let in_channels = if convolution { 2 } else { channels };
        let shape: &[usize] = if volumes { &[3, 4, 5] } else { &[6, 7] };
        let mut layers = Vec::<Layer>::new();
        if convolution && volumes {
            layers.push(Layer::from(conv(channels, [2, 1, 2], bias)));
        } else if convolution {
            layers.push(Layer::from(conv(channels, [2, 3], bias)));
        }
        // Two layers of the same name share their factor.
        layers.extend((0..before).map(|_| Layer::scale("shared").into()));
        // The growth of the extents by convolutions with these filters and paddings.
        let grown: &[usize] = match (convolution, volumes) {
            (false, _) => &[0; 3],
            (true, true) => &[1, 2, 1],
            (true, false) => &[1, 0],
        };
        let extents = shape.iter().zip(grown).map(|(extent, more)| extent + more);
        let extents: Vec<usize> = std::iter::once(channels).chain(extents).collect();
        layers.extend(match norm {
            1 => Some(("group_norm", format!("affine={affine} num_groups={GROUPS}"))),
            2 => Some(("instance_norm", format!("affine={affine}"))),
            3 => {
                let extents = format!("{extents:?}").replace(' ', "");
                let attributes = format!("elementwise_affine={affine} normalized_shape={extents}");
                Some(("layer_norm", attributes))
            }
            4 => Some(("batch_norm", format!("affine={affine} training=true"))),
            _ => None,
        }
        .map(|(norm, attributes)| {
            layer_of(norm, &format!("name=norm eps=1e-3 {attributes}")).unwrap()
        }));
        layers.extend(["own", "shared"].into_iter().take(behind).map(|name| Layer::scale(name).into()));
        layers.extend(batch_norms[0].then(|| Layer::batch_norm("early_statistics").into()));
        layers.extend(arithmetic.map(|operation| {
            let name = format!("name={}", ["every", "shared"][usize::from(operation == "mul")]);
            layer_of(operation, &name).unwrap()
        }));
        layers.extend(prelus[0].then(|| Layer::prelu("slopes", channels).into()));
        let gate = |layers: &mut Vec<Layer>, input: Option<&str>| {
            if let (Some(input), Some(last)) = (input, layers.len().checked_sub(1)) {
                layers.push(Layer::sigmoid());
                layers.push(Layer::add(input));
                layers.push(Layer::mul(OtherTensor::Layer(last)));
            }
        };
        gate(&mut layers, gates[0].then_some("early_gate"));
        let [clamp, factor, residual] = early;
        layers.extend(clamp.then(|| Layer::clamp(-0.8, 0.7)));
        // The same input twice, with a factor in between.
        layers.extend(residual.then(|| Layer::add("early")));
        layers.extend(factor.then(|| Layer::scale("late").into()));
        layers.extend((residual && factor).then(|| Layer::add("early")));
        match reduction {
            1 if !volumes => layers.push(Layer::max_pool2d([2, 3]).into()),
            2 => {
                let reduction = ReductionSpec::new(ReductionOp::ALL[operation], DIMS[dim]);
                layers.push(reduction.keepdim(keepdim).into());
            }
            3 => layers.push(Layer::softmax(&[1])),
            _ => {}
        }
        // Axes counted from the end are resolved only if the rank is known.
        let is_known = convolution || DIMS[dim].iter().all(|&dim| dim > 0);
        let has_channels = reduction != 2 || is_known && (keepdim || DIMS[dim][0] != 1);
        layers.extend((batch_norms[1] && has_channels).then(|| Layer::batch_norm("statistics").into()));
        layers.extend(prelus[1].then(|| Layer::prelu("slope", 1).into()));
        gate(&mut layers, gates[1].then_some("late_gate"));
        let [clamp, factor, residual] = late;
        // A factor needs channels.
        layers.extend((factor && has_channels).then(|| Layer::scale("last").into()));
        let last = if affine { Layer::relu() } else { Layer::clamp(-0.5, 0.6) };
        layers.extend(residual.then(|| Layer::add("late")));
        layers.extend(clamp.then_some(last));
        if layers.is_empty() {
            layers.push(Layer::clamp(0.0, 1.0));
        }
        let input = [&[n, in_channels], shape].concat();
        (Chain::new(in_channels, layers).unwrap(), input)
    }
}

fn conv<const D: usize>(channels: usize, kernel_size: [usize; D], bias: bool) -> ConvLayer<D> {
    ConvLayer::new("conv", channels, kernel_size)
        .bias(bias)
        .attributes(
            ConvSpec::default()
                .padding(1)
                .padding_mode([PaddingMode::Zeros, PaddingMode::Circular][usize::from(bias)])
                .groups(2),
        )
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
        (chain, input) in chains(),
        name in any::<u32>(),
        zeros in vec(prop_oneof![3 => Just(false), 1 => Just(true)], 8),
    ) {
        let mut case = Case::of_graph(&format!("random/{name}"), chain, &input);
        // Some of the factors, which have both signs, are 0.
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

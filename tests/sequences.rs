//! One model, and its plans, on a sequence of shapes, layouts and options, in any order and on several
//! streams. Each result has the same bits as a new model's for this input alone.
//!
//! A model shares prepared programs and parameters between all inputs. The inputs are small, but require
//! several forms of the same parameters. `model::programs::sequences` of the library tests that every kind
//! of shared object is distinguished by everything that it depends on.

use std::collections::{BTreeMap, BTreeSet};

use convfuse::graph::{BroadcastParameter, Chain, Layer, Partition};
use convfuse::model::{Explanation, Plan, Precision};
use convfuse::spec::Layout;
use convfuse::{DType, Inputs, Model, Options, Parameters, Stream, Tensor, data};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, IxDyn};

use crate::backend::{Backend, Outcome};
use crate::chains::{chain, preset_85};
use crate::layouts::{Way, channels_last, lying, way};
use crate::suite::bits;

pub(crate) fn trials() -> Vec<Trial> {
    let trials = Backend::ARCHITECTURES.into_iter().flat_map(|backend| {
        let of = move |sequence: Sequence| {
            let name = format!("of_{}_have_the_bits_of_fresh_models", sequence.name);
            backend.trial("sequences", &name, move |backend| sequence.run(backend))
        };
        sequences().into_iter().map(of)
    });
    trials.collect()
}

/// The requests for one model of a chain.
struct Sequence {
    name: &'static str,
    chain: Chain,
    inputs: &'static [&'static [usize]],
    partitions: &'static [&'static str],
    /// Kernels that prepare the parameters, on Hopper and on other devices.
    preparations: [&'static [&'static str]; 2],
}

/// A table of sequences: chain, inputs, partitions and preparations of each name.
macro_rules! sequences {
    ($($name:literal: $chain:expr, $inputs:expr, $partitions:expr, $preparations:expr;)+) => {
        vec![$(Sequence {
            name: $name,
            chain: $chain,
            inputs: &$inputs,
            partitions: &$partitions,
            preparations: $preparations,
        }),+]
    };
}

fn sequences() -> Vec<Sequence> {
    let conv = |name: &str, filters, kernel: usize| Layer::conv2d(name, filters, kernel);
    let parameter = |name: &str| BroadcastParameter::new(name);
    let up = Layer::conv_transpose2d("up", 24, 3).stride(2).padding(1);
    const GEMM: &[&str] = &["implicit_gemm_filters"];
    sequences! {
        "images": chain!(3; conv("stem", 16, 7).stride(2).padding(3), Layer::batch_norm("norm"),
            Layer::relu(), conv("next", 24, 3).padding(1), Layer::silu()),
            [&[2, 3, 13, 18], &[1, 3, 9, 31], &[1, 3, 16, 16]],
            ["conv2d | batch_norm | relu | conv2d silu"],
            [&["implicit_gemm_filters", "copy_strided", "gemm_pad_channels", "fold_batch_norm"],
            &["implicit_gemm_filters", "fold_batch_norm"]];
        // The channels of several columns are adjacent only if some window contains these columns.
        "dilated_windows": chain!(3; conv("conv", 24, 3).dilation(5).padding(5),
            Layer::instance_norm("norm")), [&[2, 3, 9, 4], &[2, 3, 9, 9], &[1, 3, 12, 20]],
            ["conv2d instance_norm @implicit-gemm", "conv2d @implicit-gemm | instance_norm"],
            [GEMM; 2];
        "volumes": chain!(24; Layer::conv3d("conv", 8, [2, 3, 3]), Layer::instance_norm("norm"),
            Layer::relu()), [&[1, 24, 3, 4, 9], &[2, 24, 4, 5, 5], &[1, 24, 2, 8, 12]],
            ["conv3d @implicit-gemm | instance_norm relu"], [GEMM; 2];
        // Phases that are interleaved, or shuffled into rows of the output.
        "phases": chain!(16; up.output_padding(1), Layer::batch_norm("norm"), Layer::relu()),
            [&[2, 16, 6, 7], &[1, 16, 4, 8], &[1, 16, 1, 1]],
            ["conv_transpose2d | batch_norm | relu"],
            [&["conv_transpose_filters", "implicit_gemm_filters", "fold_batch_norm"]; 2];
        // A further input, and factors and summands per channel after those of other layers.
        "sums": chain!(16; conv("conv", 24, 3), Layer::batch_norm("norm"),
            Layer::mul(parameter("gain")), Layer::add(parameter("shift")), Layer::relu(),
            Layer::add("residual")), [&[2, 16, 6, 7], &[1, 16, 5, 18], &[3, 16, 3, 3]],
            ["conv2d batch_norm mul | add | relu add"],
            [&["implicit_gemm_filters", "fold_batch_norm", "fold_arithmetic"]; 2];
        "problem_85": preset_85().chain, [&[1, 8, 7, 9], &[2, 8, 6, 11], &[1, 8, 10, 128]],
            ["conv2d @direct | group_norm scale @folded | max_pool2d clamp"],
            [&["implicit_gemm_filters", "fold_scale",
            "conv2d_group_norm_scale_max_pool_clamp_prepare"],
            &["implicit_gemm_filters", "fold_scale"]];
    }
}

/// Random numbers of a seed.
struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        (op_spec::data::uniform(self.seed, self.drawn) * limit as f32) as usize
    }

    fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at + 1));
        }
    }
}

/// An input shape, the layouts of the first and the further inputs, and options.
#[derive(Debug, Clone)]
struct Setting {
    shape: &'static [usize],
    /// Whether the first input and the further ones are channels last.
    are_last: [bool; 2],
    options: Options,
}

/// The shape, the strides and the bits of an output.
type Bits = (Vec<usize>, Vec<isize>, Vec<u32>);

fn bits_of(y: &Tensor) -> convfuse::Result<Bits> {
    let values = bits(&y.to_f32_array()?);
    Ok((y.shape().to_vec(), y.strides(), values))
}

/// The call that computes a result.
#[derive(Debug, Clone, Copy)]
enum Form {
    Forward,
    /// A plan of an earlier step, if there is one.
    Plan,
    /// Host arrays.
    Array,
    /// A plan captured as a CUDA graph.
    Captured,
}

impl Sequence {
    /// Settings for inputs of a type: `each` settings per shape, and one more with another layout of further
    /// inputs.
    fn settings(&self, draws: &mut Draws, dtype: DType, each: usize) -> Vec<Setting> {
        let mut options = vec![
            Options::default(),
            Options::default().batch_invariant(false),
            Options::default().output_layout(Layout::Nhwc),
        ];
        for text in self.partitions {
            let partition = Partition::parse(&self.chain, text).expect("a partition");
            // As frequent as all others together.
            for _ in 0..3 {
                options.push(Options::default().partition(partition.clone()));
            }
        }
        let precisions = match dtype {
            DType::F32 => &Precision::ALL[..],
            _ => &Precision::ALL[..1],
        };
        let mut settings = Vec::new();
        for &shape in self.inputs {
            for number in 0..each {
                let precision = precisions[number % precisions.len()];
                // Half of the settings have default options, in either layout.
                let options = match number {
                    0 | 1 => Options::default(),
                    _ => options[draws.below(options.len())].clone(),
                };
                settings.push(Setting {
                    shape,
                    are_last: [(number + draws.below(2)) % 2 == 1, draws.below(2) == 1],
                    options: options.precision(precision),
                });
            }
            if !self.chain.inputs().is_empty() {
                // Another setting that differs only in the layout of further inputs.
                let mut other = settings[settings.len() - each].clone();
                other.are_last[1] = !other.are_last[1];
                settings.push(other);
            }
        }
        settings
    }

    fn model(&self, stream: &Stream, dtype: DType) -> Result<Model, Failed> {
        let parameters = Parameters::init(&self.chain, 3)?;
        Ok(Model::with_dtype(stream, &self.chain, &parameters, dtype)?)
    }

    fn run(&self, backend: Backend) -> Outcome {
        let (mut prepared, mut are_several) = (BTreeSet::new(), false);
        for (seed, dtype) in (1..).zip([DType::F32, DType::F16]) {
            let explained = self.run_in(backend, dtype, Draws { seed, drawn: 0 })?;
            let mut forms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for region in explained.iter().flat_map(|explained| &explained.regions) {
                prepared.extend(region.preparations.iter().copied());
                let first = region.layers.split(' ').next().unwrap_or_default();
                if !(region.preparations.is_empty() || region.config.is_empty()) {
                    forms.entry(first).or_default().insert(&region.config);
                }
            }
            are_several |= forms.values().any(|forms| forms.len() > 1);
        }
        let expected = match backend {
            Backend::Emulator => self.preparations[0],
            Backend::EmulatorSm80 => self.preparations[1],
            _ => &[],
        };
        for kernel in expected {
            let is_there = prepared.iter().any(|other| other.starts_with(kernel));
            assert!(is_there, "{kernel} is not among {prepared:?}");
        }
        assert!(are_several || expected.is_empty(), "filters have one form");
        Ok(())
    }

    /// Runs the sequence in a type. Returns the kernels that ran.
    fn run_in(
        &self,
        backend: Backend,
        dtype: DType,
        mut draws: Draws,
    ) -> Result<Vec<Explanation>, Failed> {
        let device = backend.device()?;
        let each = if device.is_emulator() { 3 } else { 8 };
        let settings = self.settings(&mut draws, dtype, each);
        let mut forms = vec![Form::Forward, Form::Plan, Form::Plan, Form::Array];
        if device.is_gpu() {
            forms.push(Form::Captured);
        }
        let streams = [device.stream()?, device.stream()?, device.stream()?];
        let kept = self.model(&streams[0], dtype)?;
        let requests = settings.iter().map(|setting| {
            let fresh = self.model(&streams[0], dtype)?;
            Request::new(&fresh, setting)
        });
        let mut requests = requests.collect::<Result<Vec<_>, _>>()?;
        // Each request with both inputs, and again with the first.
        let steps = 0..requests.len();
        let mut steps: Vec<_> = steps.flat_map(|at| [(at, 0), (at, 1), (at, 0)]).collect();
        draws.shuffle(&mut steps);
        for (at, input) in steps {
            let form = forms[draws.below(forms.len())];
            let stream = &streams[draws.below(streams.len())];
            let request = &mut requests[at];
            let got = request.answer(&kept, form, input, stream)?;
            let is_same = got == request.wanted[input];
            assert!(is_same, "{} {dtype} {form:?} {:?}", self.name, settings[at]);
        }
        let explained = requests.into_iter().filter_map(|request| request.explained);
        Ok(explained.collect())
    }
}

/// A setting with two sets of inputs, and the results of a new model for them.
struct Request<'a> {
    setting: &'a Setting,
    /// The first input and the further inputs, for both sets.
    inputs: [Vec<Tensor>; 2],
    names: Vec<String>,
    wanted: [Bits; 2],
    workspace_bytes: u64,
    explained: Option<Explanation>,
    /// The plan of the model in the sequence with its output, once it exists.
    plan: Option<(Plan, Tensor)>,
}

impl<'a> Request<'a> {
    /// Computes the results of a new model.
    fn new(fresh: &Model, setting: &'a Setting) -> Result<Self, Failed> {
        let problem = fresh.graph().problem(setting.shape)?;
        let [first, further] = setting.are_last.map(|is_last| match is_last {
            true => way("channels last", channels_last),
            false => way("dense", |rank| (0..rank).collect()),
        });
        let names = problem.inputs.iter().map(|input| input.name.clone());
        let names: Vec<String> = names.collect();
        let shapes = problem.inputs.iter().map(|input| &input.shape[..]);
        let tensors = |seed| -> Result<Vec<Tensor>, Failed> {
            let upload = |seed, shape: &[usize], way: &Way| {
                let values = data::signed(seed, IxDyn(shape));
                lying(fresh.stream(), &values, fresh.dtype(), way)
            };
            let mut tensors = vec![upload(seed, setting.shape, &first)?];
            for shape in shapes.clone() {
                tensors.push(upload(seed + 10, shape, &further)?);
            }
            Ok(tensors)
        };
        let mut request = Request {
            setting,
            inputs: [tensors(1)?, tensors(2)?],
            names,
            wanted: Default::default(),
            workspace_bytes: 0,
            explained: None,
            plan: None,
        };
        for input in 0..2 {
            request.wanted[input] = request.answer(fresh, Form::Forward, input, fresh.stream())?;
        }
        assert_ne!(request.wanted[0], request.wanted[1], "different inputs");
        let plan = fresh.plan_for(fresh.stream(), request.given(0), &setting.options)?;
        request.workspace_bytes = plan.workspace_bytes();
        request.explained = plan.explain().ok();
        Ok(request)
    }

    fn given(&self, input: usize) -> Inputs<&Tensor> {
        named(&self.names, self.inputs[input].iter())
    }

    fn answer(
        &mut self,
        model: &Model,
        form: Form,
        input: usize,
        stream: &Stream,
    ) -> Result<Bits, Failed> {
        let options = &self.setting.options;
        let on = |stream: &Stream| -> convfuse::Result<Vec<Tensor>> {
            self.inputs[input].iter().map(|x| x.on(stream)).collect()
        };
        Ok(match form {
            Form::Plan => {
                let (mut plan, mut y) = match self.plan.take() {
                    Some(plan) => plan,
                    None => {
                        let plan = model.plan_for(stream, self.given(input), options)?;
                        let y = plan.output()?;
                        (plan, y)
                    }
                };
                assert_eq!(plan.workspace_bytes(), self.workspace_bytes, "{options:?}");
                plan.execute(self.given(input), &mut y)?;
                let got = bits_of(&y)?;
                self.plan = Some((plan, y));
                got
            }
            Form::Array if self.setting.are_last == [false; 2] => {
                let arrays = self.inputs[input].iter().map(Tensor::to_f32_array);
                let arrays = arrays.collect::<convfuse::Result<Vec<ArrayD<f32>>>>()?;
                let given = named(&self.names, arrays.iter());
                let y = model.forward_array_with(given, options)?;
                // An array has no device layout.
                let (shape, strides, _) = &self.wanted[input];
                assert_eq!(y.shape(), shape);
                (shape.clone(), strides.clone(), bits(&y))
            }
            Form::Forward | Form::Array => {
                let inputs = on(stream)?;
                bits_of(&model.forward_with(named(&self.names, inputs.iter()), options)?)?
            }
            Form::Captured => {
                // A graph reads only tensors of its own stream.
                let plan = model.plan_for(model.stream(), self.given(input), options)?;
                let inputs = self.inputs[input].iter().cloned();
                let mut captured = plan.capture(named(&self.names, inputs))?;
                captured.replay()?;
                bits_of(captured.output())?
            }
        })
    }
}

/// The first input and further inputs of these names.
fn named<T>(names: &[String], mut inputs: impl Iterator<Item = T>) -> Inputs<T> {
    let first = inputs.next().expect("a graph has an input");
    let further = names.iter().zip(inputs);
    further.fold(Inputs::new(first), |inputs, (name, value)| {
        inputs.with(name, value)
    })
}

//! `convfuse run`: runs a chain or network, with parameters and inputs from files.

use std::path::PathBuf;
use std::time::Instant;

use convfuse::graph::{Graph, GraphProblem};
use convfuse::model::Precision;
use convfuse::{DType, Inputs, LoadOptions, Model, Options, Parameters, Tensor, lab};
use convfuse_cli::Status;
use convfuse_cli::bench::written;
use ndarray::{ArrayD, IxDyn};
use serde_json::json;

use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::files::Target;
use super::json::{Found, Json, must_differ, must_not_replace};
use super::layers::{LayersFile, summary};
use super::out::Out;
use super::progress::Step;
use super::request::dtype;
use super::tensors::{Format, TensorFile, TensorWriter};

/// Options of `run`.
#[derive(clap::Args)]
#[command(mut_group("layers", |group| group.required(true)))]
pub(super) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    #[command(flatten)]
    layers: LayersFile,
    /// The parameters, a safetensors file with PyTorch's names, in f64, f32, f16 or bf16; or the index of
    /// several, model.safetensors.index.json. Layers without parameters need none
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// What stands before the parameters' names in the file of a whole network, such as encoder.0.; other
    /// tensors are passed over
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        requires = "parameters"
    )]
    prefix: String,
    /// Read tensors whose name, without the prefix, is or begins with FROM as if it had TO there; may be
    /// given several times, of which the first that fits a name counts
    #[arg(long, value_name = "FROM=TO", value_parser = rule, requires = "parameters")]
    rename: Vec<(String, String)>,
    /// Pass over tensors that belong to no parameter, as PyTorch does with strict=False. What is missing is
    /// refused always, and so are tensors under the name of a layer that does not take them
    #[arg(long, requires = "parameters")]
    not_strict: bool,
    /// The input, a .safetensors or .npy file. A safetensors file has further inputs under their names, and
    /// the first input under any other
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// The output, a .safetensors or .npy file, or - for safetensors on standard output. It is there as a
    /// whole or not at all. Of a network with several outputs it is given once for each, in the network's
    /// order
    #[arg(long, value_name = "FILE", required = true)]
    output: Vec<PathBuf>,
    /// Element type to compute and store in: f32, f16, bf16 (which .npy stores as f32)
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: DType,
    /// Math mode of fused f32 convolutions: accurate, fast
    #[arg(long, default_value_t)]
    precision: Precision,
    /// Samples that are read, computed and written at a time, which changes no bits [default: some 64 MiB of
    /// them]
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,
    #[command(flatten)]
    json: Json,
}

/// Parses a renaming rule.
fn rule(text: &str) -> Result<(String, String), String> {
    let (from, to) = text
        .split_once('=')
        .ok_or_else(|| format!("rename is {text}, must be FROM=TO"))?;
    Ok((from.to_owned(), to.to_owned()))
}

/// The default bytes of inputs and output in a chunk.
const CHUNK_BYTES: usize = 64 << 20;

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("run", out, |out, found| compute(arguments, out, found))
}

/// The file with the inputs of a graph.
struct FileInputs {
    file: TensorFile,
    /// The index of each input in the file, the first input first.
    places: Vec<usize>,
}

impl FileInputs {
    fn open(arguments: &Arguments, graph: &Graph) -> Result<FileInputs, Failure> {
        let path = arguments.input.display();
        let file = TensorFile::open(&arguments.input)?;
        let names = || file.entries.iter().map(|entry| entry.name.as_str());
        let is_first = |name: &str| !graph.inputs().iter().any(|further| further == name);
        let first: Vec<&str> = names().filter(|name| is_first(name)).collect();
        let [first] = first[..] else {
            let given: Vec<&str> = names().collect();
            return Err(Failure::Refused(format!(
                "{path}: has {} tensors that are no further input, must have 1; given: {}",
                first.len(),
                given.join(", ")
            )));
        };
        let wanted = [first]
            .into_iter()
            .chain(graph.inputs().iter().map(String::as_str));
        let place = |wanted: &str| {
            let place = names().position(|name| name == wanted);
            place.ok_or_else(|| Failure::Refused(format!("{path}: input {wanted} is missing")))
        };
        let places = wanted.map(place).collect::<Result<Vec<_>, Failure>>()?;
        Ok(FileInputs { file, places })
    }

    fn shape(&self, input: usize) -> &[usize] {
        &self.file.entries[self.places[input]].shape
    }

    /// Refuses further inputs whose shapes do not match the graph.
    fn must_fit(&self, arguments: &Arguments, problem: &GraphProblem) -> Result<(), Failure> {
        for (index, input) in problem.inputs.iter().enumerate() {
            let actual = self.shape(index + 1);
            if actual != input.shape {
                return Err(Failure::Refused(format!(
                    "{}: input {} has shape {actual:?}, must be {:?}",
                    arguments.input.display(),
                    input.name,
                    input.shape
                )));
            }
        }
        Ok(())
    }

    /// Reads some samples of an input, or all of an input without a batch.
    fn read(
        &mut self,
        input: usize,
        samples: Option<(usize, usize)>,
    ) -> Result<ArrayD<f32>, Failure> {
        let mut shape = self.shape(input).to_vec();
        let mut elements = 0..shape.iter().product();
        if let Some((start, end)) = samples {
            let sample: usize = shape[1..].iter().product();
            (shape[0], elements) = (end - start, start * sample..end * sample);
        }
        let values = self.file.read(self.places[input], elements)?;
        let values = values.into_iter().map(|value| value as f32).collect();
        let values = ArrayD::from_shape_vec(IxDyn(&shape), values);
        values.map_err(|error| Failure::Refused(error.to_string()))
    }
}

/// The parameters of a graph without any.
fn without_file(graph: &Graph) -> Result<Parameters, Failure> {
    let parameters = Parameters::new(graph, []).map_err(convfuse::Error::from);
    parameters.map_err(|error| Failure::from(error).of("--parameters is not given"))
}

/// The destinations of the outputs, and their formats.
fn targets(arguments: &Arguments, json: Option<&Target>) -> Result<Vec<(Target, Format)>, Failure> {
    let mut targets: Vec<(Target, Format)> = Vec::new();
    for path in &arguments.output {
        let target = Target::new("--output", path)?;
        let written = ("--output", Some(&target));
        must_differ(("--json", json), written)?;
        for (option, path) in [
            ("--parameters", arguments.parameters.as_deref()),
            ("--input", Some(&*arguments.input)),
        ] {
            must_not_replace(written, (option, path))?;
            must_not_replace(("--json", json), (option, path))?;
        }
        for (other, _) in &targets {
            must_differ(("one --output", Some(other)), ("another", Some(&target)))?;
        }
        arguments.layers.must_stay(written)?;
        let format = Format::of(path, &target)?;
        targets.push((target, format));
    }
    arguments.layers.must_stay(("--json", json))?;
    Ok(targets)
}

/// Refuses a number of files that differs from the graph's number of outputs.
fn must_be_each(targets: &[(Target, Format)], graph: &Graph) -> Result<(), Failure> {
    let (actual, expected) = (targets.len(), graph.outputs().len());
    if actual == expected {
        return Ok(());
    }
    let names = graph.outputs().iter().map(|&layer| graph.name_of(layer));
    let names = match names.clone().any(|name| !name.is_empty()) {
        true => format!(": {}", names.collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    Err(Failure::Refused(format!(
        "--output is given {actual} times, must be once for each of {expected} outputs{names}"
    )))
}

/// Computes all outputs for these inputs, widened to f32.
fn outputs_of(
    model: &Model,
    x: &ArrayD<f32>,
    further: &[(&String, ArrayD<f32>)],
    options: &Options,
) -> Result<Vec<ArrayD<f32>>, Failure> {
    if model.graph().outputs().len() == 1 {
        let given = further.iter().fold(Inputs::new(x), |given, (name, value)| {
            given.with(name, value)
        });
        return Ok(vec![model.forward_array_with(given, options)?]);
    }
    let upload = |array: &ArrayD<f32>| Tensor::from_f32_array(model.stream(), array, model.dtype());
    let x = upload(x)?;
    let further = further
        .iter()
        .map(|(name, array)| Ok((*name, upload(array)?)));
    let further = further.collect::<convfuse::Result<Vec<_>>>()?;
    let named = further.iter();
    let inputs = named.fold(Inputs::new(&x), |inputs, (name, tensor)| {
        inputs.with(name, tensor)
    });
    let outputs = model.forward_all(inputs, options)?;
    let outputs = outputs.iter().map(|y| y.to_f32_array());
    Ok(outputs.collect::<convfuse::Result<_>>()?)
}

fn compute(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    // Checks everything possible before the first run.
    let json = arguments.json.target(out)?;
    let targets = targets(arguments, json.as_ref())?;
    if targets.iter().any(|(target, _)| *target == Target::Stdout) {
        out.be_silent();
    }
    let graph = arguments.layers.read()?.ok_or("has no layers")?;
    must_be_each(&targets, &graph)?;
    let mut inputs = FileInputs::open(arguments, &graph)?;
    let input = inputs.shape(0).to_vec();
    let problem = graph.problem(&input);
    let of_file = |failure: Failure| failure.of(arguments.input.display());
    let problem = problem.map_err(|error| of_file(error.into()))?;
    inputs.must_fit(arguments, &problem)?;
    let mut options = LoadOptions::default()
        .prefix(&arguments.prefix)
        .strict(!arguments.not_strict)
        .dtype(arguments.dtype);
    for (from, to) in &arguments.rename {
        options = options.rename(from, to);
    }
    let parameters = match &arguments.parameters {
        Some(path) => Parameters::load_with(&graph, path, &options)?,
        None => without_file(&graph)?,
    };
    // An input without a batch is a single chunk.
    let samples = if problem.is_batched { input[0] } else { 1 };
    let elements = |shape: &[usize]| shape.iter().product::<usize>();
    let further = problem.inputs.iter().map(|input| elements(&input.shape));
    let outputs = problem.output_shapes().map(elements);
    let all = elements(&input) + outputs.sum::<usize>() + further.sum::<usize>();
    let sample_bytes = (all / samples.max(1))
        .max(1)
        .saturating_mul(size_of::<f32>());
    let chunk = match arguments.chunk {
        Some(samples) => samples as usize,
        None => (CHUNK_BYTES / sample_bytes).max(1),
    };
    let chunk = chunk.min(samples.max(1));
    // A factor for the values read from the file, the arrays given to the model, and the model's own copies.
    lab::must_have_memory(chunk.saturating_mul(sample_bytes).saturating_mul(4))?;

    let stream = arguments.device.open()?.stream()?;
    let model = Model::with_dtype(&stream, &graph, &parameters, arguments.dtype)?;
    let options = Options::default().precision(arguments.precision);
    let shapes = targets.iter().zip(problem.output_shapes());
    let files = shapes.map(|((target, format), shape)| {
        TensorWriter::new(target, *format, arguments.dtype, shape)
    });
    let mut files = files.collect::<Result<Vec<_>, Failure>>()?;
    let start = Instant::now();
    let step = Step::start(format!("{} on {}", summary(&graph), stream.device()));
    let mut done = 0;
    while done < samples {
        let end = samples.min(done + chunk);
        let part = problem.is_batched.then_some((done, end));
        let x = inputs.read(0, part)?;
        let further = 1..inputs.places.len();
        let further =
            further.map(|index| Ok((&graph.inputs()[index - 1], inputs.read(index, part)?)));
        let further = further.collect::<Result<Vec<_>, Failure>>()?;
        let outputs = outputs_of(&model, &x, &further, &options)?;
        for (file, output) in files.iter_mut().zip(&outputs) {
            file.write(output)?;
        }
        done = end;
        step.at(done, samples, "samples");
    }
    files.into_iter().try_for_each(TensorWriter::finish)?;
    step.done();
    found.note("device", json!(stream.device().info()));
    let (kind, layers) = written(&graph);
    found.note(kind, layers);
    found.note("input", json!(input));
    let output = problem.output_shape();
    found.note("output", json!(output));
    let further: Vec<&[usize]> = problem.output_shapes().skip(1).collect();
    if !further.is_empty() {
        found.note("outputs", json!(further));
    }
    found.note("dtype", arguments.dtype.to_string());
    found.note("chunk", chunk);
    found.note("seconds", start.elapsed().as_secs_f64());
    writeln!(
        out,
        "{}: {input:?} to {output:?}, {}, on {}",
        summary(&graph),
        arguments.dtype,
        stream.device()
    )?;
    Ok(Status::Right)
}

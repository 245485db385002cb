//! The tasks of `bench`, checked before anything runs.

use convfuse::Device;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::model::{Explanation, Options, Strategy};
use convfuse_cli::bench::Description;

use super::arguments::{Arguments, Model, candidates};
use crate::cli::device::Choice;
use crate::cli::failure::Failure;
use crate::cli::json::file_name;
use crate::cli::out::plain;
use crate::cli::request::{Attributes, Request, Shape, describe, read_list};

/// A problem with one element type, and its strategies.
pub(super) struct Task {
    /// The name in messages: the file and the index in it, or the problem.
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Description,
    pub(super) candidates: Vec<(Strategy, Options)>,
}

/// Inputs that take the emulator less than a minute.
pub(in crate::cli) const EMULATED_85: [usize; 4] = [1, 8, 20, 20];
pub(in crate::cli) const EMULATED_79: [usize; 5] = [1, 3, 6, 8, 8];

/// The requested tasks, in the order of execution.
pub(super) fn tasks(arguments: &Arguments) -> Result<Vec<Task>, Failure> {
    let mut tasks = Vec::new();
    for (name, request) in requests(arguments)? {
        for &dtype in &arguments.dtype {
            let name = format!("{name} {dtype}");
            let task = || {
                let mut description = describe(&request, dtype, arguments.seed)?;
                description.channels_last = arguments.channels_last;
                let candidates = candidates(arguments, &description.graph, dtype)?;
                Ok(Task {
                    name: name.clone(),
                    title: request.title.clone(),
                    description,
                    candidates,
                })
            };
            let task = task().map_err(|failure: Failure| failure.of(&name))?;
            if !task.candidates.is_empty() {
                tasks.push(task);
            }
        }
    }
    match tasks.is_empty() {
        true => {
            Err("nothing to run: no --strategy and --shape fit the pipelines of --model".into())
        }
        false => Ok(tasks),
    }
}

/// Refuses tasks without kernels on the device, and tasks that exceed the host's memory.
pub(super) fn must_be_possible(tasks: &mut [Task], device: &Device) -> Result<(), Failure> {
    for Task {
        name,
        description,
        candidates,
        ..
    } in tasks
    {
        let mut possible = || {
            description.must_have_memory()?;
            if device.is_cpu() {
                // The CPU backend executes all strategies alike.
                candidates.truncate(1);
                return Ok(());
            }
            for (strategy, options) in &*candidates {
                let Description { graph, input, .. } = &*description;
                let properties = &device.properties();
                Explanation::of(graph, description.dtype, input, options, properties)
                    .map_err(|error| Failure::from(error).of(strategy))?;
            }
            Ok(())
        };
        possible().map_err(|failure: Failure| failure.of(&name))?;
    }
    Ok(())
}

/// The named requests: the problems in a file, or those of the options.
fn requests(arguments: &Arguments) -> Result<Vec<(String, Request)>, Failure> {
    let attributes = &arguments.attributes;
    let has_attributes = *attributes != Attributes::default();
    if let Some(path) = &arguments.problems {
        if has_attributes {
            return Err("the problems of --problems have attributes of their own".into());
        }
        let requests: Vec<Request> = read_list(path, "problem")?;
        let named = requests.into_iter().enumerate().map(|(index, request)| {
            let title = request.title.as_deref().map(plain);
            let title = title.map_or(String::new(), |title| format!(" ({title})"));
            let name = format!("{}: problem {index}{title}", path.display());
            (name, request)
        });
        return Ok(named.collect());
    }
    if let Some(path) = arguments.layers.path() {
        if has_attributes {
            return Err("the layers of a file have attributes of their own".into());
        }
        let layers = arguments.layers.read()?;
        let request = |shape: &Shape| Request {
            title: Some(file_name(path)),
            input: shape.0.clone(),
            attributes: Attributes::default(),
            layers: layers.clone(),
        };
        let named = |request: Request| (format!("{} {:?}", path.display(), request.input), request);
        return Ok(arguments.shape.iter().map(request).map(named).collect());
    }
    for Shape(shape) in &arguments.shape {
        let rank = shape.len();
        let fits = match arguments.model {
            Model::Of85 => rank == 4,
            Model::Of79 => rank == 5,
            Model::Both => rank == 4 || rank == 5,
        };
        if !fits {
            let text = "problem 85 takes 4, and problem 79 takes 5; others are given by --chain or --network";
            return Err(Failure::Refused(format!(
                "--shape {shape:?} has {rank} extents, {text}"
            )));
        }
    }
    let (own_85, own_79) = match arguments.device {
        Choice::Emulator => (EMULATED_85, EMULATED_79),
        _ => (KernelBench85::INPUT, KernelBench79::INPUT),
    };
    let shapes_85 = shapes(arguments, Model::Of85, &own_85);
    let shapes_79 = shapes(arguments, Model::Of79, &own_79);
    let shapes = shapes_85.into_iter().chain(shapes_79);
    let request = |input: Vec<usize>| {
        let number = if input.len() == 4 { 85 } else { 79 };
        let request = Request {
            title: None,
            input,
            attributes: attributes.clone(),
            layers: None,
        };
        (format!("{number} {:?}", request.input), request)
    };
    Ok(shapes.map(request).collect())
}

/// The requested shapes for a problem, or its default shape if none was requested.
fn shapes(arguments: &Arguments, model: Model, default: &[usize]) -> Vec<Vec<usize>> {
    let asked = arguments.model;
    if asked != model && asked != Model::Both {
        return Vec::new();
    }
    let shapes = &arguments.shape;
    if shapes.is_empty() {
        return vec![default.to_vec()];
    }
    let fitting = shapes.iter().filter(|shape| shape.0.len() == default.len());
    fitting.map(|shape| shape.0.clone()).collect()
}

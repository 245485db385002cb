//! Programs of graphs, and the launches of their regions.
//!
//! Nothing but [`append`](super::append) lists launches. A program without parameters, which is only
//! explained, has the launches of a program that runs. Parameters are prepared when a program is complete, so
//! that errors come before anything runs.

use op_spec::graph::{Graph, GraphInput, GraphProblem, LayerProblem};

use super::append::Appending;
use super::choice::choose;
use super::chosen::Chosen;
use super::region::Query;
use crate::device::{Device, Tensor};
use crate::error::Result;
use crate::operators::{Preparations, Prepared};
use crate::program::{Program, ProgramBuilder, Value};

/// The source of a program's parameters.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The parameters are the same in every run. They are prepared once, for all programs of a model.
    Kept {
        tensors: &'a [Tensor],
        prepared: &'a Prepared,
    },
    /// Each run gets the parameters after its inputs, and prepares them.
    Given,
    /// The parameters are absent, because the program is only explained.
    Absent,
}

impl Source<'_> {
    /// Returns the parameters as values of `program`. Each is dense and has the element type that its kernels
    /// read, or keeps its layout if the chosen kernels read it in place.
    fn values(
        self,
        program: &mut ProgramBuilder,
        of: Query<'_>,
        chosen: &[Chosen],
    ) -> Result<Vec<Value>> {
        let table = of.graph.parameters().iter().enumerate();
        if !matches!(self, Source::Given) {
            let absent = table.map(|(slot, parameter)| {
                program.absent(&parameter.shape, of.parameter_dtype(slot))
            });
            return absent.collect();
        }
        let in_place: Vec<usize> = chosen
            .iter()
            .filter_map(|region| region.given_in_place(of))
            .collect();
        let each = table.zip(of.given);
        each.map(|((slot, parameter), (dtype, order))| {
            let (name, shape) = (Some(&*parameter.name), &parameter.shape);
            let wanted = of.parameter_dtype(slot);
            match in_place.contains(&slot) {
                true => program.input_as_it_lies(name, shape, *dtype, order),
                false => program.input_as(name, shape, *dtype, order, wanted),
            }
        })
        .collect()
    }
}

/// Chooses the kernels for a graph, and builds the program of their launches without parameters.
///
/// # Errors
/// As [`choose`] and [`program_of`].
pub(crate) fn planned(query: Query<'_>) -> Result<(Vec<Chosen>, Program)> {
    let device = Device::cpu();
    for (slot, parameter) in query.graph.parameters().iter().enumerate() {
        device.bytes_of(&parameter.shape, query.parameter_dtype(slot))?;
    }
    let mut chosen = choose(query)?;
    let program = program_of(query, &device, Source::Absent, &mut chosen)?;
    Ok((chosen, program))
}

/// Builds the program of the kernels chosen for a graph, and adds the launches to the regions' facts.
///
/// # Errors
/// Extents that no kernel can index; more blocks than a launch takes; more bytes than an address space has;
/// errors of preparing parameters.
pub(crate) fn program_of(
    query: Query<'_>,
    device: &Device,
    parameters: Source<'_>,
    chosen: &mut [Chosen],
) -> Result<Program> {
    let (input, dtype) = (query.problem.input_shape(), query.dtype);
    let mut program = ProgramBuilder::new(device);
    let x = program.input_as_it_lies(None, input, dtype, &query.order(0))?;
    let further = query.problem.inputs.iter().zip(1..);
    let further = further
        .map(|(GraphInput { name, shape, .. }, number)| {
            program.input_as_it_lies(Some(name), shape, dtype, &query.order(number))
        })
        .collect::<Result<Vec<_>>>()?;
    // Operators always see a batch.
    program.see_as(x, &query.problem.steps[0].input);
    if !query.problem.is_batched {
        for (&value, input) in further.iter().zip(&query.problem.inputs) {
            program.see_as(value, &[&[1], &input.shape[..]].concat());
        }
    }
    let inputs = [&[x], &further[..]].concat();
    let values = parameters.values(&mut program, query, chosen)?;
    let preparations = Preparations::default();
    let mut appending = Appending {
        program: &mut program,
        of: query,
        inputs: &inputs,
        outputs: vec![None; query.problem.steps.len()],
        parameters: &values,
        preparations: &preparations,
    };
    for region in &mut *chosen {
        appending.region(region)?;
    }
    let launches = appending.program.kernels().len();
    let mut outputs = appending.outputs()?;
    if let Some(last) = chosen.last_mut() {
        let reformats = program.kernels().skip(launches);
        last.facts.launches.extend(reformats);
    }
    if let Source::Kept { tensors, prepared } = parameters {
        for (&value, tensor) in values.iter().zip(tensors) {
            program.provide(value, tensor);
        }
        preparations.provide(&mut program, prepared)?;
    }
    program.see_as(x, input);
    for (&value, input) in further.iter().zip(&query.problem.inputs) {
        program.see_as(value, &input.shape);
    }
    for (&y, shape) in outputs.iter().zip(query.problem.output_shapes()) {
        program.see_as(y, shape);
    }
    if let Source::Given = parameters {
        let slots = renewed_parameters(query.graph, query.problem).into_iter();
        let renewed = slots.map(|slot| program.renewed(values[slot]));
        outputs.extend(renewed.map(|new| new.expect("a norm renews it")));
    }
    let will_run = !matches!(parameters, Source::Absent);
    for region in chosen.iter().filter(|_| will_run) {
        let (layers, kernels) = (&*region.facts.layers, region.facts.kernels);
        tracing::debug!(target: "convfuse::choice", ?input, layers, kernels, "kernels are chosen");
    }
    Ok(program.finish(&outputs))
}

/// Returns the indices in the graph's table of the parameters that a run renews. A run without outputs renews
/// none.
pub(crate) fn renewed_parameters(graph: &Graph, problem: &GraphProblem) -> Vec<usize> {
    let mut renewed = Vec::new();
    for (layer, step) in problem.steps.iter().enumerate() {
        if let LayerProblem::BatchNorm(norm) = &step.problem
            && norm.momentum.is_some()
            && norm.shape.elements() > 0
        {
            let slots = graph.parameters_of(layer);
            renewed.extend(&slots[slots.len() - 2..]);
        }
    }
    renewed.sort_unstable();
    renewed.dedup();
    renewed
}

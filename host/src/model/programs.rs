//! Programs of graphs, and the cache of a model's programs.

use std::sync::Arc;

use op_spec::graph::{Graph, GraphInput, GraphProblem, Layer, LayerProblem};

use super::Options;
use crate::device::{DType, Device, Order, Tensor};
use crate::error::Result;
use crate::lowering::{Appending, Chosen, Query};
use crate::operators::Preparations;
use crate::program::{Program, ProgramBuilder, Value};
use crate::sync::{Mutex, lock};

/// The source of a program's parameters.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The parameters are the same in every run. They are prepared once, for all programs of a model.
    Kept {
        tensors: &'a [Tensor],
        preparations: &'a Preparations,
    },
    /// Each run gets the parameters after its inputs, and prepares them.
    Given,
    /// There are no parameters, because the program is only explained.
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
        match self {
            Source::Kept { tensors, .. } => {
                let tensors = tensors.iter();
                return Ok(tensors.map(|tensor| program.parameter(tensor)).collect());
            }
            Source::Absent => {
                let each = of.graph.parameters().iter().enumerate();
                let each =
                    each.map(|(slot, parameter)| (&parameter.shape, of.parameter_dtype(slot)));
                return each
                    .map(|(shape, dtype)| program.absent(shape, dtype))
                    .collect();
            }
            Source::Given => {}
        }
        let in_place: Vec<usize> = chosen
            .iter()
            .filter_map(|region| region.given_in_place(of))
            .collect();
        let table = of.graph.parameters().iter().enumerate();
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

/// Returns the element types in which kernels for tensors of `dtype` read parameters of the types `stored`,
/// in the order of the graph's table.
///
/// Norms compute in f32 and read f32 parameters directly, even with 16-bit tensors. All other parameters are
/// rounded to the tensors' type.
pub(super) fn kernel_dtypes(graph: &Graph, stored: &[DType], dtype: DType) -> Vec<DType> {
    let mut dtypes = vec![dtype; stored.len()];
    for (index, layer) in graph.layers().iter().enumerate() {
        let is_norm = matches!(
            layer,
            Layer::BatchNorm(_)
                | Layer::GroupNorm(_)
                | Layer::InstanceNorm(_)
                | Layer::LayerNorm(_)
        );
        let slots = graph.parameters_of(index);
        if is_norm && slots.iter().any(|&slot| stored[slot] != dtype) {
            for &slot in slots {
                dtypes[slot] = DType::F32;
            }
        }
    }
    dtypes
}

/// Builds the program of the kernels chosen for a graph, for inputs of these layouts.
pub(super) fn program_of(
    query: Query<'_>,
    device: &Device,
    orders: &[Order],
    parameters: Source<'_>,
    chosen: &[Chosen],
) -> Result<Program> {
    let (input, dtype) = (query.problem.input_shape(), query.dtype);
    let mut program = match parameters {
        Source::Absent => ProgramBuilder::explained(device),
        Source::Kept { .. } | Source::Given => ProgramBuilder::new(device),
    };
    let x = program.input_as_it_lies(None, input, dtype, &orders[0])?;
    let further = query.problem.inputs.iter().zip(&orders[1..]);
    let further = further
        .map(|(GraphInput { name, shape, .. }, order)| {
            program.input_as_it_lies(Some(name), shape, dtype, order)
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
    let none = Preparations::default();
    let preparations = match parameters {
        Source::Kept { preparations, .. } => preparations,
        Source::Given | Source::Absent => &none,
    };
    let mut appending = Appending {
        program: &mut program,
        of: query,
        inputs: &inputs,
        outputs: vec![None; query.problem.steps.len()],
        parameters: &values,
        preparations,
    };
    for region in chosen {
        appending.region(region)?;
    }
    let mut outputs = appending.outputs()?;
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
pub(super) fn renewed_parameters(graph: &Graph, problem: &GraphProblem) -> Vec<usize> {
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

/// The number of programs that a model keeps, in order of last use. Plans keep theirs themselves. A program
/// takes some kilobytes on the host. On the device it holds prepared parameters, which programs share if
/// their tiles are the same. So the number of prepared forms depends on the number of tiles, not of shapes.
const KEPT_PROGRAMS: usize = 64;

/// The programs of a model, found by input shape, orders and options. The model's element type and device are
/// the same for all.
#[derive(Default)]
pub(super) struct Programs(Mutex<Vec<Entry>>);

struct Entry {
    input: Box<[usize]>,
    /// The orders of all inputs, the first input's first.
    orders: Box<[Order]>,
    options: Options,
    place: Arc<Place>,
}

/// A program, behind the lock that a thread holds while it builds the program.
type Place = Mutex<Option<Arc<Program>>>;

impl Programs {
    /// Returns the program for a first input of this shape and inputs of these orders. A missing program is
    /// built by `make`. Threads that ask for the same program wait until the first of them has built it;
    /// threads that ask for different programs do not wait for each other.
    pub(super) fn get(
        &self,
        input: &[usize],
        orders: &[Order],
        options: &Options,
        make: impl FnOnce() -> Result<Program>,
    ) -> Result<Arc<Program>> {
        let place = self.place(input, orders, options);
        let mut program = lock(&place);
        if let Some(program) = &*program {
            return Ok(Arc::clone(program));
        }
        match make() {
            Ok(made) => Ok(Arc::clone(program.insert(Arc::new(made)))),
            Err(error) => {
                // A waiting thread builds the program again and gets its own error.
                lock(&self.0).retain(|entry| !Arc::ptr_eq(&entry.place, &place));
                Err(error)
            }
        }
    }

    /// Returns the cache entry of this program; a new one if there is none.
    fn place(&self, input: &[usize], orders: &[Order], options: &Options) -> Arc<Place> {
        let is_it = |entry: &Entry| {
            *entry.input == *input && *entry.orders == *orders && entry.options == *options
        };
        let mut kept = lock(&self.0);
        if let Some(index) = kept.iter().rposition(is_it) {
            // The most recently used entry moves to the end; the first entry is evicted.
            kept[index..].rotate_left(1);
            return Arc::clone(&kept[kept.len() - 1].place);
        }
        if kept.len() == KEPT_PROGRAMS {
            kept.remove(0);
        }
        let place = Arc::default();
        kept.push(Entry {
            input: input.into(),
            orders: orders.into(),
            options: options.clone(),
            place: Arc::clone(&place),
        });
        place
    }
}

#[cfg(test)]
mod sequences;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::device::Device;
    use crate::error::Error;
    use crate::program::ProgramBuilder;

    fn empty() -> Program {
        ProgramBuilder::new(&Device::cpu()).finish(&[])
    }

    #[test]
    fn those_used_last_are_kept() {
        let programs = Programs::default();
        let mut made = Vec::new();
        let mut get = |n: usize| {
            let make = || {
                made.push(n);
                Ok(empty())
            };
            programs
                .get(&[n], &[Order::Dense], &Options::default(), make)
                .map(drop)
        };
        // Program 0 is used again, so program 1 is evicted when there is one too many.
        for n in (0..KEPT_PROGRAMS).chain([0, KEPT_PROGRAMS, 0, 1]) {
            get(n).unwrap();
        }
        let wanted: Vec<usize> = (0..=KEPT_PROGRAMS).chain([1]).collect();
        assert_eq!(made, wanted);
    }

    /// All threads ask for one program while another is being built, which takes until they have it.
    #[test]
    fn what_several_ask_for_at_a_time_is_made_once_and_nobody_waits_for_others() {
        const THREADS: usize = 4;
        let programs = Programs::default();
        let (made, have_it) = (AtomicUsize::new(0), Barrier::new(THREADS + 1));
        let (begun, all_ask) = (Barrier::new(THREADS + 1), Barrier::new(THREADS));
        thread::scope(|scope| {
            scope.spawn(|| {
                let make = || {
                    begun.wait();
                    have_it.wait();
                    Ok(empty())
                };
                programs
                    .get(&[1], &[Order::Dense], &Options::default(), make)
                    .unwrap();
            });
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begun.wait();
                    all_ask.wait();
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        // The pause is long enough for the other threads to find that the program is missing.
                        thread::sleep(std::time::Duration::from_millis(50));
                        Ok(empty())
                    };
                    programs
                        .get(&[2], &[Order::Dense], &Options::default(), make)
                        .unwrap();
                    have_it.wait();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn what_could_not_be_made_is_not_kept() {
        let programs = Programs::default();
        let refuse = || Err(Error::TooManyBlocks { operator: "test" });
        let options = Options::default();
        assert!(
            programs
                .get(&[1], &[Order::Dense], &options, refuse)
                .is_err()
        );
        assert!(lock(&programs.0).is_empty());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            programs.get(&[1], &[Order::Dense], &options, || panic!("on purpose"))
        }));
        assert!(caught.is_err());
        assert!(
            programs
                .get(&[1], &[Order::Dense], &options, || Ok(empty()))
                .is_ok()
        );
    }
}

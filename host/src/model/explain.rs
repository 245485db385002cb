//! Explanations of the chosen kernels and their launches.

use std::fmt;

use op_spec::graph::{Graph, GraphInput, NormalForm};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::Options;
use crate::device::{DType, DeviceProperties, Order};
use crate::error::Result;
use crate::lowering::{self, Chosen, Considered, Query, RegionFacts, Verdict, Work};
use crate::program::{Program, Step};

/// The shortest time of a launch, in seconds.
const LAUNCH_S: f64 = 5e-6;

/// The kernels that a model runs on inputs of one shape, with the reasons for the choice. Displays as a
/// table. Made by [`Model::explain`](crate::Model::explain),
/// [`Model::explain_for`](crate::Model::explain_for) and [`Plan::explain`](crate::Plan::explain).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The operators' names.
    #[serde(rename = "chain")]
    pub layers: String,
    /// Shape of the first input.
    pub input: Vec<usize>,
    /// The further inputs, with the shapes that follow from the first input's.
    pub inputs: Vec<GraphInput>,
    /// Shape of the output.
    pub output: Vec<usize>,
    /// Element type of input, output and parameters.
    #[serde(serialize_with = "shown")]
    pub dtype: DType,
    /// The normal form of the graph's computation, if all layers together have one.
    pub normal_form: Option<String>,
    /// The device properties for which kernels were chosen.
    pub properties: DeviceProperties,
    /// The regions: groups of layers that run together.
    #[serde(serialize_with = "regions")]
    pub regions: Vec<RegionFacts>,
    /// The launches, in order.
    pub launches: Vec<LaunchFacts>,
    /// Bytes of memory beyond inputs, output and parameters.
    pub workspace_bytes: u64,
    /// Bytes of inputs, output and parameters, each once.
    pub bytes: u64,
    /// Floating-point operations of the convolutions, two for each multiply-add.
    pub flop: u64,
    /// A lower bound of the run time by the roofline model, in seconds, from the device's data sheet. It is
    /// the longest of three: all bytes once through memory, the multiply-adds (three times as many for
    /// accurate f32), and 5 us for a launch. `None` if the device's rates are unknown.
    pub least_s: Option<f64>,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchFacts {
    /// The kernel's symbol.
    pub kernel: &'static str,
    /// The number of blocks of the grid.
    pub blocks: u64,
    /// The number of threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// A lower bound of the bytes that the launch reads and writes, as the operator declares it.
    pub bytes_moved: u64,
}

fn shown<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

fn regions<S: Serializer>(regions: &[RegionFacts], serializer: S) -> Result<S::Ok, S::Error> {
    let considered = |considered: &Considered| {
        let (verdict, reason) = match &considered.verdict {
            Verdict::Taken => ("taken", None),
            Verdict::Passed(reason) => ("passed", Some(reason)),
            Verdict::Refused(rule) => ("refused", Some(rule)),
        };
        let Considered {
            layers, kernels, ..
        } = considered;
        json!({ "layers": layers, "kernels": kernels, "verdict": verdict, "reason": reason })
    };
    serializer.collect_seq(regions.iter().map(|region| {
        json!({
            "layers": region.layers,
            "value": region.value,
            "kernels": region.kernels,
            "summary": region.summary,
            "reads": region.reads.to_string(),
            "writes": region.writes.to_string(),
            "config": region.config,
            "launches": region.launches,
            "preparations": region.preparations,
            "bytes": region.bytes,
            "flop": region.flop,
            "least_s": region.least_s,
            "considered": region.considered.iter().map(considered).collect::<Vec<_>>(),
        })
    }))
}

impl Explanation {
    /// Returns the kernels that would run a graph whose parameters, inputs and output have this element type,
    /// for a first input of this shape, on a device of these properties. The result depends on these
    /// arguments alone: nothing is computed, and the device need not be present.
    ///
    /// # Errors
    /// [`Error::Graph`](crate::Error::Graph) for an input that the graph refuses;
    /// [`Error::NoKernels`](crate::Error::NoKernels) for a partition that no kernels implement.
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench85;
    /// use convfuse::model::Explanation;
    /// use convfuse::{DType, DeviceProperties, Options};
    ///
    /// let chain = KernelBench85::default().chain()?;
    /// let h200 = DeviceProperties::named("h200")?;
    /// let input = [128, 8, 128, 128];
    /// let explanation = Explanation::of(&chain, DType::F16, &input, &Options::default(), &h200)?;
    /// assert_eq!(explanation.regions[0].kernels, "one-launch-2d");
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn of(
        graph: impl AsRef<Graph>,
        dtype: DType,
        input: &[usize],
        options: &Options,
        properties: &DeviceProperties,
    ) -> Result<Explanation> {
        let graph = graph.as_ref();
        let query = Query {
            graph,
            problem: &graph.problem(input)?,
            dtype,
            orders: &vec![Order::Dense; 1 + graph.inputs().len()],
            given: &[],
            read_as: &[],
            properties,
            options,
        };
        Explanation::of_query(query)
    }

    /// Explains a query.
    pub(super) fn of_query(query: Query<'_>) -> Result<Explanation> {
        let (chosen, program) = lowering::planned(query)?;
        Ok(Explanation::new(query, chosen, &program))
    }

    pub(super) fn new(query: Query<'_>, chosen: Vec<Chosen>, program: &Program) -> Explanation {
        let (graph, problem, dtype) = (query.graph, query.problem, query.dtype);
        let work = Work::of_all(graph, problem, dtype);
        let least_s = query.least_s(work).map(|least| least.max(LAUNCH_S));
        let launch = |step: &Step| LaunchFacts {
            kernel: step.kernel,
            blocks: step.shape.grid.map(u64::from).iter().product(),
            threads: step.shape.block.iter().product(),
            shared_bytes: step.shape.shared_bytes,
            bytes_moved: step.bytes_moved,
        };
        let form = match graph.paths() {
            [path] => NormalForm::of(problem, path.iter().copied()).ok(),
            _ => None,
        };
        Explanation {
            layers: graph.operators(),
            input: problem.input_shape().to_vec(),
            inputs: problem.inputs.clone(),
            output: problem.output_shape().to_vec(),
            dtype,
            normal_form: form.map(|form| form.summary().to_string()),
            properties: *query.properties,
            regions: chosen.into_iter().map(|region| region.facts).collect(),
            launches: program.steps().iter().map(launch).collect(),
            workspace_bytes: program.workspace_bytes(),
            bytes: work.bytes,
            flop: work.flop,
            least_s,
        }
    }
}

/// Calls `f` with a query of a graph. The first input has this shape, and lies in memory as if its axes came
/// in the order `axes`, outermost first. The further inputs are dense.
#[cfg(any(test, feature = "lab"))]
fn with_axes<R>(
    graph: &Graph,
    dtype: DType,
    input: &[usize],
    axes: &[usize],
    options: &Options,
    properties: &DeviceProperties,
    f: impl FnOnce(Query<'_>) -> Result<R>,
) -> Result<R> {
    let mut orders = vec![Order::Dense; 1 + graph.inputs().len()];
    orders[0] = Order::of_axes(input, axes)?;
    let query = Query {
        graph,
        problem: &graph.problem(input)?,
        dtype,
        orders: &orders,
        given: &[],
        read_as: &[],
        properties,
        options,
    };
    f(query)
}

/// Explains a first input of this shape on a device of these properties. It lies in memory as if its axes
/// came in the order `axes`, outermost first. The further inputs are dense.
///
/// # Errors
/// As [`Explanation::of`].
#[cfg(any(test, feature = "lab"))]
pub fn explain_axes(
    graph: &Graph,
    dtype: DType,
    input: &[usize],
    axes: &[usize],
    options: &Options,
    properties: &DeviceProperties,
) -> Result<Explanation> {
    let explain = Explanation::of_query;
    with_axes(graph, dtype, input, axes, options, properties, explain)
}

/// Returns the launches of [`explain_axes`], a line each: kernel, grid, block, shared memory, and all
/// arguments. Numbers stand for addresses.
///
/// # Errors
/// As [`explain_axes`].
#[cfg(any(test, feature = "lab"))]
pub fn launches_axes(
    graph: &Graph,
    dtype: DType,
    input: &[usize],
    axes: &[usize],
    options: &Options,
    properties: &DeviceProperties,
) -> Result<Vec<String>> {
    let launches = |query: Query<'_>| {
        let (_, program) = lowering::planned(query)?;
        let steps = program.steps().iter();
        Ok(steps.map(|step| format!("{step:?}")).collect())
    };
    with_axes(graph, dtype, input, axes, options, properties, launches)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { input, output, .. } = self;
        writeln!(
            f,
            "{}, {:?} to {:?}, {}",
            self.layers, input, output, self.dtype
        )?;
        let properties = &self.properties;
        writeln!(
            f,
            "device: {}: {}, {} multiprocessors, {} bytes of shared memory a block",
            properties.whose(),
            properties.arch.name(),
            properties.multiprocessors,
            properties.shared_bytes_per_block,
        )?;
        for GraphInput { name, shape, .. } in &self.inputs {
            writeln!(f, "input {name}: {shape:?}")?;
        }
        match &self.normal_form {
            Some(form) => writeln!(f, "normal form: {form}")?,
            None => writeln!(f, "normal form: none for all layers together")?,
        }
        for region in &self.regions {
            let RegionFacts {
                layers,
                value,
                kernels,
                summary,
                reads,
                writes,
                config,
                launches,
                preparations,
                bytes,
                flop,
                least_s,
                considered,
            } = region;
            writeln!(f)?;
            if !value.is_empty() {
                write!(f, "{value} = ")?;
            }
            writeln!(
                f,
                "{layers}: {kernels}, {summary}; reads {reads}, writes {writes}"
            )?;
            if !config.is_empty() {
                writeln!(f, "  {config}")?;
            }
            if !launches.is_empty() {
                writeln!(f, "  launches {}", launches.join(", "))?;
            }
            if !preparations.is_empty() {
                let kernels = preparations.join(", ");
                writeln!(f, "  prepares parameters once by {kernels}")?;
            }
            write!(f, "  {bytes} bytes")?;
            if *flop > 0 {
                write!(f, ", {:.3} GFLOP", *flop as f64 / 1e9)?;
            }
            match least_s {
                Some(least) => writeln!(f, ", at least {:.1} us", least * 1e6)?,
                None => writeln!(f)?,
            }
            let mut asked = layers;
            for considered in considered {
                if considered.layers != *asked {
                    asked = &considered.layers;
                    writeln!(f, "  for {asked}:")?;
                }
                writeln!(f, "  {:<26} {}", considered.kernels, considered.verdict)?;
            }
        }
        writeln!(f, "\nlaunches:")?;
        for launch in &self.launches {
            let blocks = if launch.blocks == 1 {
                "block"
            } else {
                "blocks"
            };
            writeln!(
                f,
                "  {}\n    {} {blocks} of {} threads, {} bytes of shared memory each, {} bytes moved",
                launch.kernel,
                launch.blocks,
                launch.threads,
                launch.shared_bytes,
                launch.bytes_moved,
            )?;
        }
        write!(
            f,
            "\n{} bytes of inputs, output and parameters, {} more of memory, {:.3} GFLOP of convolutions",
            self.bytes,
            self.workspace_bytes,
            self.flop as f64 / 1e9,
        )?;
        match self.least_s {
            Some(least) => write!(f, "; at least {:.1} us on this device", least * 1e6),
            None => Ok(()),
        }
    }
}

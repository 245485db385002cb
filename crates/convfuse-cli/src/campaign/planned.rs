//! Problems whose launches are planned but not run: of any size, for any device.

use convfuse::graph::Graph;
use convfuse::model::{Precision, Strategy};
use convfuse::{DType, DeviceProperties, Error, Options, lab};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::choices::Choices;
use super::families::{Family, Plan};

/// The target devices: both generations of tensor cores, with much and with little shared memory.
const DEVICES: [&str; 3] = ["h200", "a100", "rtx4090"];

/// The element types.
const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A graph, its input shape, and the options of its launch plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    device: String,
    dtype: String,
    precision: String,
    batch_invariant: bool,
    channels_last: bool,
    /// An index into [`Strategy::all`]; `None` for the default strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<usize>,
    input: Vec<usize>,
    graph: Graph,
}

impl Problem {
    /// Returns the launches, one per line with kernel, grid and all arguments, or the error as the only
    /// line.
    ///
    /// # Errors
    /// An unknown device, element type, precision or strategy.
    pub fn launches(&self) -> Result<Vec<String>, String> {
        let Self {
            device,
            dtype,
            precision,
            input,
            ..
        } = self;
        let properties = DeviceProperties::named(device).map_err(|error| error.to_string())?;
        let mut dtypes = DTYPES.into_iter();
        let dtype = dtypes
            .find(|known| known.to_string() == *dtype)
            .ok_or("no such element type")?;
        let precision: Precision = precision.parse().map_err(|_| "no such precision")?;
        let options = match self.strategy {
            None => Options::default(),
            Some(number) => {
                let strategies = Strategy::all(&self.graph);
                strategies.get(number).ok_or("no such strategy")?.options()
            }
        };
        let options = options
            .precision(precision)
            .batch_invariant(self.batch_invariant);
        let mut axes: Vec<usize> = (0..input.len()).collect();
        if self.channels_last {
            axes[1..].rotate_left(1);
        }
        let launches = lab::launches_axes(&self.graph, dtype, input, &axes, &options, &properties);
        Ok(launches.unwrap_or_else(|error: Error| vec![error.to_string()]))
    }
}

/// A problem with its recorded launches.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// A hash of all launches with their arguments.
    pub hash: String,
    /// The kernels of the launches, or the error.
    pub kernels: Vec<String>,
    /// The problem.
    pub problem: Problem,
}

impl Recorded {
    /// Records a problem with its launches.
    #[must_use]
    pub fn new(problem: Problem, launches: &[String]) -> Recorded {
        let kernel = |launch: &String| launch.split('"').nth(1).unwrap_or(launch).to_owned();
        Recorded {
            hash: format!("{:016x}", xxh3_64(launches.join("\n").as_bytes())),
            kernels: launches.iter().map(kernel).collect(),
            problem,
        }
    }

    /// Parses a text with one record per line.
    ///
    /// # Errors
    /// A line that is not a record.
    pub fn parse(text: &str) -> serde_json::Result<Vec<Recorded>> {
        text.lines().map(serde_json::from_str).collect()
    }

    /// Returns the record as a line of a file.
    ///
    /// # Panics
    /// Never: every record is JSON.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record is JSON")
    }
}

/// A randomly drawn problem.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The family.
    pub family: &'static Family,
    /// The choices that determine the problem.
    pub choices: Vec<u32>,
    /// The problem.
    pub problem: Problem,
}

impl Planned {
    /// Problem `number` of a seed; `None` if its layers form no graph.
    ///
    /// # Panics
    /// If `families` is empty.
    #[must_use]
    pub fn numbered(families: &[&'static Family], seed: u64, number: u64) -> Option<Planned> {
        let family = Family::of_number(families, number);
        Planned::drawn(family, Choices::random([seed, number, 0, 1], 1))
    }

    /// The problem that these choices determine.
    #[must_use]
    pub fn chosen(family: &'static Family, choices: Vec<u32>) -> Option<Planned> {
        Planned::drawn(family, Choices::given(choices))
    }

    /// A problem that differs in one choice.
    #[must_use]
    pub fn neighbour(&self, number: u64) -> Option<Planned> {
        let mut choices = self.choices.clone();
        let mut draw = Choices::random([number, choices.len() as u64, 2, 3], 1);
        let at = draw.within(0, choices.len().checked_sub(1)?);
        choices[at] = match draw.below(3) {
            0 => choices[at] + 1,
            1 => choices[at].saturating_sub(1),
            _ => draw.below(2 * choices[at] + 2),
        };
        Planned::chosen(self.family, choices)
    }

    fn drawn(family: &'static Family, choices: Choices) -> Option<Planned> {
        let mut choices = choices.of_any_size();
        let c = &mut choices;
        let dtype = c.of(DTYPES).to_string();
        let device = c.of(DEVICES).to_owned();
        let precision = c.of(Precision::ALL).to_string();
        let batch_invariant = !c.once_in(3);
        let channels_last = c.once_in(2);
        let plan = (family.draw)(c);
        let graph = plan.as_graph().ok()?;
        let Plan { mut input, .. } = plan;
        if c.once_in(50) {
            input[0] = 0;
        }
        // The graph as it is recorded: JSON has no infinity.
        let graph: Graph = serde_json::from_value(serde_json::to_value(graph).ok()?).ok()?;
        let strategies = Strategy::all(&graph).len() as u32;
        let strategy = (c.once_in(4) && strategies > 0).then(|| c.below(strategies) as usize);
        let channels_last = channels_last && input.len() > 2;
        Some(Planned {
            family,
            choices: c.taken().to_vec(),
            problem: Problem {
                device,
                dtype,
                precision,
                batch_invariant,
                channels_last,
                strategy,
                input,
                graph,
            },
        })
    }
}

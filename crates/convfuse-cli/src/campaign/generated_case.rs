//! A randomly generated case: layers, values, the input's memory layout, and the split of its batch.

use convfuse::graph::{GraphError, Layer};
use convfuse::{DType, Stream, Tensor, data, lab};
use ndarray::{ArrayD, ArrayViewMutD, Axis, IxDyn, ShapeBuilder, Slice};
use oracle::Case;

use super::choices::Choices;
use super::families::{Family, Plan};
use super::values;
use crate::execution_mode::round;

/// The memory layout of an input: its axes from outermost to innermost, the padding elements after each row
/// of each axis, and the offset of the first element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryLayout {
    axes: Vec<usize>,
    gaps: Vec<usize>,
    first: usize,
}

impl MemoryLayout {
    /// Draws a layout; `None`, in half of the cases, for dense NCHW. Of graphs that are no chains, a third of
    /// the inputs is channels-last.
    fn draw(c: &mut Choices, dimensions: usize, is_chain: bool) -> Option<MemoryLayout> {
        let mut axes: Vec<usize> = (0..dimensions).collect();
        let mut gaps = vec![0; dimensions];
        let mut first = 0;
        let kind = match is_chain {
            true => c.below(8),
            false => c.of([0, 4, 0, 4, 6, 7]),
        };
        match kind {
            0..=3 => return None,
            // Channels last.
            4 if dimensions > 2 => axes[1..].rotate_left(1),
            4 | 5 => first = c.within(1, 7),
            6 => gaps.fill_with(|| c.within(0, 2)),
            _ => {
                for at in (1..dimensions).rev() {
                    axes.swap(at, c.within(0, at));
                }
                gaps[0] = c.within(0, 1);
                first = c.within(0, 3);
            }
        }
        Some(MemoryLayout { axes, gaps, first })
    }

    /// Whether the layout is dense channels-last.
    pub(super) fn is_channels_last(&self) -> bool {
        let mut axes: Vec<usize> = (0..self.axes.len()).collect();
        axes[1..].rotate_left(1);
        self.axes == axes && self.first == 0 && self.gaps.iter().all(|&gap| gap == 0)
    }

    /// Uploads a tensor of these values in this layout. The padding elements are NaN.
    pub(super) fn upload(
        &self,
        stream: &Stream,
        values: &ArrayD<f32>,
        dtype: DType,
    ) -> convfuse::Result<Tensor> {
        let shape = values.shape();
        let mut strides = vec![0; shape.len()];
        let mut stride = 1;
        for (&axis, gap) in self.axes.iter().zip(&self.gaps).rev() {
            strides[axis] = stride;
            stride = stride * shape[axis] + gap;
        }
        let mut memory = vec![f32::NAN; self.first + stride];
        if !values.is_empty() {
            let laid_out = IxDyn(shape).strides(IxDyn(&strides));
            let elements = ArrayViewMutD::from_shape(laid_out, &mut memory[self.first..]);
            elements
                .expect("no two of them share memory")
                .assign(values);
        }
        let memory = ndarray::Array1::from(memory);
        let memory = Tensor::from_f32_array(stream, &memory, dtype)?;
        let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
        let laid_out = lab::as_strided(&memory, self.first, shape, &strides);
        Ok(laid_out.expect("the memory holds every element"))
    }
}

/// A case determined by random choices.
#[derive(Debug)]
pub struct GeneratedCase {
    /// Its family.
    pub family: &'static Family,
    /// The choices that determine the case.
    pub choices: Vec<u32>,
    /// The case, or the reason why its chain does not exist.
    pub(super) case: Result<Case, Box<Impossible>>,
    pub(super) dtype: DType,
    pub(super) layout: Option<MemoryLayout>,
    /// The number of samples in the first part of the split batch. If a part would be empty, the batch is
    /// computed only as a whole.
    pub(super) cut: usize,
    /// The index, modulo the number of modes, of the mode with bitwise checks.
    pub(super) look: usize,
    /// The seed of the emulator's thread order.
    pub(super) schedule: Option<u64>,
    /// A smaller input of the same layers, if they accept one.
    pub(super) another: Option<Case>,
}

/// A chain that is refused for any input.
#[derive(Debug)]
pub(super) struct Impossible {
    pub(super) layers: Vec<Layer>,
    pub(super) input: Vec<usize>,
    pub(super) refusal: GraphError,
}

impl GeneratedCase {
    /// Case `number` of a seed: the first attempt that costs at most `most`, as [`Case::cost`] counts it.
    /// Each attempt that costs more makes the next ones smaller. [`Family::of_number`] gives the family.
    /// `None` if no attempt is cheap enough.
    ///
    /// # Panics
    /// If `families` is empty.
    #[must_use]
    pub fn numbered(
        families: &[&'static Family],
        seed: u64,
        number: u64,
        most: u64,
    ) -> Option<GeneratedCase> {
        const ATTEMPTS: u64 = 16;
        let family = Family::of_number(families, number);
        (0..ATTEMPTS).find_map(|attempt| {
            let choices = Choices::random([seed, number, attempt, 0], 1 + attempt as i32 / 2);
            GeneratedCase::drawn(family, choices, most)
        })
    }

    /// The cost of a family's simplest case, as [`Case::cost`] counts it. A campaign with a lower limit has
    /// no case of the family. 0 if that case is refused.
    #[must_use]
    pub fn least_cost(family: &'static Family) -> u64 {
        let simplest = GeneratedCase::chosen(family, Vec::new(), u64::MAX);
        let case = simplest.and_then(|generated| generated.case.ok());
        case.map_or(0, |case| case.cost())
    }

    /// The case that these choices determine; `None` if it costs more than `most`.
    #[must_use]
    pub fn chosen(family: &'static Family, choices: Vec<u32>, most: u64) -> Option<GeneratedCase> {
        GeneratedCase::drawn(family, Choices::given(choices), most)
    }

    fn drawn(family: &'static Family, mut choices: Choices, most: u64) -> Option<GeneratedCase> {
        let c = &mut choices;
        let dtype = c.of([DType::F32, DType::F32, DType::F16, DType::BF16]);
        let schedule = match c.below(4) {
            0 => None,
            _ => Some(u64::from(c.below(1 << 16))),
        };
        let cut = c.within(0, 3);
        let plan = (family.draw)(c);
        let rank = plan.input.len();
        let layout = MemoryLayout::draw(c, rank, plan.graph.is_none());
        let name = format!("{}/{}", family.name, c.below(1 << 16));
        let case = match case(&name, plan, most)? {
            Ok(mut case) => {
                if !case.x.is_empty() {
                    values::draw(c, &mut case, dtype);
                }
                Ok(round(case, dtype))
            }
            Err(impossible) => Err(impossible),
        };
        // A multiple of most numbers of modes.
        let look = c.below(120) as usize;
        let fewer: Vec<usize> = (2..rank).map(|_| c.within(0, 5)).collect();
        let another = case.as_ref().ok().and_then(|case| smaller(case, &fewer));
        Some(GeneratedCase {
            family,
            choices: c.taken().to_vec(),
            case,
            dtype,
            layout,
            cut,
            look,
            schedule,
            another: another.map(|case| round(case, dtype)),
        })
    }

    /// Describes the case in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let of = |layers: &[Layer], input: &[usize]| format!("{layers:?} of {input:?}");
        let what = match &self.case {
            Ok(case) => {
                let what = of(case.graph.layers(), case.x.shape());
                match case.graph.outputs() {
                    [_, further @ ..] if !further.is_empty() => {
                        format!("{what}, with the outputs of layers {further:?}")
                    }
                    _ => what,
                }
            }
            Err(impossible) => of(&impossible.layers, &impossible.input),
        };
        let layout = match &self.layout {
            None => String::new(),
            Some(layout) => format!(", {layout:?}"),
        };
        let another = match &self.another {
            None => String::new(),
            Some(case) => format!(", then of {:?}", case.x.shape()),
        };
        let (dtype, cut) = (self.dtype, self.cut);
        format!("{what}, {dtype}{layout}, cut at {cut}{another}")
    }
}

/// The case with up to this many elements fewer along each spatial axis, which keeps at least one. `None` if
/// the input is not smaller, or if the graph refuses it.
fn smaller(case: &Case, fewer: &[usize]) -> Option<Case> {
    let mut x = case.x.clone();
    for (axis, &fewer) in (2..).zip(fewer) {
        let left = x.shape()[axis]
            .saturating_sub(fewer)
            .max(1)
            .min(x.shape()[axis]);
        x = x.slice_axis(Axis(axis), Slice::from(..left)).to_owned();
    }
    let is_smaller = !x.is_empty() && x.len() < case.x.len();
    let problem = case.graph.problem(x.shape()).ok().filter(|_| is_smaller)?;
    let shapes = problem.inputs.iter().map(|input| IxDyn(&input.shape));
    let inputs = (1..).zip(shapes);
    Some(Case {
        inputs: inputs
            .map(|(seed, shape)| data::signed(seed, shape))
            .collect(),
        x,
        ..case.clone()
    })
}

/// The case, if it costs no more than `most`. A case with a refused input costs nothing.
fn case(name: &str, plan: Plan, most: u64) -> Option<Result<Case, Box<Impossible>>> {
    let graph = plan.as_graph();
    let Plan { layers, input, .. } = plan;
    let graph = match graph {
        Ok(graph) => graph,
        Err(refusal) => {
            return Some(Err(Box::new(Impossible {
                layers,
                input,
                refusal,
            })));
        }
    };
    let cost = graph.problem(&input).map_or(0, |p| Case::cost_of(&p));
    (cost <= most).then(|| {
        Ok(match <[Layer; 1]>::try_from(layers) {
            // A single operator's inputs and parameters have values of both signs.
            Ok([layer]) => match Case::of_layer(name, layer, &input) {
                Ok(case) => case,
                Err(_) => Case::of_graph(name, graph, &input),
            },
            Err(_) => {
                let case = Case::of_graph(name, graph, &input);
                case.scaled(2.0).shifted(-1.0)
            }
        })
    })
}

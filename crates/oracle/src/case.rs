use ndarray::ArrayD;
use op_spec::graph::{Chain, Graph, GraphError, GraphProblem, Initialisation, Layer, Parameter};

use crate::{data, numbers, operators};

/// A named graph with its inputs and parameters.
#[derive(Clone, Debug)]
pub struct Case {
    /// The kind, a slash, and a name that is unique within a run: `clamp/nan_bound`.
    pub name: String,
    /// The graph of layers.
    pub graph: Graph,
    /// The values of the graph's parameters, in the order of its table.
    pub parameters: Vec<ArrayD<f32>>,
    /// The input.
    pub x: ArrayD<f32>,
    /// The values of the graph's further inputs, in their order; none for an input that the graph refuses.
    pub inputs: Vec<ArrayD<f32>>,
}

impl Case {
    /// A single layer. Input and parameters are in [-1, 1) and depend only on the name, so a case keeps its
    /// data when others are added or removed.
    ///
    /// # Errors
    /// See [`Chain::new`]. An input shape without a channel axis counts as one with 0 channels.
    pub fn of_layer(name: &str, layer: Layer, input: &[usize]) -> Result<Case, GraphError> {
        let of_channels = |axis: usize| {
            let channels = input.get(axis).copied().unwrap_or(0);
            Chain::new(channels, [layer.clone()])
        };
        // Without a batch, the first axis is the channel axis.
        let single = of_channels(0).ok().filter(|chain| chain.lacks_batch(input));
        let chain = single.map_or_else(|| of_channels(1), Ok)?;
        Ok(Self::made(
            name,
            chain.into(),
            |seed| data::signed(seed, input),
            |_, seed, index| op_spec::data::signed(seed, index),
        ))
    }

    /// A whole graph. The input is in [0, 1), further inputs are in [-1, 1). Convolutions have PyTorch's
    /// initial values. All other parameters are random with both signs, because half of the arithmetic would
    /// have no effect with ones and zeros. All values depend only on the name.
    #[must_use]
    pub fn of_graph(name: &str, graph: impl Into<Graph>, input: &[usize]) -> Case {
        let value = |parameter: &Parameter, seed, index| {
            let signed = op_spec::data::signed(seed, index);
            match parameter.initialisation {
                Initialisation::Ones => signed * 1.5,
                Initialisation::Zeros => signed * 0.5,
                Initialisation::Normal => signed * 2.0,
                Initialisation::Constant(_) => signed,
                // 30 bits keep the values from before the seed had 64 bits, when its product with four
                // streams lost two of 32.
                _ => parameter.initial(seed % (1 << 30), index),
            }
        };
        Self::made(name, graph.into(), |seed| data::fill(seed, input), value)
    }

    fn made(
        name: &str,
        graph: Graph,
        input: impl Fn(u64) -> ArrayD<f32>,
        value: impl Fn(&Parameter, u64, u64) -> f32,
    ) -> Case {
        // FNV-1a.
        let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        let mut seed = name.bytes().fold(0xCBF2_9CE4_8422_2325, hash);
        let mut next = || {
            seed = seed.wrapping_add(1);
            // The upper bits are dropped to keep the values for which the tests were chosen.
            u64::from(seed as u32)
        };
        let x = input(next());
        let parameters = graph.parameters().iter().map(|parameter| {
            let seed = next();
            // A variance is at least 0.1 plus the magnitude of a random number.
            let is_variance = parameter.name.ends_with(".running_var");
            data::generate(&parameter.shape, |index| {
                match (is_variance, value(parameter, seed, index)) {
                    (true, value) => 0.1 + value.abs(),
                    (false, value) => value,
                }
            })
        });
        let parameters = parameters.collect();
        let inputs = graph.problem(x.shape()).map_or(Vec::new(), |problem| {
            let inputs = problem.inputs.iter();
            inputs
                .map(|input| data::signed(next(), &input.shape[..]))
                .collect()
        });
        Case {
            name: name.to_owned(),
            parameters,
            graph,
            x,
            inputs,
        }
    }

    /// The kind of the case: the name of an operator or chain.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.name.split_once('/').map_or("", |(kind, _)| kind)
    }

    /// The shapes of all layers.
    ///
    /// # Errors
    /// The error of the first layer that refuses its input.
    pub fn problem(&self) -> Result<GraphProblem, GraphError> {
        self.graph.problem(self.x.shape())
    }

    /// The peak memory in bytes of creating a case of a graph and of checking results. The oracle allocates
    /// without limit, so this is for sizes that a user chooses. `None` if the number overflows.
    ///
    /// # Errors
    /// The error of the first layer that refuses its input.
    pub fn bytes_of_graph(graph: &Graph, input: &[usize]) -> Result<Option<usize>, GraphError> {
        Self::bytes_on_threads(graph, input, rayon::current_num_threads())
    }

    /// The same, for a given number of threads that check samples.
    pub(crate) fn bytes_on_threads(
        graph: &Graph,
        input: &[usize],
        threads: usize,
    ) -> Result<Option<usize>, GraphError> {
        let problem = graph.problem(input)?;
        let elements = |shape: &[usize]| {
            let product = |product: usize, &extent: &usize| product.checked_mul(extent);
            shape.iter().try_fold(1, product)
        };
        let count = || {
            let mut parameters = 0usize;
            for parameter in graph.parameters() {
                parameters = parameters.checked_add(elements(&parameter.shape)?)?;
            }
            let mut layer = 0;
            // Outputs of the paths before the last, which other paths read.
            let mut left = 0usize;
            let paths = graph.paths();
            for path in &paths[..paths.len() - 1] {
                let last = &problem.steps[path[path.len() - 1]];
                left = left.checked_add(elements(&last.output[1..])?)?;
            }
            for step in &problem.steps {
                let (x, y) = (elements(&step.input[1..])?, elements(&step.output[1..])?);
                // A padded copy of the input is counted in addition.
                let padded = elements(&operators::of(&step.problem).padded())?;
                layer = layer.max(x.checked_add(y)?.checked_add(padded)?);
            }
            let at_once = threads.min(input.first().copied().unwrap_or(1)).max(1);
            let mut inputs = elements(input)?;
            for input in &problem.inputs {
                inputs = inputs.checked_add(elements(&input.shape)?)?;
            }
            let mut outputs = 0usize;
            for output in problem.output_shapes() {
                outputs = outputs.checked_add(elements(output)?)?;
            }
            // Inputs and parameters: an f32 copy and a rounded one. Outputs: values, tolerances, and a copy
            // of each. A layer: values, tolerances and magnitudes of its input and output, and its
            // parameters.
            let single = inputs.checked_add(parameters)?.checked_mul(2)?;
            let double = outputs.checked_mul(4)?;
            let layers = layer.checked_add(parameters)?.checked_mul(4)?;
            let layers = layers.checked_add(left.checked_mul(2)?)?;
            let double = double.checked_add(layers.checked_mul(at_once)?)?;
            single.checked_mul(4)?.checked_add(double.checked_mul(8)?)
        };
        Ok(count())
    }

    /// The case with inputs and parameters rounded by `round`, for example to another element type.
    #[must_use]
    pub fn rounded(mut self, round: impl Fn(f32) -> f32) -> Case {
        self.x.mapv_inplace(&round);
        for values in self.parameters.iter_mut().chain(&mut self.inputs) {
            values.mapv_inplace(&round);
        }
        self
    }

    /// The case with `mean` added to its input.
    #[must_use]
    pub fn shifted(mut self, mean: f32) -> Case {
        self.x.mapv_inplace(|v| v + mean);
        self
    }

    /// The case with its input multiplied by `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: f32) -> Case {
        self.x.mapv_inplace(|v| v * factor);
        self
    }

    /// The case with NaN, infinities and zeros in its inputs. The first eighth of an input is special values
    /// in every pairing, [`numbers::special`]. In the rest they are scattered: some windows and groups have
    /// none, and some have infinities of both signs.
    #[must_use]
    pub fn special(mut self) -> Case {
        let strew = |seed, values: &mut ArrayD<f32>, [nan, plus, minus]: [usize; 3]| {
            let dense = values.len() / 8;
            for (index, v) in (1..).zip(values) {
                *v = match index {
                    i if i <= dense => numbers::special(seed, i),
                    i if i % nan == 3 => f32::NAN,
                    i if i % plus == 5 => f32::INFINITY,
                    i if i % minus == 7 => f32::NEG_INFINITY,
                    _ => *v,
                };
            }
        };
        strew(0, &mut self.x, [97, 89, 83]);
        for (seed, values) in (1..).zip(&mut self.inputs) {
            strew(seed, values, [79, 83, 89]);
        }
        self
    }

    /// The case with numbers at bounds, [`numbers::at_bounds`], as its inputs. Inputs have them in different
    /// orders.
    #[must_use]
    pub fn at_bounds(mut self) -> Case {
        let all = numbers::at_bounds();
        let inputs = [&mut self.x].into_iter().chain(&mut self.inputs);
        for (number, values) in inputs.enumerate() {
            let of = all.iter().cycle().skip(number * all.len() / 3);
            values.iter_mut().zip(of).for_each(|(v, of)| *v = *of);
        }
        self
    }

    /// The case with a single NaN, the 20th element of its input.
    #[must_use]
    pub fn poisoned(mut self) -> Case {
        if let Some(v) = self.x.iter_mut().nth(19) {
            *v = f32::NAN;
        }
        self
    }
}

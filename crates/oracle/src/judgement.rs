//! The expected outputs of a case, computed by its layers' operators in the graph's order.

use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{ArrayD, ArrayViewD, Axis, Slice, Zip};
use op_spec::GroupNormProblem;
use op_spec::graph::{GraphError, GraphProblem, LayerProblem, Operand, ShapedLayer};
use rayon::prelude::*;

use crate::bounded::store;
use crate::operators::{Given, arithmetic, cat, gate, group_norm};
use crate::{Bounded, Case, Expected, Precision, operators};

impl Case {
    /// The first output in float64, computed sample by sample.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn reference(&self) -> Result<ArrayD<f64>, GraphError> {
        let problem = self.problem()?;
        let parameters = self.wide_parameters();
        let mut y = ArrayD::zeros(&problem.steps[problem.outputs[0]].output[..]);
        let x = self.batched_x(&problem);
        let count = self.samples_at_a_time(&x);
        y.axis_chunks_iter_mut(Axis(0), count)
            .into_par_iter()
            .zip(x.axis_chunks_iter(Axis(0), count))
            .enumerate()
            .for_each(|(number, (mut y, x))| {
                let mut inputs = vec![x.mapv(f64::from)];
                let first = number * count;
                inputs.extend(self.wide_inputs(&problem, first..first + x.len_of(Axis(0))));
                let sample = self.walk(inputs, |index, x, others| {
                    let mut parameters = self.parameters_of(index, &parameters);
                    parameters.extend(others);
                    operators::of(&problem.steps[index].problem).reference(&x, &parameters)
                });
                y.assign(&sample[0]);
            });
        Ok(seen(y, &problem))
    }

    /// All outputs, with a tolerance for each element at `precision`.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn expected(&self, precision: &Precision) -> Result<Expected, GraphError> {
        self.expected_with_progress(precision, &|_, _| ())
    }

    /// As [`expected`](Self::expected), and reports to `progress` how many layers of samples are done, and
    /// of how many. Any thread may call it.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn expected_with_progress(
        &self,
        precision: &Precision,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Expected, GraphError> {
        let mut expected = self.expected_of(std::slice::from_ref(precision), progress)?;
        Ok(expected.remove(0))
    }

    /// The same for several precisions, with a single computation of the values.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn expected_at(&self, precisions: &[Precision]) -> Result<Vec<Expected>, GraphError> {
        // Folding a scale changes the rounding of values.
        if precisions.len() > 1 && precisions.iter().any(|precision| precision.folds_scale) {
            return precisions
                .iter()
                .map(|precision| self.expected(precision))
                .collect();
        }
        self.expected_of(precisions, &|_, _| ())
    }

    /// The same for a single precision, or for several without a folded scale.
    fn expected_of(
        &self,
        precisions: &[Precision],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Expected>, GraphError> {
        let problem = self.problem()?;
        let parameters = self.wide_parameters();
        let x = self.batched_x(&problem);
        let count = self.samples_at_a_time(&x);
        let parts = x.len_of(Axis(0)).div_ceil(count);
        let all = parts * problem.steps.len();
        let layers = AtomicUsize::new(0);
        let done = |count| progress(layers.fetch_add(count, Ordering::Relaxed) + count, all);
        let samples: Vec<Vec<Computed>> = (0..parts)
            .into_par_iter()
            .map(|number| {
                let samples = number * count..(number + 1) * count;
                let inputs = self.wide_inputs(&problem, samples.clone());
                let x = x.slice_axis(Axis(0), samples.into());
                self.computed(x, &problem, &parameters, inputs, precisions, &done)
            })
            .collect();
        let whole = |output: usize, of: &dyn Fn(&Computed) -> &ArrayD<f64>| {
            let shape = &problem.steps[problem.outputs[output]].output[..];
            let mut elements = Vec::with_capacity(shape.iter().product());
            for sample in &samples {
                let sample = of(&sample[output]).as_standard_layout();
                elements
                    .extend_from_slice(sample.as_slice().expect("standard layout is contiguous"));
            }
            let whole = ArrayD::from_shape_vec(shape, elements);
            seen(whole.expect("as many elements as the output has"), &problem)
        };
        let expected = precisions.iter().enumerate().map(|(index, precision)| {
            let outputs = problem.outputs.iter().enumerate().map(|(output, &layer)| {
                let bounded = Bounded {
                    values: whole(output, &|sample| &sample.values),
                    tolerance: whole(output, &|sample| &sample.tolerances[index]),
                };
                (self.graph.name_of(layer).to_owned(), bounded)
            });
            Expected::of_outputs(outputs, precision)
        });
        Ok(expected.collect())
    }

    /// The expected output of a single kernel that computes all layers and stores only the first output.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn expected_of_one_kernel(&self, precision: &Precision) -> Result<Expected, GraphError> {
        Ok(Expected::new(
            self.bounded_of_one_kernel(precision)?,
            precision,
        ))
    }

    /// The same as arrays.
    ///
    /// # Errors
    /// As [`problem`](Self::problem).
    pub fn bounded_of_one_kernel(&self, precision: &Precision) -> Result<Bounded, GraphError> {
        let problem = self.problem()?;
        let mut y = self.computed(
            self.batched_x(&problem),
            &problem,
            &self.wide_parameters(),
            self.wide_inputs(&problem, ..),
            &[precision.unstored()],
            &|_| (),
        );
        let y = y.swap_remove(0).bounded();
        let y = Bounded {
            values: seen(y.values, &problem),
            tolerance: seen(y.tolerance, &problem),
        };
        let selects = |step: &ShapedLayer| operators::of(&step.problem).selects();
        Ok(if problem.steps.iter().all(selects) {
            y
        } else {
            y.stored(precision)
        })
    }

    /// Computes the outputs of some samples. `done` is called with the number of additional completed
    /// layers.
    fn computed(
        &self,
        x: ArrayViewD<'_, f32>,
        problem: &GraphProblem,
        parameters: &[ArrayD<f64>],
        further: Vec<ArrayD<f64>>,
        precisions: &[Precision],
        done: &dyn Fn(usize),
    ) -> Vec<Computed> {
        let Bounded { values, .. } = Bounded::exact(x);
        let exact = |values: ArrayD<f64>| Computed {
            tolerances: vec![ArrayD::zeros(values.shape()); precisions.len()],
            values,
        };
        let inputs = std::iter::once(values).chain(further).map(exact);
        let layer = |index: usize| problem.steps.get(index).map(|step| &step.problem);
        // A scale after a group norm, if it is folded into the norm's weight and bias.
        let folded = |index: usize| match (layer(index), layer(index + 1), precisions) {
            (Some(LayerProblem::GroupNorm(norm)), Some(LayerProblem::Scale(_)), [precision])
                if precision.folds_scale
                    && self.graph.operands(index + 1) == [Operand::Layer(index)] =>
            {
                Some((norm, precision))
            }
            _ => None,
        };
        self.walk(inputs.collect(), |index, x, others| {
            let of_layer = self.parameters_of(index, parameters);
            let y = if index
                .checked_sub(1)
                .is_some_and(|before| folded(before).is_some())
            {
                x
            } else if let Some((norm, precision)) = folded(index) {
                let scale = self.parameters_of(index + 1, parameters)[0];
                let x = x.bounded();
                x.through_folded(norm, &of_layer, scale, precision).into()
            } else {
                x.through(&problem.steps[index].problem, of_layer, others, precisions)
            };
            done(1);
            y
        })
    }

    /// Computes the graph's outputs. `layer` computes one layer from its index, first operand and other
    /// operands.
    fn walk<T: Clone>(&self, inputs: Vec<T>, mut layer: impl FnMut(usize, T, &[T]) -> T) -> Vec<T> {
        let (inputs_len, layers) = (inputs.len(), self.graph.layers().len());
        let slot = |operand: &Operand| match *operand {
            Operand::Input(input) => input,
            Operand::Layer(layer) => inputs_len + layer,
        };
        // The values of inputs and layers, and the number of remaining reads of each.
        let mut values: Vec<Option<T>> = inputs.into_iter().map(Some).collect();
        values.resize(inputs_len + layers, None);
        let mut reads = vec![0; values.len()];
        for index in 0..layers {
            let operands = self.graph.operands(index).iter();
            operands.for_each(|operand| reads[slot(operand)] += 1);
        }
        let outputs = self.graph.outputs().iter();
        let outputs = outputs.map(|&layer| inputs_len + layer);
        outputs.clone().for_each(|output| reads[output] += 1);
        for index in 0..layers {
            let (first, others) = self.graph.operands(index).split_first().expect("one");
            let mut read = |operand: &Operand| {
                let slot = slot(operand);
                reads[slot] -= 1;
                match reads[slot] {
                    0 => values[slot].take(),
                    _ => values[slot].clone(),
                }
                .expect("it was given before")
            };
            let x = read(first);
            let others: Vec<T> = others.iter().map(read).collect();
            values[inputs_len + index] = Some(layer(index, x, &others));
        }
        let taken = outputs.map(|output| values[output].take());
        taken.map(|y| y.expect("its layer was done")).collect()
    }

    /// The number of samples computed together: the whole batch if the samples depend on each other.
    fn samples_at_a_time(&self, x: &ArrayViewD<'_, f32>) -> usize {
        match self.graph.couples_samples() {
            true => x.len_of(Axis(0)).max(1),
            false => 1,
        }
    }

    /// The input as a batch. An input without a batch becomes a batch of one.
    fn batched_x(&self, problem: &GraphProblem) -> ArrayViewD<'_, f32> {
        match problem.is_batched {
            true => self.x.view(),
            false => self.x.view().insert_axis(Axis(0)),
        }
    }

    fn wide_parameters(&self) -> Vec<ArrayD<f64>> {
        let parameters = self.parameters.iter();
        parameters.map(|values| values.mapv(f64::from)).collect()
    }

    /// A range of samples of the further inputs.
    fn wide_inputs(&self, problem: &GraphProblem, samples: impl Into<Slice>) -> Vec<ArrayD<f64>> {
        let samples = samples.into();
        let part = |values: &ArrayD<f32>| match problem.is_batched {
            true => values.slice_axis(Axis(0), samples).mapv(f64::from),
            false => values.view().insert_axis(Axis(0)).mapv(f64::from),
        };
        self.inputs.iter().map(part).collect()
    }

    /// Selects the parameters of a layer.
    fn parameters_of<'a, T>(&self, layer: usize, parameters: &'a [T]) -> Vec<&'a T> {
        let slots = self.graph.parameters_of(layer).iter();
        slots.map(|&slot| &parameters[slot]).collect()
    }

    /// The multiplications of convolutions, and the elements that other layers read; 0 for a refused case.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.problem().map_or(0, |problem| Case::cost_of(&problem))
    }

    /// The same for a graph without a case.
    #[must_use]
    pub fn cost_of(problem: &GraphProblem) -> u64 {
        let steps = problem.steps.iter();
        let costs = steps.map(|step| operators::of(&step.problem).cost());
        costs.fold(0, u64::saturating_add)
    }
}

/// Removes the batch axis if the input has none.
fn seen(y: ArrayD<f64>, problem: &GraphProblem) -> ArrayD<f64> {
    match problem.is_batched {
        true => y,
        false => y.remove_axis(Axis(0)),
    }
}

impl Bounded {
    /// Applies a layer to these values, computed and stored with this precision.
    ///
    /// # Panics
    /// If values or parameters do not match the layer. The batch size may differ.
    #[must_use]
    pub fn through(
        self,
        layer: &LayerProblem,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> Self {
        let computed = Computed::from(self);
        computed
            .through(
                layer,
                parameters.to_vec(),
                &[],
                std::slice::from_ref(precision),
            )
            .bounded()
    }

    /// Applies a group norm and the following scale to these values, with the scale folded into the norm's
    /// weight and bias.
    fn through_folded(
        self,
        norm: &GroupNormProblem,
        parameters: &[&ArrayD<f64>],
        scale: &ArrayD<f64>,
        precision: &Precision,
    ) -> Self {
        let (values, tolerance) = group_norm::folded(norm, &self, parameters, scale, precision);
        let mut y = Self { values, tolerance };
        where_finite(&y.values, &mut y.tolerance);
        y.stored(precision)
    }
}

/// Values, with their tolerances at several precisions.
#[derive(Clone)]
struct Computed {
    values: ArrayD<f64>,
    tolerances: Vec<ArrayD<f64>>,
}

impl From<Bounded> for Computed {
    fn from(Bounded { values, tolerance }: Bounded) -> Computed {
        Computed {
            values,
            tolerances: vec![tolerance],
        }
    }
}

impl Computed {
    /// The values with the tolerances of the first precision.
    fn bounded(mut self) -> Bounded {
        Bounded {
            values: self.values,
            tolerance: self.tolerances.swap_remove(0),
        }
    }

    /// As [`Bounded::through`], with further operands that may have errors, too.
    fn through<'a>(
        self,
        layer: &LayerProblem,
        mut parameters: Vec<&'a ArrayD<f64>>,
        others: &'a [Computed],
        precisions: &[Precision],
    ) -> Computed {
        parameters.extend(others.iter().map(|other| &other.values));
        let (operator, parameters) = (operators::of(layer), &parameters[..]);
        let values = operator.reference(&self.values, parameters);
        let of = Given {
            x: &self.values,
            y: &values,
            parameters,
        };
        let mut tolerances = match (layer, others) {
            (LayerProblem::Arithmetic(problem), [residual]) => {
                let both = self.tolerances.iter().zip(&residual.tolerances);
                let both = both.zip(precisions).map(|((t, u), precision)| {
                    arithmetic::tolerance_of_both(problem.operation, &of, [t, u], precision)
                });
                both.collect()
            }
            (LayerProblem::Gate(_), [residual]) => {
                let both = self.tolerances.iter().zip(&residual.tolerances);
                let both = both.zip(precisions);
                both.map(|((t, u), precision)| gate::of_both(&of, [t, u], precision))
                    .collect()
            }
            (LayerProblem::Cat(problem), others) => {
                let each = self.tolerances.iter().enumerate();
                let each = each.map(|(index, t)| {
                    let others = others.iter().map(|other| &other.tolerances[index]);
                    cat::joined(problem, t, others)
                });
                each.collect()
            }
            _ => operator.tolerances(&of, self.tolerances, precisions),
        };
        for (tolerance, precision) in tolerances.iter_mut().zip(precisions) {
            where_finite(&values, tolerance);
            // The values of a selection are already representable.
            if !operator.selects() {
                store(&values, tolerance, precision);
            }
        }
        Computed { values, tolerances }
    }
}

/// Sets the tolerance of infinities and NaN to 0.
fn where_finite(values: &ArrayD<f64>, tolerance: &mut ArrayD<f64>) {
    Zip::from(tolerance)
        .and(values)
        .for_each(|tolerance, value| {
            if !value.is_finite() {
                *tolerance = 0.0;
            }
        });
}

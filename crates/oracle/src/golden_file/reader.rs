//! Creates a case from a file's description and tensors.

use std::collections::HashMap;
use std::path::Path;

use ndarray::ArrayD;
use op_spec::ClampSpec;
use op_spec::graph::{Chain, GraphError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::flaw::GoldenFlaw;
use super::tensors::Tensors;
use crate::case::Case;
use crate::data;
use crate::layers::{attributes_of, layer};

/// The description of a case.
#[derive(Deserialize)]
struct Header {
    op: String,
    attributes: Value,
    shapes: HashMap<String, Vec<usize>>,
    out_shape: Vec<usize>,
    out_mean: Option<f64>,
}

/// The output in a file.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Indices of the known elements; `None` if all are known.
    pub(crate) index: Option<Vec<usize>>,
    /// The known elements.
    pub(crate) values: Vec<f64>,
    /// The mean of the whole output, if only some elements are known.
    pub(crate) mean: Option<f64>,
}

impl Output {
    /// Divides all known values by `factor`.
    pub(crate) fn divide(&mut self, factor: f64) {
        for value in self.values.iter_mut().chain(&mut self.mean) {
            *value /= factor;
        }
    }
}

/// A golden file during reading.
pub(crate) struct Reader {
    /// The file's name.
    name: String,
    tensors: Tensors,
    header: Header,
    factor: f64,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, GoldenFlaw> {
        let tensors = Tensors::read(path)?;
        let text = tensors.metadata("case").ok_or(GoldenFlaw::NoCase)?;
        let header = serde_json::from_str(text).map_err(GoldenFlaw::Case)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            tensors,
            header,
            factor: 1.0,
        })
    }

    /// The file's name of the operator or chain.
    pub(crate) fn operator(&self) -> &str {
        &self.header.op
    }

    /// The divisor of the file's output.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    pub(crate) fn output(&mut self) -> Result<Output, GoldenFlaw> {
        let elements = elements(&self.header.out_shape)?;
        let index = self.index(elements)?;
        let shape = match &index {
            Some(index) => vec![index.len()],
            None => self.header.out_shape.clone(),
        };
        let values: ArrayD<f64> = self.tensors.take("out", &shape)?;
        Ok(Output {
            index,
            values: values.into_iter().collect(),
            mean: self.header.out_mean,
        })
    }

    /// Returns the shape of the output. Refuses tensors that were not used.
    pub(crate) fn finish(self) -> Result<Vec<usize>, GoldenFlaw> {
        self.tensors.finish()?;
        Ok(self.batched(self.header.out_shape.clone()))
    }

    fn index(&mut self, elements: usize) -> Result<Option<Vec<usize>>, GoldenFlaw> {
        if self.header.out_mean.is_none() {
            return Ok(None);
        }
        let shape = self.tensors.shape("index").unwrap_or(&[]).to_vec();
        let index: ArrayD<i64> = self.tensors.take("index", &shape)?;
        let inside = |index: i64| {
            let known = usize::try_from(index).ok();
            let known = known.filter(|&index| index < elements);
            known.ok_or(GoldenFlaw::Index { index, elements })
        };
        let index: Result<_, _> = index.into_iter().map(inside).collect();
        index.map(Some)
    }

    /// Creates the case of one layer. `attributes` are the defaults of the file's attributes.
    pub(crate) fn case(&mut self, operator: &str, attributes: &str) -> Result<Case, GoldenFlaw> {
        let layer = layer(operator, self.layer_attributes(attributes));
        let layers = [layer.map_err(GoldenFlaw::Case)?];
        let x = self.shape("x");
        let channels = x.first().copied().unwrap_or(0);
        // Without a batch, the first axis is the channel axis.
        let single = Chain::new(channels, layers.clone()).ok();
        let single = single.filter(|chain| chain.lacks_batch(&x));
        let chain = single.map_or_else(|| Chain::new(self.in_channels(), layers), Ok);
        self.chain_case(operator, chain)
    }

    /// The attributes as in chain files, including attributes derived from tensor shapes.
    fn layer_attributes(&mut self, attributes: &str) -> Map<String, Value> {
        let mut all = attributes_of(attributes);
        for (name, value) in self.header.attributes.as_object().into_iter().flatten() {
            let name = match name.as_str() {
                "kernel" => "kernel_size",
                "clamp_min" => "min",
                "clamp_max" => "max",
                // On a GPU, PyTorch replaces the division by 6 with a multiplication by 1/6 rounded to f32,
                // even in float64. A file from a GPU has this number. Its output, divided by six times the
                // number, is hardswish in float64 precision.
                "sixth" => {
                    self.factor = 6.0 * value.as_f64().unwrap_or(f64::NAN);
                    continue;
                }
                "x_seed" => continue,
                name => name,
            };
            all.insert(name.to_owned(), value.clone());
        }
        if let ("linear", [out_features, in_features]) =
            (&*self.header.op, &self.shape("weight")[..])
        {
            all.insert("in_features".to_owned(), json!(in_features));
            all.insert("out_features".to_owned(), json!(out_features));
            all.insert("bias".to_owned(), json!(self.has("bias")));
        } else if let [first, second, kernel_size @ ..] = &self.shape("weight")[..] {
            // In a transposed convolution's filter, the input channels precede the output channels of a
            // group.
            let out_channels = match self.header.op.starts_with("conv_transpose") {
                true => all.get("groups").and_then(Value::as_u64).unwrap_or(1) as usize * second,
                false => *first,
            };
            all.insert("out_channels".to_owned(), json!(out_channels));
            all.insert("kernel_size".to_owned(), json!(kernel_size));
            all.insert("bias".to_owned(), json!(self.has("bias")));
        }
        match &*self.header.op {
            "layer_norm" => {
                all.insert("elementwise_affine".to_owned(), json!(self.has("gamma")));
                all.insert("bias".to_owned(), json!(self.has("beta")));
            }
            "group_norm" | "instance_norm" | "batch_norm" => {
                all.insert("affine".to_owned(), json!(self.has("gamma")));
            }
            _ => {}
        }
        all
    }

    /// Creates the case of a chain, unless the chain was refused.
    pub(crate) fn chain_case(
        &mut self,
        kind: &str,
        chain: Result<Chain, GraphError>,
    ) -> Result<Case, GoldenFlaw> {
        let chain = chain.map_err(GoldenFlaw::Chain)?;
        let x = self.input()?;
        let problem = chain.problem(x.shape()).map_err(GoldenFlaw::Chain)?;
        let inputs = problem.inputs.iter().map(|input| {
            let name = name_of(&input.name);
            let values: ArrayD<f32> = self.tensors.take(name, &self.shape(name))?;
            let actual = values.shape().to_vec();
            let values = values.into_shape_with_order(&input.shape[..]);
            values.map_err(|_| GoldenFlaw::Shape {
                name: name.to_owned(),
                actual,
                expected: input.shape.clone(),
            })
        });
        let inputs = inputs.collect::<Result<_, GoldenFlaw>>()?;
        let parameters = chain.parameters().iter().map(|parameter| {
            let name = name_of(&parameter.name);
            let mut shape = parameter.shape.clone();
            // In a file, a factor per channel is a vector.
            if self
                .header
                .shapes
                .get(name)
                .is_some_and(|of_file| of_file.len() == 1)
            {
                shape.truncate(1);
            }
            let values = self.tensors.take(name, &shape)?;
            let values = values.into_shape_with_order(&parameter.shape[..]);
            Ok(values.expect("trailing extents of 1 change no count"))
        });
        let parameters = parameters.collect::<Result<_, GoldenFlaw>>()?;
        Ok(Case {
            name: format!("{kind}/{}", self.name),
            graph: chain.into(),
            parameters,
            x,
            inputs,
        })
    }

    /// Reads an attribute; an absent one counts as null.
    pub(crate) fn attribute<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Result<T, GoldenFlaw> {
        let value = self.header.attributes.get(name).unwrap_or(&Value::Null);
        T::deserialize(value).map_err(GoldenFlaw::Case)
    }

    /// The bounds of a clamp.
    pub(crate) fn clamp(&self) -> Result<ClampSpec, GoldenFlaw> {
        let bound = |name| self.attribute::<Option<f64>>(name);
        Ok(ClampSpec::new(bound("clamp_min")?, bound("clamp_max")?))
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.header.shapes.contains_key(name)
    }

    /// The number of input channels.
    pub(crate) fn in_channels(&self) -> usize {
        let shape = self.batched(self.shape("x"));
        shape.get(1).copied().unwrap_or(0)
    }

    /// The number of output channels, and the extents of the filter.
    pub(crate) fn filter<const D: usize>(&self) -> Result<(usize, [usize; D]), GoldenFlaw> {
        let shape = self.shape("weight");
        let extents = shape.get(2..).unwrap_or(&[]);
        let Ok(kernel_size) = extents.try_into() else {
            return Err(GoldenFlaw::Rank {
                tensor: "weight",
                actual: shape.len(),
                expected: D + 2,
            });
        };
        Ok((shape[0], kernel_size))
    }

    /// The input `x`, or the array of its seed if the file omits it.
    fn input(&mut self) -> Result<ArrayD<f32>, GoldenFlaw> {
        let shape = self.shape("x");
        elements(&shape)?;
        let x = if self.header.out_mean.is_none() {
            self.tensors.take("x", &shape)?
        } else {
            data::try_fill(self.attribute("x_seed")?, &shape).ok_or_else(|| too_large(&shape))?
        };
        let x = x.into_shape_with_order(self.batched(shape));
        Ok(x.expect("leading extents of 1 change no count"))
    }

    /// Prepends extents of 1, as many as a vector or scalar `x` requires to have a batch and channels.
    fn batched(&self, mut shape: Vec<usize>) -> Vec<usize> {
        let missing = 2_usize.saturating_sub(self.shape("x").len());
        shape.splice(0..0, vec![1; missing]);
        shape
    }

    /// The header's shape of tensor `name`, or that of a scalar if the header lacks it.
    fn shape(&self, name: &str) -> Vec<usize> {
        self.header.shapes.get(name).cloned().unwrap_or_default()
    }
}

/// The name of a parameter or further input in golden files.
fn name_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((layer, "weight")) if layer.ends_with("norm") => "gamma",
        Some((layer, "bias")) if layer.ends_with("norm") => "beta",
        Some((_, name)) => name,
        None => name,
    }
}

/// The number of elements of this shape.
fn elements(shape: &[usize]) -> Result<usize, GoldenFlaw> {
    // The product of the other extents must not overflow even if one extent is 0.
    let product = |total: usize, &extent: &usize| total.checked_mul(extent.max(1));
    let elements = shape.iter().try_fold(1, product);
    let elements = elements.filter(|&elements| elements <= op_spec::MAX_ELEMENTS);
    let elements = elements.ok_or_else(|| too_large(shape))?;
    Ok(if shape.contains(&0) { 0 } else { elements })
}

fn too_large(shape: &[usize]) -> GoldenFlaw {
    GoldenFlaw::TooLarge {
        shape: shape.to_vec(),
    }
}

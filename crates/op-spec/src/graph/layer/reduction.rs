//! Reductions as layers.

use alloc::vec::Vec;

use serde::de::DeserializeSeed;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::is_false;
use crate::reduction::{axes, operations};
use crate::{Dims, ReductionOp, ReductionSpec, SpecError};

macro_rules! of_operations {
    ($($(#[$doc:meta])* $Variant:ident = $name:ident,)+) => {
        impl Layer {$(
            $(#[$doc])*
            ///
            /// `dim` has the axes as PyTorch counts them. The output lacks these axes; see [`ReductionSpec`].
            #[must_use]
            pub const fn $name(dim: &[isize]) -> ReductionSpec {
                ReductionSpec::new(ReductionOp::$Variant, dim)
            }
        )+}
    };
}

operations!(of_operations);

/// The attributes in a file, under the operation's name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
struct File {
    dim: Dims,
    #[serde(default, skip_serializing_if = "is_false")]
    keepdim: bool,
}

/// A dimension, or a list of dimensions.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or a list of them")]
enum Dim {
    One(isize),
    Several(Vec<isize>),
}

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        Ok(match Dim::deserialize(file)? {
            Dim::One(dim) => Dims::new(&[dim]),
            Dim::Several(dims) => Dims::new(&dims),
        })
    }
}

impl Serialize for Dims {
    fn serialize<S: Serializer>(&self, file: S) -> Result<S::Ok, S::Error> {
        let dims: Vec<_> = self.iter().collect();
        let dim = match dims[..] {
            [dim] => Dim::One(dim),
            _ => Dim::Several(dims),
        };
        dim.serialize(file)
    }
}

#[doc(hidden)] // only for serde
impl<'de> DeserializeSeed<'de> for ReductionOp {
    type Value = ReductionSpec;

    fn deserialize<D: Deserializer<'de>>(self, file: D) -> Result<Self::Value, D::Error> {
        let File { dim, keepdim } = File::deserialize(file)?;
        Ok(ReductionSpec {
            operation: self,
            dim,
            keepdim,
        })
    }
}

impl Serialize for ReductionSpec {
    fn serialize<S: Serializer>(&self, file: S) -> Result<S::Ok, S::Error> {
        let attributes = File {
            dim: self.dim,
            keepdim: self.keepdim,
        };
        let mut layer = file.serialize_map(Some(1))?;
        layer.serialize_entry(self.operation.name(), &attributes)?;
        layer.end()
    }
}

/// Returns the number of axes that the output lacks.
fn lost(spec: &ReductionSpec) -> usize {
    match spec.keepdim {
        true => 0,
        false => spec.dim.iter().count(),
    }
}

impl GraphLayer for ReductionSpec {
    fn needs_channels(&self) -> bool {
        false
    }

    fn needs_batch(&self) -> bool {
        // An axis that is counted from the first one is a different axis without a batch.
        self.dim.iter().any(|dim| dim >= 0)
    }

    fn lost_dimensions(&self) -> Option<usize> {
        Some(lost(self))
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        // Axes that are counted from the first one are known without a rank.
        let rank = given.dimensions.map(|all| all + 2);
        let is_known = rank.is_some() || self.dim.back == 0;
        let axes = axes(
            self.operation.name(),
            self.dim,
            rank.unwrap_or(u64::BITS as usize),
        )?;
        let channels = match (is_known, axes >> 1 & 1) {
            (true, 0) => given.channels,
            (true, _) => self.keepdim.then_some(1),
            // Either the channels or another axis may be at index 1 of the output.
            (false, _) => None,
        };
        let lost = lost(self);
        Ok(Flow {
            channels: given.channels.and(channels),
            dimensions: given.dimensions.and_then(|all| all.checked_sub(lost)),
        })
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = self.problem(input)?;
        let output = problem.output_shape(input);
        Ok((LayerProblem::Reduction(problem), output))
    }
}

//! What rows of the [table](super::table) are asked, and what they answer.

use std::fmt;
use std::ops::Range;

use op_spec::chain::{Chain, ChainProblem, Layer, NormalForm};

use super::Options;
use crate::device::{DType, DeviceProperties};

/// What kernels are chosen for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) chain: &'a Chain,
    pub(super) problem: &'a ChainProblem,
    pub(super) dtype: DType,
    pub(super) properties: &'a DeviceProperties,
    pub(super) options: &'a Options,
}

/// A run of layers that kernels are chosen for.
#[derive(Debug)]
pub(super) struct RunQuestion<'a> {
    pub(super) of: Question<'a>,
    pub(super) layers: Range<usize>,
    /// Nothing where the layers have none.
    pub(super) form: Option<NormalForm>,
}

impl Question<'_> {
    /// The names of the operators of these layers.
    pub(super) fn operators(&self, layers: Range<usize>) -> String {
        let layers = self.chain.layers()[layers].iter();
        layers.map(Layer::operator).collect::<Vec<_>>().join(" ")
    }
}

impl RunQuestion<'_> {
    /// The names of the operators whose kernels do the layers: that of `clamp` for every function that is a clamp, that of
    /// `group_norm` for a layer norm without weight and bias.
    pub(super) fn operators(&self) -> Vec<&'static str> {
        let layers = self.of.chain.layers()[self.layers.clone()].iter();
        let name = |layer: &Layer| match layer {
            Layer::Pointwise(function) if function.as_clamp().is_some() => "clamp",
            Layer::LayerNorm(norm) if !norm.elementwise_affine => "group_norm",
            layer => layer.operator(),
        };
        layers.map(name).collect()
    }

    /// Whether all layers are functions of single values.
    pub(super) fn are_functions(&self) -> bool {
        let mut layers = self.of.chain.layers()[self.layers.clone()].iter();
        layers.all(|layer| matches!(layer, Layer::Pointwise(_)))
    }
}

/// A run of layers, and how its kernels were chosen.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFacts {
    /// The operators' names.
    pub layers: String,
    /// The row of the table that does it.
    pub kernels: &'static str,
    /// What that row is, in words.
    pub summary: &'static str,
    /// The rows that were asked, from top to bottom. Those for other layers are left out.
    pub considered: Vec<Considered>,
}

/// What a row of the table answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Considered {
    /// The row.
    pub kernels: &'static str,
    /// Its answer.
    pub verdict: Verdict,
}

/// An answer of a row of the table.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It does the run.
    Taken,
    /// It could do the run, but there is a better one: why.
    Passed(String),
    /// It cannot do the run: the rule that is broken.
    Refused(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Taken => f.write_str("yes"),
            Verdict::Passed(reason) => write!(f, "could, but: {reason}"),
            Verdict::Refused(rule) => write!(f, "no: {rule}"),
        }
    }
}

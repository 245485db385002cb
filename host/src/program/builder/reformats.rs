//! Reformatted inputs, which several implicit GEMMs may read.

use launch_config::implicit_gemm::GemmConfig;

use super::ProgramBuilder;
use crate::program::Value;

/// An input that a program has reformatted.
#[derive(Debug)]
pub(super) struct Reformat {
    x: Value,
    config: GemmConfig,
    /// The reformatted values, and the reciprocals of their scales.
    values: [Value; 2],
}

impl ProgramBuilder {
    /// Returns the reformatted values of `x` for a config that reformats like this one, if an earlier launch
    /// writes them.
    pub(crate) fn reformatted(&self, x: Value, config: &GemmConfig) -> Option<[Value; 2]> {
        let mut known = self.reformats.iter();
        let of = known.find(|of| of.x == x && of.config.reformats_alike(config));
        of.map(|of| of.values)
    }

    /// Records that a launch writes these values for `x`.
    pub(crate) fn reformats(&mut self, x: Value, config: &GemmConfig, values: [Value; 2]) {
        self.reformats.push(Reformat {
            x,
            config: *config,
            values,
        });
    }
}

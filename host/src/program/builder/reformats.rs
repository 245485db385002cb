//! Reformatted inputs, which several implicit GEMMs may read.

use launch_config::implicit_gemm::GemmConfig;

use super::ProgramBuilder;
use crate::program::Value;

/// An input that a program has reformatted.
#[derive(Debug)]
pub(super) struct Reformat {
    x: Value,
    kernel: &'static str,
    config: GemmConfig,
    /// The reformatted values, and the reciprocals of their scales.
    values: [Value; 2],
}

impl ProgramBuilder {
    /// Returns what `kernel` wrote for `x` and a config that reformats like this one, if it was launched.
    pub(crate) fn reformatted(
        &self,
        x: Value,
        kernel: &'static str,
        config: &GemmConfig,
    ) -> Option<[Value; 2]> {
        let mut known = self.reformats.iter();
        let is_it =
            |of: &&Reformat| (of.x, of.kernel) == (x, kernel) && of.config.reformats_alike(config);
        known.find(is_it).map(|of| of.values)
    }

    /// Records that `kernel` has written these values for `x`.
    pub(crate) fn reformats(
        &mut self,
        x: Value,
        kernel: &'static str,
        config: &GemmConfig,
        values: [Value; 2],
    ) {
        self.reformats.push(Reformat {
            x,
            kernel,
            config: *config,
            values,
        });
    }
}

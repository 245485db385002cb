//! Pools and reductions over channels after a producer, with or without a preceding norm.

use launch_config::KernelGeometry;

use super::super::epilogue::{Pool, ReducedChannels};
use super::super::produced::Produced;
use super::Appending;
use crate::error::Result;
use crate::operators::fused::group_norm_scale_pointwise::{Tail, normalise_and_map};
use crate::operators::fused::{
    clamp_multiply_channel_reduction, group_norm_scale_max_pool2d_clamp, max_pool2d_clamp,
    multiply_instance_norm_clamp_multiply_channel_reduction, scale_max_pool2d_clamp,
};
use crate::operators::pointwise;
use crate::operators::pointwise::steps;
use crate::program::Value;

impl Appending<'_> {
    pub(super) fn pool(&mut self, produced: &Produced, pool: &Pool) -> Result<Value> {
        let scale = pool.factors.map(|layer| self.first(layer));
        let input = match &pool.norm {
            Some((layer, norm)) => Some(self.statistics(produced, *layer, norm.geometry()?)?),
            None => None,
        };
        if let (Some(input), true) = (&input, pool.in_producer) {
            let tail = Tail {
                scale,
                list: &steps(&pool.functions),
                ..Tail::NONE
            };
            return normalise_and_map(self.program, input, tail);
        }
        let (bounds, rest) = pool.bounds_and_rest();
        let (program, x, of) = (&mut *self.program, produced.value(), &pool.pool);
        let pooled = match (input, scale) {
            (Some(input), scale) => {
                group_norm_scale_max_pool2d_clamp::append(program, &input, scale, of, bounds)?
            }
            (None, Some(scale)) => scale_max_pool2d_clamp::append(program, x, scale, of, bounds)?,
            (None, None) => max_pool2d_clamp::append(program, x, of, bounds)?,
        };
        pointwise::append(program, pooled, &steps(rest))
    }

    pub(super) fn reduce_channels(
        &mut self,
        produced: &Produced,
        of: &ReducedChannels,
    ) -> Result<Value> {
        let factors = self.first(of.factors);
        let ReducedChannels {
            norm,
            clamp,
            reduction,
            ..
        } = of;
        match norm {
            Some((layer, norm)) => {
                let input = self.statistics(produced, *layer, norm.geometry()?)?;
                multiply_instance_norm_clamp_multiply_channel_reduction::append(
                    self.program,
                    &input,
                    factors,
                    clamp,
                    reduction,
                )
            }
            None => {
                let x = produced.value();
                clamp_multiply_channel_reduction::append(self.program, x, factors, clamp, reduction)
            }
        }
    }
}

//! The model of KernelBench 85.

use libtest_mimic::Trial;

use crate::suite;

pub(crate) fn trials() -> Vec<Trial> {
    suite::of("conv2d_group_norm_scale_max_pool_clamp")
}

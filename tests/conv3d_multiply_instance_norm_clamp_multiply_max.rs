//! The model of KernelBench 79.

use libtest_mimic::Trial;

use crate::suite;

pub(crate) fn trials() -> Vec<Trial> {
    suite::of("conv3d_multiply_instance_norm_clamp_multiply_max")
}

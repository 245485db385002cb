//! KernelBench 79: conv3d, multiply, instance_norm, clamp, multiply, maximum over the channels.

use libtest_mimic::Trial;

use crate::suite;

pub(crate) fn trials() -> Vec<Trial> {
    suite::of("kernelbench_79")
}

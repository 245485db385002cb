//! Runs the [`oracle`]'s cases on a device, in every way that the library has for them. For the tests and the command
//! line, with which it leaves the library.

mod bridge;
mod way;

pub use bridge::{case_79, case_85};
pub use way::{Way, rounded};
#[cfg(test)]
pub(crate) mod bridge_test {
    use super::bridge::*;
    pub(crate) fn old(case: &oracle::Case) -> Option<ndarray::ArrayD<f32>> {
        Some(match pipeline(case)? {
            Pipeline::Of85(spec, weights) => crate::cpu::conv2d_group_norm_scale_max_pool_clamp(
                case.x.view().into_dimensionality().unwrap(),
                &weights,
                &spec,
            )
            .unwrap()
            .into_dyn(),
            Pipeline::Of79(spec, weights) => {
                crate::cpu::conv3d_multiply_instance_norm_clamp_multiply_max(
                    case.x.view().into_dimensionality().unwrap(),
                    &weights,
                    &spec,
                )
                .unwrap()
                .into_dyn()
            }
        })
    }
}

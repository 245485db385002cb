//! Configs of the implicit GEMM without a norm.

use launch_config::implicit_gemm::{
    EpilogueKind, GemmConfig, ImplicitGemmGeometry, M32N128, OperandFormat, WARP_SPECIALIZED,
};
use op_spec::Conv3dSpec;

use crate::{AMPERE, HOPPER, conv};

const STORE: EpilogueKind = EpilogueKind::STORE;

/// Without a norm, only tiles whose kernels have a NaN/Inf fix-up pass are used, and there are no moments.
#[test]
fn convolutions_alone_take_tiles_that_end_results() {
    for device in [AMPERE, HOPPER] {
        for (channels, extents) in [(64, [3, 3]), (40, [3, 3]), (3, [7, 7]), (1, [5, 5])] {
            let [r, s] = extents;
            let weight = [64, channels, 1, r, s];
            let geometry = conv([4, channels, 1, 56, 56], weight, Conv3dSpec::default());
            let without_norm =
                |format| GemmConfig::new_without_norm(&geometry, format, &device, None, STORE);
            for format in [
                OperandFormat::STORED,
                OperandFormat::SCALED_F16,
                OperandFormat::BF16X3,
            ] {
                let without_norm = without_norm(format).expect("a tile");
                let any =
                    GemmConfig::with_tile(&geometry, None, format, &device, without_norm.tile);
                let any = any.expect("a tile");
                let stored = ImplicitGemmGeometry {
                    epilogue: STORE,
                    ..any.geometry
                };
                assert_eq!(without_norm.geometry, stored);
                assert!(without_norm.tile.has_store_epilogue(format));
                assert_eq!(without_norm.moment_elements(), 0);
                assert!(any.moment_elements() > 0);
            }
            assert!(without_norm(OperandFormat::F16X2).is_err());
        }
    }
}

/// A tile of 64 filters would be half empty, unless each filter makes two outputs.
#[test]
fn few_filters_of_scaled_f16_f32_take_a_small_tile_that_ends_results() {
    for device in [AMPERE, HOPPER] {
        for channels in [1, 3, 32] {
            let weight = [32, channels, 3, 3, 3];
            let geometry = conv([2, channels, 64, 64, 64], weight, Conv3dSpec::default());
            let without_norm = GemmConfig::new_without_norm(
                &geometry,
                OperandFormat::SCALED_F16,
                &device,
                None,
                STORE,
            );
            let without_norm = without_norm.expect("a tile");
            let is_warp_specialized = device.arch.has_warpgroup_mma() && channels > 1;
            let wanted = match is_warp_specialized {
                true => (WARP_SPECIALIZED, 2),
                false => (M32N128, 1),
            };
            let outputs = without_norm.geometry.outputs_d;
            assert_eq!((without_norm.tile, outputs), wanted);
        }
    }
}

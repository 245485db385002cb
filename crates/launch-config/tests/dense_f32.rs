//! Configs that read dense f32 in place.

use launch_config::implicit_gemm::sm90::TARGET_BYTES;
use launch_config::implicit_gemm::{EpilogueKind, GemmConfig, OperandFormat};
use op_spec::Conv3dSpec;

use crate::{HOPPER, conv};

/// The copy of a box needs a target that is a multiple of 128 bytes. Halo stages are in front of the staging
/// buffers; of these problems, some have an odd number of K-vectors in a halo tile.
#[test]
fn staging_buffers_are_aligned_for_boxes() {
    let mut converting = 0;
    for (channels, filters) in [(3, 64), (8, 32), (8, 64), (16, 64), (32, 128)] {
        for [d, h, w] in [
            [1, 64, 64],
            [1, 61, 60],
            [1, 33, 36],
            [8, 32, 32],
            [7, 20, 24],
        ] {
            for [t, r, s] in [[1, 3, 3], [1, 5, 5], [1, 2, 4], [3, 3, 3], [2, 3, 1]] {
                for (stride, padding) in [(1, 0), (1, 1), (2, 1)] {
                    if t > d {
                        continue;
                    }
                    let spec = Conv3dSpec::default().stride([1, stride, stride]);
                    let spec = spec.padding([0, padding.min(r / 2), padding.min(s / 2)]);
                    let problem = conv([64, channels, d, h, w], [filters, channels, t, r, s], spec);
                    let format = OperandFormat::SCALED_F16;
                    let any = GemmConfig::new_without_norm(
                        &problem,
                        format,
                        &HOPPER,
                        None,
                        EpilogueKind::STORE,
                    );
                    let Some(dense) = any.ok().and_then(|any| any.dense_in_place(&HOPPER)) else {
                        continue;
                    };
                    let mainloop = dense.mainloop_config(&HOPPER).expect("room");
                    assert!(
                        mainloop.staged_at.is_multiple_of(TARGET_BYTES),
                        "{problem:?}"
                    );
                    assert!(
                        mainloop.staged_bytes.is_multiple_of(TARGET_BYTES),
                        "{problem:?}"
                    );
                    converting += 1;
                }
            }
        }
    }
    assert!(converting > 100, "{converting}");
}

//! Error codes from a driver that may be newer than the bindings.

use cust::sys::CUresult;

/// Converts the driver's code to `cust`'s type. A code without a name in `CUresult` becomes
/// `CUDA_ERROR_UNKNOWN`, because a `CUresult` without a name is undefined behaviour. Use it for the results
/// of driver functions that [`symbol`](crate::symbol) returned.
pub fn known(code: u32) -> CUresult {
    match code {
        0..=8
        | 34
        | 100..=102
        | 200..=202
        | 205..=224
        | 300..=304
        | 400..=401
        | 500
        | 600
        | 700..=705
        | 708..=720
        | 800..=809
        | 900..=911
        | 999 => {
            // SAFETY: `code` is one of the values above, and `CUresult` (bindings of CUDA 11.4) has
            // a name for each of them.
            unsafe { std::mem::transmute::<u32, CUresult>(code) }
        }
        _ => CUresult::CUDA_ERROR_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_at_the_edges_of_each_range_keep_their_names() {
        for code in [
            0, 8, 34, 100, 102, 200, 202, 205, 224, 300, 304, 400, 401, 500, 600, 700, 705, 708,
            720, 800, 809, 900, 911, 999,
        ] {
            assert_eq!(known(code) as u32, code);
        }
        assert_eq!(known(304), CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    }

    #[test]
    fn codes_of_newer_drivers_become_unknown() {
        // 36 call requires newer driver, 226 unsupported device-side sync, 721 tensor memory leak,
        // 912 invalid cluster size: all later than the bindings.
        for code in [9, 36, 225, 226, 305, 721, 810, 912, 1000, u32::MAX] {
            assert_eq!(known(code), CUresult::CUDA_ERROR_UNKNOWN);
        }
    }
}

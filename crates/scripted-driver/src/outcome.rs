//! The result of a driver call.

/// A value, or the driver's error code.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const NO_BINARY_FOR_GPU: u32 = 209;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_SUPPORTED: u32 = 801;
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
pub(crate) const CAPTURE_UNMATCHED: u32 = 903;
pub(crate) const CAPTURE_UNJOINED: u32 = 904;
pub(crate) const CAPTURE_ISOLATION: u32 = 905;
pub(crate) const CAPTURED_EVENT: u32 = 907;

/// Returns whether a code makes its context unusable.
pub(crate) fn is_fatal(code: u32) -> bool {
    matches!(code, 4 | 214 | 220 | 700 | 702 | 709 | 710 | 714..=719)
}

/// Writes a result to the caller's pointer.
pub(crate) fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the driver's interface requires callers to pass a pointer to such a value.
    unsafe { place.write(value) };
    Ok(())
}

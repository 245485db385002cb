//! How much work the emulator can do in seconds.

/// The cost of a case that may be emulated, as [`oracle::Case::cost`] counts it.
///
/// The emulator checks every access of every thread: about a million of these take it a second in a release
/// build and several in a development build.
pub(crate) const EMULATED: u64 = if cfg!(debug_assertions) {
    600_000
} else {
    6_000_000
};

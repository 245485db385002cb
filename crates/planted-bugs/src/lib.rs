//! Do the checks check? See `tests/caught.rs`.

//! What becomes of results.

/// What a kernel does with results.
pub(super) trait TileEpilogue {
    /// Whether a norm follows, so that it writes moments besides. A value that is not finite makes its sample
    /// NaN anyway, so there is no fix-up.
    const HAS_NORM: bool;
    /// Whether the output is NHWC.
    const IS_NHWC: bool = false;
    /// Whether results are reduced.
    const IS_REDUCED: bool = false;
}

/// With moments for a norm, to NCHW.
pub(super) struct WithMoments;
/// Without a norm, to NCHW.
pub(super) struct Stored;
/// Without a norm, to NHWC.
pub(super) struct StoredNhwc;
/// Without a norm, reduced, to NCHW.
pub(super) struct Reduced;

impl TileEpilogue for WithMoments {
    const HAS_NORM: bool = true;
}

impl TileEpilogue for Stored {
    const HAS_NORM: bool = false;
}

impl TileEpilogue for StoredNhwc {
    const HAS_NORM: bool = false;
    const IS_NHWC: bool = true;
}

impl TileEpilogue for Reduced {
    const HAS_NORM: bool = false;
    const IS_REDUCED: bool = true;
}

//! PyTorch's defaults of attributes.

pub(super) const fn negative_slope() -> f64 {
    0.01
}

pub(super) const fn alpha() -> f64 {
    1.0
}

pub(super) const fn beta() -> f64 {
    1.0
}

pub(super) const fn threshold() -> f64 {
    20.0
}

pub(super) const fn min_val() -> f64 {
    -1.0
}

pub(super) const fn max_val() -> f64 {
    1.0
}

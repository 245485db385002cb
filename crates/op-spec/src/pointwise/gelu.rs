//! How GELU computes the normal distribution.

/// The computation of the normal distribution in [`gelu`](super::PointwiseSpec::Gelu).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum GeluApproximation {
    /// Exact, by the error function.
    #[default]
    None,
    /// An approximation by the hyperbolic tangent of `sqrt(2 / pi) * (x + 0.044715 x^3)`.
    Tanh,
}

//! The math modes of runs.

use serde::{Deserialize, Serialize};

/// The math mode of a convolution, which decides the units of a device that can compute it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MathMode {
    /// f32 with full precision.
    Accurate,
    /// f32 rounded to 11 significant bits, as tf32 is.
    Fast,
    /// f16 or bf16 operands, as stored.
    Half,
}

impl MathMode {
    /// The name of the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MathMode::Accurate => "accurate",
            MathMode::Fast => "fast",
            MathMode::Half => "half",
        }
    }
}

//! Reasons of kernels for refusing a problem.

use core::fmt;

use op_spec::Quantity;

/// A kernel's requirement on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The number is equal to this one.
    Is(usize),
    /// The number is at least this one.
    AtLeast(usize),
    /// The number is at most this one.
    AtMost(usize),
}

/// A kernel's requirement that a problem, or a device, does not fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A requirement on a number.
    Number {
        /// The quantity.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The requirement.
        rule: Rule,
    },
    /// The kernel computes other layers.
    Layers {
        /// The kernel's layers.
        expected: &'static str,
    },
    /// Another requirement, as a sentence without a subject: `needs warpgroup MMA`.
    Needs(&'static str),
}

impl Refusal {
    /// Refuses a number that is not `expected`.
    ///
    /// # Errors
    /// The refusal of any other number.
    pub fn unless_is(quantity: Quantity, actual: usize, expected: usize) -> Result<(), Refusal> {
        Self::unless(actual == expected, quantity, actual, Rule::Is(expected))
    }

    /// Refuses a number above `limit`.
    ///
    /// # Errors
    /// The refusal of a larger number.
    pub fn unless_at_most(quantity: Quantity, actual: usize, limit: usize) -> Result<(), Refusal> {
        Self::unless(actual <= limit, quantity, actual, Rule::AtMost(limit))
    }

    /// Refuses a number below `limit`.
    ///
    /// # Errors
    /// The refusal of a smaller number.
    pub fn unless_at_least(quantity: Quantity, actual: usize, limit: usize) -> Result<(), Refusal> {
        Self::unless(actual >= limit, quantity, actual, Rule::AtLeast(limit))
    }

    /// Refuses a list of numbers that differs from `expected`.
    ///
    /// # Errors
    /// The refusal of the first number that differs.
    pub fn unless_are(
        name: &'static str,
        actual: &[usize],
        expected: &[usize],
    ) -> Result<(), Refusal> {
        let mut pairs = actual.iter().zip(expected).enumerate();
        pairs.try_for_each(|(axis, (&actual, &expected))| {
            Self::unless_is(Quantity::entry(name, axis), actual, expected)
        })
    }

    fn unless(holds: bool, quantity: Quantity, actual: usize, rule: Rule) -> Result<(), Refusal> {
        if holds {
            return Ok(());
        }
        Err(Refusal::Number {
            quantity,
            actual,
            rule,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number {
                quantity,
                actual,
                rule,
            } => {
                write!(f, "{quantity} is {actual}, ")?;
                match rule {
                    Rule::Is(expected) => write!(f, "expected {expected}"),
                    Rule::AtLeast(limit) => write!(f, "minimum {limit}"),
                    Rule::AtMost(limit) => write!(f, "limit {limit}"),
                }
            }
            Self::Layers { expected } => write!(f, "the layers are not {expected}"),
            Self::Needs(what) => write!(f, "needs {what}"),
        }
    }
}

impl core::error::Error for Refusal {}

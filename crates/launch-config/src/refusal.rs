//! Why some kernels cannot take a problem.

use core::fmt;

use op_spec::Quantity;

/// What a kernel asks of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is this.
    Is(usize),
    /// It is this or more.
    AtLeast(usize),
    /// It is this or less.
    AtMost(usize),
}

/// The rule of a kernel that a problem, or a device, breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A number.
    Number {
        /// Which one.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// What the kernel asks of it.
        rule: Rule,
    },
    /// The layers are not the kernel's.
    Layers {
        /// Those that it does.
        expected: &'static str,
    },
    /// What else the kernel asks for, as a sentence without a subject: `needs warpgroup products`.
    Needs(&'static str),
}

impl Refusal {
    /// Refuses a number that is not `expected`.
    ///
    /// # Errors
    /// That number.
    pub fn unless_is(quantity: Quantity, actual: usize, expected: usize) -> Result<(), Refusal> {
        Self::unless(actual == expected, quantity, actual, Rule::Is(expected))
    }

    /// Refuses a number above `limit`.
    ///
    /// # Errors
    /// That number.
    pub fn unless_at_most(quantity: Quantity, actual: usize, limit: usize) -> Result<(), Refusal> {
        Self::unless(actual <= limit, quantity, actual, Rule::AtMost(limit))
    }

    /// Refuses a number below `limit`.
    ///
    /// # Errors
    /// That number.
    pub fn unless_at_least(quantity: Quantity, actual: usize, limit: usize) -> Result<(), Refusal> {
        Self::unless(actual >= limit, quantity, actual, Rule::AtLeast(limit))
    }

    /// Refuses a list of numbers that are not `expected`.
    ///
    /// # Errors
    /// The first that is not.
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

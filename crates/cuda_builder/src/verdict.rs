//! The reasons for rejecting compilers.

use std::fmt;
use std::path::PathBuf;

/// The oldest supported compiler, as major and minor version.
pub(crate) const MINIMUM_VERSION: (u32, u32) = (1, 95);

/// A place without a usable compiler.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejected {
    /// A description of the place, such as "active rustc".
    pub place: String,
    /// The compiler there.
    pub rustc: PathBuf,
    /// The reason for rejecting the compiler.
    pub verdict: Verdict,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.place, self.rustc.display())?;
        match &self.verdict {
            Verdict::DoesNotRun(reason) => write!(f, "does not run ({reason})"),
            Verdict::TooOld(version) => {
                let (major, minor) = MINIMUM_VERSION;
                write!(f, "is {version}, older than {major}.{minor}")
            }
            Verdict::NoSources(expected) => write!(f, "no {}", expected.display()),
        }
    }
}

/// The reason for rejecting a compiler.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The compiler does not exist, or is not rustc.
    DoesNotRun(String),
    /// The compiler is older than the oldest supported one.
    TooOld(String),
    /// The sources of `core` are not at this path.
    NoSources(PathBuf),
}

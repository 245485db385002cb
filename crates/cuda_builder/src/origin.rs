//! The origin of kernels, and the notice that a build prints about it.

use std::fmt;

use crate::{Error, ShippedHeader, Toolchain};

/// The origin of modules.
#[derive(Debug)]
pub enum Origin {
    /// The modules were compiled in this build.
    Compiled {
        /// The compiler.
        toolchain: Toolchain,
        /// Whether the sources differ from the sources of the shipped modules. If not, a setting asked for
        /// compiling.
        stale: bool,
    },
    /// The modules are the shipped ones.
    Shipped {
        /// The header of the shipped modules.
        header: ShippedHeader,
        /// Whether the sources have changed since the modules were shipped.
        stale: bool,
        /// The error that prevented compiling, if fresh modules were wanted.
        reason: Option<Error>,
    },
}

impl Origin {
    /// Returns the warning for a build. There is none for shipped modules that match the sources.
    pub fn notice(&self) -> Option<String> {
        let why = match self {
            Origin::Compiled { stale: true, .. } => {
                "their sources differ from those of the shipped ones".to_owned()
            }
            Origin::Compiled { stale: false, .. } => "a setting asks for it".to_owned(),
            Origin::Shipped {
                stale: true,
                reason: Some(reason),
                ..
            } => format!("of older sources than these: {reason}"),
            Origin::Shipped {
                reason: Some(Error::ToolchainDisabled) | None,
                ..
            } => return None,
            Origin::Shipped {
                reason: Some(reason),
                ..
            } => reason.to_string(),
        };
        Some(format!("kernels: {self}; {why}"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Compiled { toolchain, .. } => write!(f, "compiled with {toolchain}"),
            Origin::Shipped { header, .. } => {
                write!(f, "shipped, compiled with {}", header.compiler)
            }
        }
    }
}

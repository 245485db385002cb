//! Where kernels come from, and what a build says of it.

use std::fmt;

use crate::{Error, ShippedHeader, Toolchain};

/// Where modules come from.
#[derive(Debug)]
pub enum Origin {
    /// They were compiled just now.
    Compiled {
        /// The compiler.
        toolchain: Toolchain,
        /// Whether the sources differ from those of the shipped modules. If not, a setting asked for it.
        stale: bool,
    },
    /// They are the shipped ones.
    Shipped {
        /// Their header.
        header: ShippedHeader,
        /// Whether the sources have changed since.
        stale: bool,
        /// What kept them from being compiled, where they were to be.
        reason: Option<Error>,
    },
}

impl Origin {
    /// The line that a build should warn with. There is none for the shipped modules of the sources at hand.
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

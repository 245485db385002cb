//! Failures and outcomes of commands.

use std::fmt;
use std::io;
use std::path::Path;

use convfuse::TensorFileError;
use convfuse::graph::{GraphError, PartitionError};
use convfuse_cli::bench::{CeilingsError, RecordError};
use convfuse_cli::{Status, told};
use oracle::golden::{GoldenError, GoldenFlaw};

/// The reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The reader of standard output has closed it.
    #[error("standard output was closed")]
    Closed,
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// The machine failed.
    #[error("{0}")]
    Machine(String),
}

/// The outcome of a command.
pub(super) type Outcome = Result<Status, Failure>;

impl Failure {
    pub(super) const fn status(&self) -> Status {
        match self {
            Failure::Closed => Status::Right,
            Failure::Refused(_) => Status::Refused,
            Failure::Machine(_) => Status::Failed,
        }
    }

    fn new(status: Status, text: String) -> Failure {
        match status {
            Status::Failed => Failure::Machine(text),
            _ => Failure::Refused(text),
        }
    }

    /// An operating system error about a file.
    pub(super) fn of_file(path: &Path, error: &io::Error) -> Failure {
        let text = format!("{}: {error}", path.display());
        Failure::new(Status::of_io(error), text)
    }

    /// Prefixes the message with the name of the failing part.
    pub(super) fn of(self, part: impl fmt::Display) -> Failure {
        match self {
            Failure::Closed => Failure::Closed,
            Failure::Refused(text) => Failure::Refused(format!("{part}: {text}")),
            Failure::Machine(text) => Failure::Machine(format!("{part}: {text}")),
        }
    }
}

impl From<convfuse::Error> for Failure {
    fn from(error: convfuse::Error) -> Failure {
        Failure::new(Status::of(&error), told(&error))
    }
}

impl From<CeilingsError> for Failure {
    fn from(error: CeilingsError) -> Failure {
        match error {
            CeilingsError::Library(error) => error.into(),
            // A wrong result of a measuring kernel is the device's fault.
            other => Failure::Machine(told(&other)),
        }
    }
}

impl From<GoldenError> for Failure {
    fn from(error: GoldenError) -> Failure {
        let status = match &*error.flaw {
            GoldenFlaw::Folder(source) | GoldenFlaw::Read(source) => Status::of_io(source),
            _ => Status::Refused,
        };
        Failure::new(status, told(&error))
    }
}

impl From<TensorFileError> for Failure {
    fn from(error: TensorFileError) -> Failure {
        convfuse::Error::from(error).into()
    }
}

/// Implements conversions from errors that mean an invalid request.
macro_rules! refused {
    ($($error:ty => $told:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::Refused($told(&error))
            }
        }
    )*};
}

refused! {
    RecordError => told;
    GraphError => told;
    PartitionError => told;
    &str => ToString::to_string;
    String => ToString::to_string;
}

#[cfg(test)]
mod tests {
    use convfuse::{Device, Tensor, ops};
    use ndarray::arr2;

    use super::*;

    #[test]
    fn failures_name_their_causes_once() {
        let path = Path::new("file");
        let read = TensorFileError::Read {
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        };
        let absent = Failure::from(read).of("problem 1");
        let text = "problem 1: file: cannot be read: entity not found".to_owned();
        assert_eq!(absent, Failure::Refused(text));
        let memory = Failure::of_file(path, &io::ErrorKind::OutOfMemory.into());
        assert_eq!(memory.status(), Status::Failed);
    }

    #[test]
    fn two_emulators_are_told_apart() {
        let tensor = || {
            let stream = Device::emulator().stream().unwrap();
            Tensor::from_array(&stream, &arr2(&[[1.0f32]])).unwrap()
        };
        let error = ops::add(&tensor(), &tensor()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("is on emulator, must be on another emulator"),
            "{text}"
        );
    }
}

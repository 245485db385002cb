//! The exit status of the program.

use std::io;

use convfuse::{Error, TensorFileError};
use serde::{Serialize, Serializer};

/// The outcome of a command, or of one run. Its number, here and in JSON, is the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// 0: success.
    #[default]
    Right = 0,
    /// 1: a result is wrong, or differs from the expected one by more than the tolerance.
    Wrong = 1,
    /// 2: the request is invalid: an option, a shape, an attribute, a file.
    Refused = 2,
    /// 3: the machine failed: a device is missing or lost, memory is exhausted, a disk failed.
    Failed = 3,
}

impl Status {
    /// The exit status.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Combines the outcomes of two parts of a command: a wrong result outweighs a failed machine, which
    /// outweighs an invalid request.
    #[must_use]
    pub fn and(self, other: Status) -> Status {
        use Status::{Failed, Refused, Right, Wrong};
        let weights = [Right, Refused, Failed, Wrong];
        std::cmp::max_by_key(self, other, |one| weights.iter().position(|two| one == two))
    }

    /// Classifies an error of the library.
    #[must_use]
    pub fn of(error: &Error) -> Status {
        match error {
            Error::NoDriver { .. }
            | Error::NoSuchDevice { .. }
            | Error::TooOld { .. }
            | Error::Jit { .. }
            | Error::MissingKernel { .. }
            | Error::NoInstance { .. }
            | Error::OutOfMemory { .. }
            | Error::Launch(_)
            | Error::Driver(_)
            | Error::Emulator(_)
            | Error::Forked => Status::Failed,
            Error::Weights(
                TensorFileError::Read { source, .. } | TensorFileError::Write { source, .. },
            ) => Status::of_io(source),
            _ => Status::Refused,
        }
    }

    /// Classifies an error of the operating system. A missing or inaccessible file is an invalid request,
    /// not a failed machine.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Status {
        use io::ErrorKind::{
            AlreadyExists, InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory,
            NotFound, PermissionDenied, ReadOnlyFilesystem, UnexpectedEof, Unsupported,
        };
        // `ErrorKind` has no stable name for a loop of symbolic links.
        if error.raw_os_error() == Some(libc::ELOOP) {
            return Status::Refused;
        }
        match error.kind() {
            AlreadyExists | InvalidData | InvalidFilename | InvalidInput | IsADirectory
            | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem | UnexpectedEof
            | Unsupported => Status::Refused,
            _ => Status::Failed,
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

/// Formats an error in one line. Appends each cause that the error's own text does not end with.
#[must_use]
pub fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.ends_with(&words) {
            text += ": ";
            text += &words;
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_outweighs_what_else_happened() {
        use Status::{Failed, Refused, Right, Wrong};
        assert_eq!(
            [Right, Wrong, Refused, Failed].map(Status::code),
            [0, 1, 2, 3]
        );
        assert_eq!(Right.and(Refused).and(Failed), Failed);
        assert_eq!(Failed.and(Refused), Failed);
        assert_eq!(Failed.and(Wrong).and(Failed), Wrong);
    }

    #[test]
    fn errors_are_the_users_or_the_machines() {
        let absent = convfuse::Parameters::load(
            convfuse::graph::Chain::new(1, [convfuse::graph::Layer::relu()]).unwrap(),
            "/absent/file",
        );
        let absent = Error::from(absent.unwrap_err());
        assert_eq!(Status::of(&absent), Status::Refused);
        assert!(told(&absent).contains("No such file"));
        let none = Error::NoDriver {
            reason: String::new(),
        };
        assert_eq!(Status::of(&none), Status::Failed);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Status::of_io(&full), Status::Failed);
        assert_eq!(
            Status::of_io(&io::ErrorKind::IsADirectory.into()),
            Status::Refused
        );
    }
}

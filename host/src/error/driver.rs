//! Errors of the CUDA driver.

/// A failed driver call, with the driver's name for the error.
///
/// The text is stored, so it can be printed on machines without a driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{call} failed with {name} ({code}){}", if self.is_fatal() { ": the device is lost to this process" } else { "" })]
pub struct DriverError {
    /// The driver function, or cust's name for the step.
    pub call: &'static str,
    /// The driver's error code.
    pub code: u32,
    /// The name of the error code.
    pub name: String,
}

impl DriverError {
    /// Codes after which the process's context, or the device, is unusable.
    const FATAL: [u32; 15] = [
        4,   // deinitialised
        214, // uncorrectable ECC error
        220, // uncorrectable NVLink error
        226, // contained memory error
        700, // illegal address
        702, // launch timeout
        709, // context is destroyed
        710, // assert
        714, // hardware stack error
        715, // illegal instruction
        716, // misaligned address
        717, // invalid address space
        718, // invalid program counter
        719, // launch failed
        721, // tensor memory leak
    ];

    /// Creates the error of a driver call that the program itself makes, on memory or streams that it shares
    /// with this library.
    #[must_use]
    pub fn new(call: &'static str, code: u32, name: impl Into<String>) -> DriverError {
        let name = name.into();
        DriverError { call, code, name }
    }

    /// See [`Error::is_fatal`](super::Error::is_fatal).
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        DriverError::FATAL.contains(&self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors after which CUDA refuses all further work of the process on the device.
    #[test]
    fn errors_of_a_lost_device_are_fatal() {
        let is_fatal = |code: &u32| DriverError::new("cuLaunchKernel", *code, "").is_fatal();
        let fatal: Vec<u32> = (0..1000).filter(is_fatal).collect();
        let of_memory = [214, 220, 226];
        let of_launches = [700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721];
        assert_eq!(fatal, [&[4][..], &of_memory, &of_launches].concat());
    }
}

//! Conversions into the library's [`Error`]: of other errors, and of a graph that has no kernels.

use op_spec::graph::Graph;

use super::{DriverError, Error};
use crate::host_memory::NoMemory;

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        Error::Driver(error)
    }
}

#[doc(hidden)] // kernels are no part of the interface
impl From<cuda_std::NoInstance> for Error {
    fn from(none: cuda_std::NoInstance) -> Error {
        let labels: Vec<String> = none.labels.iter().map(ToString::to_string).collect();
        Error::NoInstance {
            kernel: none.family,
            labels: labels.join(", "),
        }
    }
}

impl From<NoMemory> for Error {
    fn from(
        NoMemory {
            requested,
            available,
        }: NoMemory,
    ) -> Error {
        Error::OutOfMemory {
            device: "cpu".to_owned(),
            requested,
            available,
        }
    }
}

#[cfg(feature = "emulator")]
impl From<cuda_std::emulator::Fault> for Error {
    fn from(fault: cuda_std::emulator::Fault) -> Error {
        tracing::error!(target: "convfuse::fault", %fault, "the emulator stopped a kernel");
        // A fault is large; boxed, it keeps results small.
        Error::Emulator(Box::new(fault))
    }
}

impl Error {
    /// Returns the error for a graph that would run on the CPU device.
    pub(crate) fn no_kernels_on_cpu(graph: &Graph) -> Error {
        Error::NoKernels {
            layers: graph.operators(),
            asked: None,
            reasons: "the cpu device runs none; `explain_for` lists those of a GPU".to_owned(),
        }
    }
}

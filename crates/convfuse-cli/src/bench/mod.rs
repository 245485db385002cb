//! Benchmarks of models, compared with the limits of the device.
//!
//! A [`Description`] has the layers, an input shape and a seed; a [`Subject`] is the described model with
//! its input on a device. [`Subject::measure`] runs it under one set of options. It checks the output
//! against the float64 reference first, and times only correct runs: repeatedly, each after a cache flush,
//! into a [`Summary`]. [`Ceilings`] holds the device's peak rates, measured by kernels of this project. A
//! [`Report`] combines runs and ceilings. A [`Record`] is a report read from JSON, and a [`Comparison`]
//! lists the runs whose output bits or times changed since.
//!
//! # Examples
//! ```
//! use convfuse_cli::bench::{Description, Protocol, Subject};
//! use convfuse::graph::presets::KernelBench79;
//! use convfuse::model::{Precision, Strategy};
//! use convfuse::{DType, Device};
//!
//! let stream = Device::cpu().stream()?;
//! let attributes = KernelBench79::default();
//! let description = Description::of_79(&attributes, &[2, 3, 5, 6, 7], DType::F32, 0)?;
//! let subject = Subject::new(&stream, &description)?;
//! let expected = subject.expected(Precision::Accurate)?;
//! let mut protocol = Protocol::new(&stream)?;
//! protocol.repeats = 3;
//! let strategy = &Strategy::all(subject.graph())[0];
//! let run = subject.measure(strategy, &strategy.options(), Some(&expected), &mut protocol);
//! assert!(run.complaint.is_none());
//! println!("{:.1} us", run.time.expect("it was right").median * 1e6);
//! # Ok::<(), convfuse::Error>(())
//! ```

mod ceilings;
mod description;
mod math_mode;
mod measure;
mod peak;
mod profile;
mod protocol;
mod record;
mod report;
mod statistics;
mod subject;

pub use ceilings::Ceilings;
pub use description::{Description, written};
pub use math_mode::MathMode;
pub use measure::Run;
pub use peak::CeilingsError;
pub use profile::{Profile, RegionTime};
pub use protocol::Protocol;
pub use record::{
    Comparison, Finding, Record, RecordDevice, RecordError, RecordFlaw, RunComparison,
};
pub use report::{Problem, Report, Score};
pub use statistics::Summary;
pub use subject::Subject;

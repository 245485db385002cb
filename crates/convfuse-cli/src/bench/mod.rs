//! How fast the pipelines run, and how fast they could.
//!
//! A [`Description`] is of a chain, an input's shape and a seed, and a [`Subject`] is what it describes, on a
//! device. [`Subject::measure`] runs it under one set of options: the output is checked against the float64
//! reference first, so that only right answers are timed, then the run is repeated after a flush of the
//! cache and summed up as a [`Summary`]. [`Ceilings`] says what the device reaches when it does one thing
//! only, measured by kernels of this project, and a [`Report`] puts the two together. JSON that was kept is a
//! [`Record`], and a [`Comparison`] tells which outputs have other bits since, and which times changed.
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
pub use measure::Run;
pub use peak::CeilingsError;
pub use profile::{Profile, RegionTime};
pub use protocol::Protocol;
pub use record::{
    Comparison, Finding, Record, RecordDevice, RecordError, RecordFlaw, RunComparison,
};
pub use report::{MathMode, Problem, Report, Score};
pub use statistics::Summary;
pub use subject::Subject;

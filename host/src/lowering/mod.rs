//! From a graph of layers to the launches of a program.
//!
//! A *region* is a run of layers that are computed together. Lowering turns each region into a [`Lowered`], a
//! plain value: a [`Producer`], which computes values, and the [`EpilogueKernels`] after it.
//!
//! ```text
//! graph, shape     the regions, and what each computes            region.rs, op_spec::graph::NormalForm
//!   | choice       the first row of the table that can and pays   choice.rs, table.rs
//!   | lowered      producer, its configuration, and the epilogue  producer.rs, epilogue.rs
//!   | program      the launches with their arguments, in order    append.rs, program.rs
//! ```
//!
//! The choice is a pure function of the problem, the input's memory layout,
//! [`DeviceProperties`](crate::DeviceProperties) and the options. [`append`](append::Appending) makes no
//! decisions, and is the only list of a region's launches. `explain` prints the launches of a program without
//! parameters.

mod append;
mod choice;
mod chosen;
mod epilogue;
mod joined;
mod layouts;
mod lowered;
mod options;
mod pays;
mod produced;
mod producer;
mod program;
mod reduced;
mod region;
mod table;
mod transposed;
mod without_norm;
mod work;

pub(crate) use choice::choose;
pub(crate) use chosen::Chosen;
pub use options::Options;
pub(crate) use program::{Source, planned, program_of, renewed_parameters};
pub use region::{Considered, RegionFacts, Verdict};
pub(crate) use region::{Query, output_layout};
pub(crate) use work::Work;

#[cfg(doc)]
use self::{epilogue::EpilogueKernels, lowered::Lowered, producer::Producer};

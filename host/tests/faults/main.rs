//! What becomes of the library's work where the driver fails, or does it as late as it may: on the driver of
//! `crates/scripted-driver`, so without a GPU.
//!
//! * `allocators`: all memory of a stream is from its caller's allocator.
//! * `cache`: the folder of compiled kernels is shut, full, torn, missing, or somebody else writes to it.
//! * `campaign`: every call of the driver fails once.
//! * `ordering`, `captures`: work is done no sooner than it is waited for, so that an order that is missing
//!   shows.
//! * `launches`: runs over memory that each is given, and in clusters.
//! * `devices`: several devices at a time.
//! * `drawn`: copies between streams, arrays and devices in orders that are drawn.
//! * `limits`: a limit, a device that has no more memory, or no more shared memory for a launch.
//! * `lost`: a call finds the device lost, or the process is a fork of the one that used it.
//! * `others`: memory, allocators and arrays that come from outside.
#![cfg(target_os = "linux")]

mod allocators;
mod cache;
mod campaign;
mod captures;
mod devices;
mod drawn;
mod driver;
mod launches;
mod limits;
mod lost;
mod ordering;
mod others;
mod things;

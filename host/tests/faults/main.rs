//! The library's behaviour if the driver fails, or does work as late as possible. The driver is
//! `crates/scripted-driver`, so no GPU is needed.
//!
//! - `allocators`: all memory of a stream comes from its caller's allocator.
//! - `cache`: the folder of compiled kernels is read-only, full, damaged, missing, or shared with other
//!   writers.
//! - `campaign`: every driver call fails once.
//! - `ordering`, `captures`: work is done only when it is waited for, so that missing order shows.
//! - `launches`: runs over memory that is passed to each run, and runs in clusters.
//! - `devices`: several devices at a time.
//! - `drawn`: copies between streams, arrays and devices in random order.
//! - `limits`: a memory limit, a device without free memory, or without shared memory for a launch.
//! - `lost`: the device is lost, or the process is a fork of the one that used it.
//! - `others`: memory, allocators and arrays of other libraries.
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

//! What becomes of the library's work where the driver fails, or does it as late as it may: on the driver of
//! `crates/scripted-driver`, so without a GPU.
//!
//! * `campaign`: every call of the driver fails once.
//! * `ordering`, `captures`: work is done no sooner than it is waited for, so that an order that is missing shows.
//! * `others`: memory, allocators and arrays that come from outside.
//! * `threads`: two threads meet at a call of the driver that returns late.
#![cfg(target_os = "linux")]

mod campaign;
mod captures;
mod driver;
mod ordering;
mod others;
mod threads;

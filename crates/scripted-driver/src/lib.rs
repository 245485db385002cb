//! A CUDA driver for tests, which needs no GPU: the functions of the driver that this project calls, in a
//! shared library that stands in for `libcuda.so.1`.
//!
//! * **Memory** of the device is the host's. Its bounds are known, it is filled with a pattern when it is
//!   allocated and when it is freed, and what uses it when it is not there is reported.
//! * **Streams** are queues. Their work is done when it is given or, in the lazy mode, no sooner than
//!   somebody waits for it: then exactly that is done which comes before by the order of streams and events,
//!   and what lacks an order shows.
//! * **Captures and graphs** are recorded work, with the calls that a capture forbids.
//! * **Kernels** do nothing when they run, but for `pointwise_f32`, a clamp here; their launches are recorded
//!   with the values of their parameters, which the PTX tells the sizes of, and must find the memory that
//!   these point to.
//! * **Devices** are many, so that a test can take a fresh one: see `kind.rs`.
//! * **Faults** follow a script: call N of a function returns a given code. A code after which a real driver
//!   serves a context no more does the same here.
//!
//! The test process reaches the script of `interface.rs` by a name, as it does the driver's functions.
//!
//! The files stand in layers, each on those before it.

#[expect(dead_code, reason = "it is the tests that ask")]
mod interface;
mod kind;
mod outcome;
mod script;
mod thread;

mod work;

mod memory;

mod state;

mod queue;

#[macro_use]
mod call;

mod allocation;
mod control;
mod device;
mod graph;
mod launch;
mod module;
mod stream;

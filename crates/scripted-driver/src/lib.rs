//! A CUDA driver for tests, which needs no GPU. It is a shared library in place of `libcuda.so.1`, with the
//! driver functions that this project calls.
//!
//! * **Memory** of devices is host memory with known bounds. It is filled with a pattern at allocation and
//!   at release. Uses of memory that is not allocated are reported.
//! * **Streams** are queues. Their work is executed when it is queued or, in the lazy mode, only when the
//!   program waits for it. The lazy mode then executes only the work that precedes the wait in the order of
//!   streams and events, so a missing order becomes visible.
//! * **Captures and graphs** are recorded work. Calls that a capture forbids are refused.
//! * **Kernels** do nothing, except for `pointwise_f32`, which is a clamp here. Launches are recorded with
//!   the values of their parameters, whose sizes come from the PTX. The memory to which the parameters
//!   point must be allocated.
//! * **Devices** are numerous, so that each test can use a fresh one: see `kind.rs`.
//! * **Faults** follow a script: call N of a function returns a given code. After a code that is fatal to a
//!   context of a real driver, the context refuses calls here, too.
//!
//! The test process finds the script of `interface.rs` by its symbol name, like the driver's functions.
//!
//! The modules form layers: each uses only modules above it in the list.

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
mod tensor_map;

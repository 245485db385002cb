//! Do the checks check? Copies of the kernels are made with a mistake in each operator, and the
//! checks of `kernels-gpu` are run on them. `build.rs` makes the copies out of the kernels' source,
//! so they never fall behind it; `bugs.rs` lists the mistakes; the test is in `tests/caught.rs`.

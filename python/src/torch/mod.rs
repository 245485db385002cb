//! The PyTorch side: its C interface, and memory and tensors through it.

pub(crate) mod memory;
pub(crate) mod shim;
pub(crate) mod tensor;

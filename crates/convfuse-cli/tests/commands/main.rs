//! The program as users run it: its output, files, error messages and exit status. All tests run small
//! shapes on the CPU.

mod campaign;
mod compare;
mod files;
mod network;
mod new;
mod output;
mod program;
mod refusals;
mod tensors;

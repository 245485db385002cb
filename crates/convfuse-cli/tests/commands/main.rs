//! The program as its users run it: what it prints, writes, refuses and exits with. All on the CPU, with
//! small shapes.

mod campaign;
mod compare;
mod files;
mod network;
mod new;
mod output;
mod program;
mod refusals;
mod tensors;

//! `cargo xtask ptxas`: assembles every kernel for every architecture with shipped machine code, without a
//! GPU. It refuses slow code (registers spilled to memory, arrays in local memory, wgmma instructions that
//! the assembler had to serialise) and wrong code (memory accesses before the wait for earlier launches).

mod assemble;
mod entry;
mod find;
mod report;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use cuda_builder::Arch;

use crate::compiled::compile;
pub(crate) use assemble::{Assembled, Assembler, Key, Known};
use report::Resources;

/// The message if [`Assembled::refuse_faults`] finds nothing.
pub(crate) const CLEAN: &str =
    "no spills, no local memory, no serialised wgmma, no memory touched before the wait";

/// Assembles freshly compiled kernels, and prints the resources of each.
pub(crate) fn run(root: &Path) -> Result<()> {
    let assembler = Assembler::find(root)?;
    let assembled = assembler.assemble(&compile(root)?, &Known::new())?;
    print_table(&assembled);
    assembled.refuse_faults()?;
    println!("{CLEAN}");
    Ok(())
}

/// One line per kernel: registers and bytes of static shared memory on each architecture.
fn print_table(assembled: &Assembled) {
    let kernels: BTreeSet<&str> = assembled.kernels().collect();
    let archs: BTreeSet<Arch> = assembled.archs().collect();
    let width = kernels.iter().map(|kernel| kernel.len()).max().unwrap_or(0);
    print!("{:width$}", "registers/shared");
    archs.iter().for_each(|arch| print!("  {arch:>11}"));
    println!();
    for kernel in kernels {
        print!("{kernel:width$}");
        for &arch in &archs {
            let cell = assembled.resources(kernel, arch).map(Resources::cell);
            print!("  {:>11}", cell.unwrap_or_else(|| "-".into()));
        }
        println!();
    }
}

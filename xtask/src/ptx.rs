//! `cargo xtask ptx`: renews or checks the shipped kernels.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use cuda_builder::{Shipment, ShippedHeader, split};
use kernel_archive::{Archive, Entry};

use crate::compiled::compile;
use crate::ptxas::{Assembler, CLEAN, Key, Known};

/// Rewrites host/ptx. Machine code of unchanged PTX stays if the same assembler made it.
pub(crate) fn renew(root: &Path) -> Result<()> {
    let assembler = Assembler::find(root)?;
    let compiled = compile(root)?;
    let set = &compiled.set;
    let header = ShippedHeader::read(&set.header_path()).ok();
    let same = header.is_some_and(|header| header.assembler == assembler.version);
    let shipped = fs::read(set.machine_code_path()).ok().filter(|_| same);
    let known = shipped.and_then(|file| content(&file).ok());
    eprintln!("assembling with {}", assembler.version);
    let assembled = assembler.assemble(&compiled, &known.unwrap_or_default())?;
    assembled.refuse_faults()?;
    set.ship(&Shipment {
        toolchain: &compiled.toolchain,
        assembler: &assembler.version,
        modules: &compiled.modules,
        machine_code: &assembled.machine_code,
    })?;
    for path in [set.ptx_path(), set.machine_code_path()] {
        println!("{}", described(&path)?);
    }
    Ok(())
}

/// Describes a file: its number of kernels and its size.
fn described(path: &Path) -> Result<String> {
    let file = fs::read(path)?;
    let archive = Archive::open(&file)?;
    let bytes: usize = archive.entries().iter().map(|entry| entry.len()).sum();
    let (shown, kernels, compressed) = (path.display(), archive.entries().len(), file.len());
    Ok(format!(
        "{shown}: {kernels} kernels, {bytes} bytes in {compressed}"
    ))
}

/// Fails if host/ptx differs from the compiled sources, or if the assembler reports a slow kernel. Different
/// compilers and assemblers may give different kernels, so kernels are compared only if the same versions
/// made the shipped ones. The hash of the sources is always compared.
pub(crate) fn check(root: &Path) -> Result<()> {
    let assembler = Assembler::find(root)?;
    let compiled = compile(root)?;
    let set = &compiled.set;
    eprintln!("assembling with {}", assembler.version);
    let assembled = assembler.assemble(&compiled, &Known::new())?;
    assembled.refuse_faults()?;
    println!("{CLEAN}");

    let shown = set.header_path();
    let shown = shown.display();
    let have = ShippedHeader::read(&set.header_path())?;
    let want = set.header(&compiled.toolchain, &assembler.version)?;
    ensure!(
        have.sources == want.sources,
        "{shown}: the kernels are from other sources than these; run `cargo xtask ptx`"
    );
    if have.compiler != want.compiler {
        println!(
            "{shown}: fresh by its hash; kernels not compared, they are from {}, here is {}",
            have.compiler, want.compiler
        );
        return Ok(());
    }
    let mut ptx = Known::new();
    for (arch, module) in &compiled.modules {
        for kernel in split(&module.ptx)? {
            let key = (kernel.name.clone(), arch.to_string(), kernel.hash());
            ptx.insert(key, kernel.ptx.into_bytes());
        }
    }
    compare(&set.ptx_path(), &ptx)?;
    if have.assembler != want.assembler {
        println!(
            "{shown}: machine code not compared, it is from {}, here is {}",
            have.assembler, want.assembler
        );
        return Ok(());
    }
    let code = assembled.machine_code.into_iter();
    let code = code.map(|code| {
        (
            (code.kernel, code.arch.to_string(), code.source),
            code.bytes,
        )
    });
    compare(&set.machine_code_path(), &code.collect())
}

/// Fails if a file's kernels differ from the fresh ones.
fn compare(path: &Path, fresh: &Known) -> Result<()> {
    let shown = path.display();
    let shipped = content(&fs::read(path)?)?;
    if shipped == *fresh {
        println!("{shown}: fresh, all bytes compared");
        return Ok(());
    }
    let differs = |key: &&Key| shipped.get(key) != fresh.get(key);
    let differ: BTreeSet<&Key> = shipped.keys().chain(fresh.keys()).filter(differs).collect();
    let names: BTreeSet<String> = (differ.iter())
        .map(|(kernel, arch, _)| format!("{kernel} {arch}"))
        .collect();
    let names = Vec::from_iter(names).join(", ");
    bail!(
        "{shown}: differs from what the same programs make of the same sources (a dependency may have changed); \
         run `cargo xtask ptx`: {names}"
    )
}

/// The kernels of an archive.
fn content(file: &[u8]) -> Result<Known> {
    let archive = Archive::open(file)?;
    let kernel = |entry: &Entry| {
        let Entry {
            kernel,
            arch,
            source,
            ..
        } = entry.clone();
        Ok(((kernel, arch, source), archive.read(entry)?))
    };
    archive.entries().iter().map(kernel).collect()
}

//! `cargo xtask ptx`: the shipped kernels, renewed or checked.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{
    Arch, KernelSet, Module, Shipment, ShippedHeader, Toolchain, machine_code_archive, ptx_archive,
};
use kernel_archive::Archive;

use crate::kernel_set::kernel_set;
use crate::ptxas::{Assembler, CLEAN, Known};

/// Freshly compiled kernels.
pub(crate) struct Compiled {
    pub(crate) set: KernelSet,
    toolchain: Toolchain,
    pub(crate) modules: Vec<(Arch, Module)>,
}

/// Compiles the kernels from source.
pub(crate) fn compile(root: &Path) -> Result<Compiled, Box<dyn Error>> {
    let mut set = kernel_set(root);
    // Where the build script has its `core`, so that it is compiled once.
    set.target_dir = Some(target_dir(root).join("cuda_builder"));
    let toolchain = toolchain_of_shipped(&set)?;
    let folder = target_dir(root).join("xtask-ptx");
    fs::create_dir_all(&folder)?;
    eprintln!("compiling the kernels with {toolchain}");
    let modules = set.compile(&toolchain, &folder).inspect_err(|error| {
        if let cuda_builder::Error::Compile { output, .. } = error {
            eprintln!("{output}");
        }
    })?;
    Ok(Compiled {
        set,
        toolchain,
        modules,
    })
}

/// The compiler that the shipped kernels are from, so that texts can be compared; the first that is found
/// where that one is not installed.
fn toolchain_of_shipped(set: &KernelSet) -> cuda_builder::Result<Toolchain> {
    let mut installed = Toolchain::find_all()?;
    let header = ShippedHeader::read(&set.header_path()).ok();
    let same = installed.iter().position(|toolchain| {
        header
            .as_ref()
            .is_some_and(|header| header.compiler == toolchain.to_string())
    });
    Ok(installed.swap_remove(same.unwrap_or(0)))
}

/// The workspace's target folder.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Writes host/ptx anew. Machine code of PTX that has not changed stays, if the same assembler made it.
pub(crate) fn renew(root: &Path) -> Result<(), Box<dyn Error>> {
    let assembler = Assembler::find(root)?;
    let compiled = compile(root)?;
    let set = &compiled.set;
    let header = ShippedHeader::read(&set.header_path()).ok();
    let same = header.is_some_and(|header| header.assembler == assembler.version);
    let known = same.then(|| shipped_machine_code(set).ok()).flatten();
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

/// A file's kernels and bytes.
fn described(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = fs::read(path)?;
    let archive = Archive::open(&file)?;
    let bytes: usize = archive.entries().iter().map(|entry| entry.len()).sum();
    let (shown, kernels, compressed) = (path.display(), archive.entries().len(), file.len());
    Ok(format!(
        "{shown}: {kernels} kernels, {bytes} bytes in {compressed}"
    ))
}

fn shipped_machine_code(set: &KernelSet) -> Result<Known, Box<dyn Error>> {
    let file = fs::read(set.machine_code_path())?;
    let archive = Archive::open(&file)?;
    let mut known = Known::new();
    for entry in archive.entries() {
        let key = (
            entry.kernel.clone(),
            entry.arch.parse()?,
            entry.source.clone(),
        );
        known.insert(key, archive.read(entry)?);
    }
    Ok(known)
}

/// Fails if host/ptx is not what the sources give, or if a kernel would be slow by what the assembler says.
/// Other compilers and assemblers may give other kernels, so those are compared only if the same programs
/// made the shipped ones; the hash of the sources always is.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
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
    if have.sources != want.sources {
        return Err(format!(
            "{shown}: the kernels are from other sources than these; run `cargo xtask ptx`"
        )
        .into());
    }
    if have.compiler != want.compiler {
        println!(
            "{shown}: fresh by its hash; kernels not compared, they are from {}, here is {}",
            have.compiler, want.compiler
        );
        return Ok(());
    }
    compare(&set.ptx_path(), &ptx_archive(&compiled.modules)?)?;
    if have.assembler != want.assembler {
        println!(
            "{shown}: machine code not compared, it is from {}, here is {}",
            have.assembler, want.assembler
        );
        return Ok(());
    }
    let machine_code = machine_code_archive(&assembled.machine_code)?;
    compare(&set.machine_code_path(), &machine_code)
}

/// Fails if a file is not the archive that was just made.
fn compare(path: &Path, fresh: &[u8]) -> Result<(), Box<dyn Error>> {
    let shown = path.display();
    let file = fs::read(path)?;
    if file == fresh {
        println!("{shown}: fresh, all bytes compared");
        return Ok(());
    }
    let content = |file| -> Result<BTreeSet<_>, Box<dyn Error>> {
        let archive = Archive::open(file)?;
        let kernel = |entry| Ok((Archive::read(&archive, entry)?, entry.clone()));
        let kernels = archive.entries().iter().map(kernel);
        let kernels: Result<Vec<_>, Box<dyn Error>> = kernels.collect();
        let named = |(bytes, entry): (Vec<u8>, kernel_archive::Entry)| {
            (entry.kernel, entry.arch, entry.source, bytes)
        };
        Ok(kernels?.into_iter().map(named).collect())
    };
    let (have, want) = (content(&file)?, content(fresh)?);
    let differ = have.symmetric_difference(&want);
    let names: BTreeSet<String> = differ
        .map(|(name, arch, ..)| format!("{name} {arch}"))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    let names = if names.is_empty() {
        "the same kernels, compressed otherwise".to_owned()
    } else {
        names.join(", ")
    };
    Err(format!(
        "{shown}: differs from what the same programs make of the same sources (a dependency may have changed); \
         run `cargo xtask ptx`: {names}"
    )
    .into())
}

//! `cargo xtask ptx`: the shipped PTX, renewed or checked.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{Arch, KernelSet, Module, ShippedHeader, Toolchain, decompress};

use crate::kernel_set::kernel_set;

/// Freshly compiled kernels.
pub(crate) struct Compiled {
    set: KernelSet,
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

/// The compiler that the shipped PTX is from, so that texts can be compared; the first that is found
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

/// Writes host/ptx anew.
pub(crate) fn renew(root: &Path) -> Result<(), Box<dyn Error>> {
    let compiled = compile(root)?;
    compiled.set.ship(&compiled.toolchain, &compiled.modules)?;
    for (arch, module) in &compiled.modules {
        let path = compiled.set.shipped_path(*arch);
        let compressed = fs::metadata(&path)?.len();
        let (shown, bytes) = (path.display(), module.ptx.len());
        println!("{shown}: {bytes} bytes of PTX in {compressed}");
    }
    Ok(())
}

/// Fails if host/ptx is not what the sources give. Other compilers may give other text, so the texts
/// are compared only if the same compiler wrote the shipped one; the hash of the sources always is.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let Compiled {
        set,
        toolchain,
        modules,
    } = compile(root)?;
    let shown = set.header_path();
    let shown = shown.display();
    let (have, want) = (
        ShippedHeader::read(&set.header_path())?,
        set.header(&toolchain)?,
    );
    if have.sources != want.sources {
        return Err(format!(
            "{shown}: the PTX is from other kernel sources than these; run `cargo xtask ptx`"
        )
        .into());
    }
    if have.compiler != want.compiler {
        println!(
            "{shown}: fresh by its hash; text not compared, it is from {}, here is {}",
            have.compiler, want.compiler
        );
        return Ok(());
    }
    for (arch, module) in &modules {
        let path = set.shipped_path(*arch);
        let shown = path.display();
        if decompress(&path)? != module.ptx {
            return Err(format!(
                "{shown}: differs from what {} makes of the same sources (a dependency may have \
                 changed); run `cargo xtask ptx`",
                want.compiler
            )
            .into());
        }
        println!("{shown}: fresh, text compared");
    }
    Ok(())
}

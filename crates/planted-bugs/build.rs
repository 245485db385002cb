//! Copies the kernels' source once for each group of bugs, and plants them.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

include!("bugs.rs");

/// What a library's root file says for the whole crate, and a module's must not say.
const CRATE_ATTRIBUTES: [&str; 2] = [
    "#![no_std]\n",
    "#![cfg_attr(\n    target_arch = \"nvptx64\",\n    feature(abi_ptx, asm_experimental_arch)\n)]\n",
];

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../kernels-gpu");
    let source = kernels.join("src");
    let checks = kernels.join("tests/checks/mod.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=bugs.rs");
    println!("cargo::rerun-if-changed=build.rs");
    // The copies are for the emulator, which has all that Hopper has; as in the build script of the kernels.
    println!("cargo::rustc-cfg=hopper");

    let copies: BTreeSet<_> = BUGS.iter().map(|bug| bug.copy).collect();
    let mut modules = String::new();
    for copy in copies {
        let target = out.join(copy);
        copy_folder(&source, Path::new(""), &target, copy)?;
        modules += &format!(
            "#[allow(unused, unreachable_pub, clippy::all)]\nmod {copy} {{\n    #[path = {:?}]\n    pub mod kernels;\n    \
             #[path = {:?}]\n    pub mod checks;\n}}\n",
            target.join("lib.rs"),
            checks,
        );
    }
    fs::write(out.join("copies.rs"), modules)?;
    Ok(())
}

/// Copies `source/folder`, with the bugs of `copy`.
fn copy_folder(
    source: &Path,
    folder: &Path,
    target: &Path,
    copy: &str,
) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(target.join(folder))?;
    for entry in fs::read_dir(source.join(folder))? {
        let file = folder.join(entry?.file_name());
        if source.join(&file).is_dir() {
            copy_folder(source, &file, target, copy)?;
            continue;
        }
        let mut text = fs::read_to_string(source.join(&file))?;
        for bug in BUGS {
            if bug.copy == copy && Path::new(bug.file) == file {
                if text.matches(bug.right).count() != 1 {
                    let (name, file) = (bug.name, bug.file);
                    return Err(format!("{name}: what it replaces is not once in {file}").into());
                }
                text = text.replace(bug.right, bug.wrong);
            }
        }
        for attribute in CRATE_ATTRIBUTES {
            text = text.replace(attribute, "");
        }
        text = text.replace("crate::", &format!("crate::{copy}::kernels::"));
        fs::write(target.join(&file), text)?;
    }
    Ok(())
}

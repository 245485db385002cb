//! Copies the kernels' source, and plants all bugs in the copy: beside what is right stands what is wrong, and the copy
//! asks `planted` at run time which of them it is to do.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A mistake, see `bugs.rs`.
struct Bug {
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

macro_rules! bugs {
    ($({ name: $name:ident, check: $check:expr, file: $file:literal, right: $right:literal, wrong: $wrong:literal, })*) => {
        const BUGS: &[Bug] = &[$(Bug { name: stringify!($name), file: $file, right: $right, wrong: $wrong }),*];
    };
}

include!("bugs.rs");

/// What a library's root file says for the whole crate, and a module's must not say.
const CRATE_ATTRIBUTES: [&str; 2] = [
    "#![no_std]\n",
    "#![cfg_attr(target_arch = \"nvptx64\", feature(abi_ptx, asm_experimental_arch))]\n",
];

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../kernels-gpu");
    let source = kernels.join("src");
    let checks = kernels.join("tests/checks/mod.rs");
    let target = PathBuf::from(env::var("OUT_DIR")?).join("kernels");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=bugs.rs");
    println!("cargo::rerun-if-changed=build.rs");
    // The copy is for the emulator, which has all that Hopper has; as in the build script of the kernels.
    println!("cargo::rustc-cfg=hopper");

    copy_folder(&source, &target)?;
    plant(&target)?;
    let root = target.join("lib.rs");
    let mut text = fs::read_to_string(&root)?;
    for attribute in CRATE_ATTRIBUTES {
        if !text.contains(attribute) {
            return Err(format!("kernels-gpu's root has no {attribute}").into());
        }
        text = text.replace(attribute, "");
    }
    fs::write(&root, text)?;
    let modules = format!(
        "#[allow(unused, unreachable_pub, clippy::all)]\n#[path = {root:?}]\npub mod kernels;\n\
         #[allow(unused, unreachable_pub)]\n#[path = {checks:?}]\npub mod checks;\n"
    );
    fs::write(target.with_extension("rs"), modules)?;
    Ok(())
}

/// Copies the files of a crate, as those of its module `kernels`.
fn copy_folder(source: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            let text = fs::read_to_string(entry.path())?;
            fs::write(to, text.replace("crate::", "crate::kernels::"))?;
        }
    }
    Ok(())
}

/// Plants the bugs in the copy. Several of them may be of the same place.
fn plant(target: &Path) -> Result<(), Box<dyn Error>> {
    for (number, bug) in BUGS.iter().enumerate() {
        let is_here = |other: &Bug| (other.file, other.right) == (bug.file, bug.right);
        if BUGS[..number].iter().any(is_here) {
            continue;
        }
        let (before, right, after) = marked(bug.right);
        let mut choice = String::new();
        for (number, bug) in BUGS.iter().enumerate().filter(|(_, bug)| is_here(bug)) {
            choice += &format!("if crate::planted({number}) {{ {} }} else ", bug.wrong);
        }
        choice += &format!("{{ {right} }}");
        // As part of an expression.
        if !right.ends_with([';', '}']) {
            choice = format!("({choice})");
        }
        let file = target.join(bug.file);
        let text = fs::read_to_string(&file)?;
        let place = format!("{before}{right}{after}");
        if text.matches(&place).count() != 1 {
            let (name, file) = (bug.name, bug.file);
            return Err(format!("{name}: what it replaces is not once in {file}").into());
        }
        fs::write(
            file,
            text.replace(&place, &format!("{before}{choice}{after}")),
        )?;
    }
    Ok(())
}

/// What stands before the marked part of `right`, that part, and what stands behind it.
fn marked(right: &str) -> (&str, &str, &str) {
    let parts = right.split_once('«').and_then(|(before, rest)| {
        let (part, after) = rest.split_once('»')?;
        Some((before, part, after))
    });
    parts.unwrap_or(("", right, ""))
}

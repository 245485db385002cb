//! Copies the kernels' source and plants all bugs in the copy, each next to the original text. The copy
//! calls `planted` at run time to select one of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A planted bug, see `bugs.rs`.
#[derive(Clone)]
struct Bug {
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

macro_rules! bugs {
    ($bugs:ident: $($file:literal: $($name:ident, $check:expr, $right:literal => $wrong:literal;)*)*) => {
        const $bugs: &[Bug] =
            &[$($(Bug { name: stringify!($name), file: $file, right: $right, wrong: $wrong },)*)*];
    };
}

include!("lists.rs");

/// Crate attributes of a library's root file, which a module must not have.
const CRATE_ATTRIBUTES: [&str; 2] = [
    "#![no_std]\n",
    "#![cfg_attr(target_arch = \"nvptx64\", feature(abi_ptx, asm_experimental_arch))]\n",
];

/// Kernel instances that no bug's check needs, and that would dominate the copy's compile time: a part of
/// the file's path, the text of the instances, and its replacement.
const LEFT_OUT: [(&str, &str, &str); 14] = [
    ("lib.rs", "pub mod peak;\n", ""),
    ("", "T: [f32, f16, bf16]", "T: [f32]"),
    // Checks of these run in 16 bits.
    ("conv_transpose", "T: [f32]", "T: [f32, f16]"),
    ("norm_nhwc", "T: [f32]", "T: [f32, f16]"),
    ("pointwise.rs", "T: [f32]", "T: [f32, f16, bf16]"),
    ("copy_strided", "S: [f32, f16, bf16]", "S: [f32]"),
    (
        "implicit_gemm/reformat.rs",
        "F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16]",
        "F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16]",
    ),
    (
        "implicit_gemm/filters.rs",
        "F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16]",
        "F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16]",
    ),
    (
        "implicit_gemm/sm90",
        "F: [scaled_f16_f32: ScaledF16, dense_f32: DenseF32, f16: F16, bf16: Bf16]",
        "F: [scaled_f16_f32: ScaledF16, dense_f32: DenseF32, f16: F16]",
    ),
    (
        "implicit_gemm",
        "F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, f16: F16, bf16: Bf16]",
        "F: [f16x2_f32: F16x2]",
    ),
    ("conv3d", ", f16: F16, bf16: Bf16]", "]"),
    ("conv3d", "F: [f16: F16, bf16: Bf16]", "F: [f16: F16]"),
    ("conv2d", "bf16: Stored<bf16, false>,\n", ""),
    ("conv2d", "bf16: Stored<bf16, true>,\n", ""),
];

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../kernels-gpu");
    let source = kernels.join("src");
    let checks = kernels.join("tests/checks/mod.rs");
    let target = PathBuf::from(env::var("OUT_DIR")?).join("kernels");
    // Removes the files of an earlier copy.
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    println!("cargo::rerun-if-changed={}", source.display());
    for entry in fs::read_dir(".")? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".rs") {
            println!("cargo::rerun-if-changed={name}");
        }
    }
    // The copy runs in the emulator, which supports all Hopper features. As in the build script of the
    // kernels.
    println!("cargo::rustc-cfg=hopper");

    let mut copy = Copy::default();
    copy.read(&source, &source)?;
    for attribute in CRATE_ATTRIBUTES {
        copy.replace("lib.rs", attribute, "")?;
    }
    for (files, instances, left) in LEFT_OUT {
        copy.replace(files, instances, left)?;
    }
    copy.replace("", "crate::", "crate::kernels::")?;
    copy.plant()?;
    for (file, text) in &copy.files {
        let file = target.join(file);
        fs::create_dir_all(file.parent().unwrap_or(&target))?;
        fs::write(file, text)?;
    }
    let root = target.join("lib.rs");
    let modules = format!(
        "#[allow(unused, unreachable_pub, clippy::all)]\n#[path = {root:?}]\npub mod kernels;\n\
         #[allow(unused, unreachable_pub)]\n#[path = {checks:?}]\npub mod checks;\n"
    );
    fs::write(target.with_extension("rs"), modules)?;
    Ok(())
}

/// The texts of the source files by path.
#[derive(Default)]
struct Copy {
    files: BTreeMap<PathBuf, String>,
}

impl Copy {
    /// Reads a folder of source files.
    fn read(&mut self, source: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.read(source, &path)?;
            } else {
                let text = fs::read_to_string(&path)?;
                self.files.insert(path.strip_prefix(source)?.into(), text);
            }
        }
        Ok(())
    }

    /// Replaces a text in all files whose paths contain `of`.
    fn replace(&mut self, of: &str, what: &str, by: &str) -> Result<(), String> {
        let mut found = false;
        for (file, text) in &mut self.files {
            if file.to_string_lossy().contains(of) && text.contains(what) {
                *text = text.replace(what, by);
                found = true;
            }
        }
        if found {
            return Ok(());
        }
        Err(format!("no file {of} of the kernels has {what:?}"))
    }

    /// Plants the bugs. Several of them may affect the same place.
    fn plant(&mut self) -> Result<(), String> {
        let bugs = LISTS.concat();
        for (number, bug) in bugs.iter().enumerate() {
            let is_here = |other: &Bug| (other.file, other.right) == (bug.file, bug.right);
            if bugs[..number].iter().any(is_here) {
                continue;
            }
            let (before, right, after) = marked(bug.right);
            let mut choice = String::new();
            for (number, bug) in bugs.iter().enumerate().filter(|(_, bug)| is_here(bug)) {
                choice += &format!("if crate::planted({number}) {{ {} }} else ", bug.wrong);
            }
            choice += &format!("{{ {right} }}");
            // As part of an expression.
            if !right.ends_with([';', '}']) {
                choice = format!("({choice})");
            }
            let place = format!("{before}{right}{after}");
            let text = self.files.get_mut(Path::new(bug.file));
            match text {
                Some(text) if text.matches(&place).count() == 1 => {
                    *text = text.replace(&place, &format!("{before}{choice}{after}"));
                }
                _ => {
                    let (name, file) = (bug.name, bug.file);
                    return Err(format!("{name}: what it replaces is not once in {file}"));
                }
            }
        }
        Ok(())
    }
}

/// Splits `right` into the text before the marked part, the part, and the text after it.
fn marked(right: &str) -> (&str, &str, &str) {
    let parts = right.split_once('«').and_then(|(before, rest)| {
        let (part, after) = rest.split_once('»')?;
        Some((before, part, after))
    });
    parts.unwrap_or(("", right, ""))
}

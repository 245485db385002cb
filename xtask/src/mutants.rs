//! `cargo xtask mutants`: finds mistakes in launches and kernel selection that the record would not detect.

mod known;
mod transform;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use quote::ToTokens;
use syn::visit_mut::VisitMut;
use xshell::{Shell, cmd};

use crate::copy::{tracked_files, write};
use known::Known;
use transform::{Mutant, Mutator};

/// The mutated folders.
const MUTATED: [&str; 3] = [
    "crates/launch-config/src",
    "host/src/lowering",
    "host/src/operators",
];

/// The manifests of the mutated packages.
const MANIFESTS: [&str; 2] = ["crates/launch-config/Cargo.toml", "host/Cargo.toml"];

/// Whether a file of the repository is mutated.
fn is_mutated(file: &str) -> bool {
    let mut folders = MUTATED.iter();
    folders.any(|folder| Path::new(file).starts_with(folder))
        && file.ends_with(".rs")
        && !file.contains("tests")
}

/// Copies the repository and writes mutants into the copy. The copy then searches for problems whose
/// launches each mutant changes.
pub(crate) fn run(root: &Path, arguments: &[std::ffi::OsString]) -> Result<()> {
    let copy = root.join("target/mutants");
    let tree = copy.join("tree");
    let listed = tracked_files(root)?;
    let files: Vec<&str> = listed.iter().map(String::as_str).collect();
    let known = Known::of(root, &files)?;
    let mut mutants = Vec::new();
    let dependency = format!("mutants = {{ path = {:?} }}", tree.join("crates/mutants"));
    write(root, &tree, |file, text| match is_mutated(file) {
        true => mutate(file, text, &known, &mut mutants).map(Some),
        false if MANIFESTS.contains(&file) => {
            let own = format!("[dependencies]\n{dependency}\n");
            Ok(Some(text.replacen("[dependencies]\n", &own, 1)))
        }
        false => Ok(None),
    })?;
    let listed = copy.join("mutants.tsv");
    fs::write(&listed, table(&mutants))?;
    println!("{} mutants", mutants.len());
    let record = root.join("tests/launches.jsonl");
    let left = root.join("tests/launches_unnoticed.txt");
    let sh = Shell::new()?;
    sh.change_dir(&tree);
    let target = copy.join("target");
    cmd!(
        sh,
        "cargo run --quiet --package convfuse-cli --example mutants
            --config profile.dev.debug=false --config profile.dev.package.convfuse-kernels-gpu.opt-level=0
            --config profile.dev.opt-level=2 --target-dir {target}
            -- {listed} {record} {left} {arguments...}"
    )
    .env("CUDA_BUILDER_RUSTC", "none")
    .run()?;
    Ok(())
}

fn mutate(file: &str, text: &str, known: &Known, mutants: &mut Vec<Mutant>) -> Result<String> {
    let mut source = syn::parse_file(text).with_context(|| file.to_owned())?;
    Mutator::new(known, file, mutants).visit_file_mut(&mut source);
    // Mutants are in parentheses, even if these are not needed.
    Ok(format!(
        "#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n{}",
        source.to_token_stream()
    ))
}

fn table(mutants: &[Mutant]) -> String {
    let mut text = String::new();
    for Mutant {
        file,
        function,
        line,
        from,
        to,
    } in mutants
    {
        let _ = writeln!(text, "{file}:{line}\t{function}\t{from}\t{to}");
    }
    text
}

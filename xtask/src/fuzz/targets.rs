//! The files to damage, and the commands that read them.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::damage::Format;

/// The name and contents of an undamaged file.
type Whole = (String, Vec<u8>);

/// Files with the same use.
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) format: Format,
    /// Undamaged files, under the names of their damaged copies.
    pub(super) seeds: Vec<Whole>,
    /// The commands, one of which a case runs; `FILE` is the damaged file.
    pub(super) commands: &'static [&'static str],
    /// Undamaged files next to the damaged one.
    pub(super) beside: Vec<Whole>,
}

/// The size limit of a damaged golden file in bytes: in larger files, damage mostly hits data.
const MOST_GOLDEN: usize = 4096;

const RUN: &[&str] = &[
    "run --device cpu --chain chain.json --parameters FILE --input input.npy --output output.npy",
    "run --device cpu --chain chain.json --parameters FILE --not-strict --input input.npy --output output.npy",
    "run --device cpu --chain chain.json --parameters FILE --prefix block. --input input.npy --output output.npy",
];
const INPUT: &[&str] = &[
    "run --device cpu --chain chain.json --parameters parameters.safetensors --input FILE --output output.safetensors",
    "compare FILE input.npy",
    "compare parameters.safetensors FILE --json",
];
const CHAIN: &[&str] = &[
    "explain --device h200 --chain FILE --shape 2,4,9,10",
    "explain --chain FILE --shape 2,4,5,9,10 --dtype f16",
    "run --device cpu --chain FILE --parameters parameters.safetensors --input input.npy --output output.npy",
    "bench --device cpu --chain FILE --shape 1,4,9,10 --repeats 1 --no-ceilings --no-reference --json record.json",
];
const NETWORK: &[&str] = &[
    "explain --device h200 --network FILE --shape 2,4,9,10",
    "run --device cpu --network FILE --parameters parameters.safetensors --input input.npy --output output.npy",
    "verify --device cpu --network FILE --shape 1,4,9,10",
];
const PROBLEMS: &[&str] = &[
    "bench --device cpu --problems FILE --repeats 1 --no-ceilings --no-reference --json record.json",
];
const RECORD: &[&str] = &[
    "compare FILE record.json",
    "bench --device cpu --problems problems.json --repeats 1 --no-ceilings --no-reference --json new.json --compare FILE",
];
const GOLDEN: &[&str] = &["verify --device cpu --golden golden --only golden/"];

const OF_RUN: &[&str] = &["chain.json", "parameters.safetensors", "input.npy"];
const OF_RECORD: &[&str] = &["problems.json", "record.json"];

/// All targets, with their seeds from the repository at `root`.
pub(super) fn all(root: &Path) -> Result<Vec<Target>> {
    use Format::{Numpy, Safetensors, Text};
    let corpus = &root.join("tests/corpus");
    let target = |name, format, begin, end, commands, beside: &[&str]| -> Result<Target> {
        // Damaged copies are next to the undamaged file, so they need another name.
        let mut seeds = seeds(corpus, "damaged-", begin, end)?;
        match name {
            "chain" => seeds.extend(self::seeds(
                &root.join("examples/chains"),
                "damaged-",
                "",
                "",
            )?),
            "network" => {
                let networks = &root.join("examples/networks");
                seeds.extend(self::seeds(networks, "damaged-", "", "")?);
            }
            "golden" => {
                seeds = self::seeds(&root.join("tests/golden"), "golden/", "", end)?;
                seeds.retain(|(_, contents)| contents.len() <= MOST_GOLDEN);
            }
            _ => {}
        }
        ensure!(!seeds.is_empty(), "no files for {name}");
        let read = |name: &&str| Ok(((*name).to_owned(), fs::read(corpus.join(name))?));
        let beside = beside.iter().map(read).collect::<Result<_>>()?;
        Ok(Target {
            name,
            format,
            seeds,
            commands,
            beside,
        })
    };
    let safetensors = ".safetensors";
    Ok(vec![
        target("parameters", Safetensors, "parameters", "", RUN, OF_RUN)?,
        target("input", Safetensors, "input", safetensors, INPUT, OF_RUN)?,
        target("array", Numpy, "input", ".npy", INPUT, OF_RUN)?,
        target("chain", Text, "chain", "", CHAIN, &OF_RUN[1..])?,
        target("network", Text, "network", "", NETWORK, &OF_RUN[1..])?,
        target("problems", Text, "problems", "", PROBLEMS, &[])?,
        target("record", Text, "record", "", RECORD, OF_RECORD)?,
        target("golden", Safetensors, "", safetensors, GOLDEN, &[])?,
    ])
}

/// The files of a folder whose names begin with `begin` and end with `end`. Their names are prefixed with
/// `place`.
fn seeds(folder: &Path, place: &str, begin: &str, end: &str) -> Result<Vec<Whole>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(begin) && name.ends_with(end) {
            seeds.push((format!("{place}{name}"), fs::read(entry.path())?));
        }
    }
    seeds.sort();
    Ok(seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_files_and_commands() {
        for target in all(crate::paths::root()).unwrap() {
            let names = |command: &&str| command.contains("FILE") || command.contains("golden ");
            assert!(!target.commands.is_empty() && target.commands.iter().all(names));
        }
    }
}

//! What is damaged, and what the program is then asked to do with it.

use std::error::Error;
use std::fs;
use std::path::Path;

use super::damage::Format;

/// A whole file.
pub(super) struct Seed {
    pub(super) name: String,
    pub(super) contents: Vec<u8>,
}

/// The name of a whole file, and what is in it.
type Whole = (String, Vec<u8>);

/// Files of one meaning.
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) format: Format,
    pub(super) seeds: Vec<Seed>,
    /// What is asked for, of which a case takes one; `FILE` stands for the damaged file.
    pub(super) commands: Vec<&'static str>,
    /// Whole files beside the damaged one.
    pub(super) beside: Vec<Whole>,
    /// The folder that the damaged file lies in, if not the case's own.
    folder: &'static str,
}

impl Target {
    /// Where a damaged copy of `seed` lies.
    pub(super) fn file_name(&self, seed: &Seed) -> String {
        format!("{}{}", self.folder, seed.name)
    }
}

/// Whole files that are damaged, beside examples and golden files.
const CORPUS: &str = "tests/corpus";

/// The most bytes of a golden file that is damaged: in larger ones damage hits data.
const MOST_GOLDEN: usize = 4096;

const RUN: [&str; 3] = [
    "run --device cpu --chain chain.json --parameters FILE --input input.npy --output output.npy",
    "run --device cpu --chain chain.json --parameters FILE --not-strict --input input.npy --output output.npy",
    "run --device cpu --chain chain.json --parameters FILE --prefix block. --input input.npy --output output.npy",
];
const INPUT: [&str; 3] = [
    "run --device cpu --chain chain.json --parameters parameters.safetensors --input FILE --output output.safetensors",
    "compare FILE input.npy",
    "compare parameters.safetensors FILE --json",
];
const CHAIN: [&str; 4] = [
    "explain --device h200 --chain FILE --shape 2,4,9,10",
    "explain --chain FILE --shape 2,4,5,9,10 --dtype f16",
    "run --device cpu --chain FILE --parameters parameters.safetensors --input input.npy --output output.npy",
    "bench --device cpu --chain FILE --shape 1,4,9,10 --repeats 1 --no-ceilings --no-reference --json record.json",
];
const PROBLEMS: [&str; 1] = [
    "bench --device cpu --problems FILE --repeats 1 --no-ceilings --no-reference --json record.json",
];
const RECORD: [&str; 2] = [
    "compare FILE record.json",
    "bench --device cpu --problems problems.json --repeats 1 --no-ceilings --no-reference --json new.json --compare FILE",
];
const GOLDEN: [&str; 1] = ["verify --device cpu --golden golden --only golden/"];

/// All targets, with their seeds from the repository at `root`.
pub(super) fn all(root: &Path) -> Result<Vec<Target>, Box<dyn Error>> {
    let corpus = root.join(CORPUS);
    let named = |prefix: &str| seeds(&corpus, |name| name.starts_with(prefix));
    let whole = |names: &[&str]| -> Result<Vec<Whole>, Box<dyn Error>> {
        let read = |name: &&str| Ok(((*name).to_owned(), fs::read(corpus.join(name))?));
        names.iter().map(read).collect()
    };
    let of_run = whole(&["chain.json", "parameters.safetensors", "input.npy"])?;
    let mut chains = named("chain")?;
    chains.extend(seeds(&root.join("examples/chains"), |_| true)?);
    let mut golden = seeds(&root.join("tests/golden"), |name| {
        name.ends_with(".safetensors")
    })?;
    golden.retain(|seed| seed.contents.len() <= MOST_GOLDEN);
    let inputs = named("input")?;
    let (numpy, safetensors) = inputs
        .into_iter()
        .partition(|seed| seed.name.ends_with(".npy"));
    let target = |name, format, seeds, commands: &[&'static str], beside: &[Whole]| Target {
        name,
        format,
        seeds,
        commands: commands.to_vec(),
        beside: beside.to_vec(),
        folder: "",
    };
    let mut all = vec![
        target(
            "parameters",
            Format::Safetensors,
            named("parameters")?,
            &RUN,
            &of_run,
        ),
        target("input", Format::Safetensors, safetensors, &INPUT, &of_run),
        target("array", Format::Numpy, numpy, &INPUT, &of_run),
        target("chain", Format::Text, chains, &CHAIN, &of_run[1..]),
        target("problems", Format::Text, named("problems")?, &PROBLEMS, &[]),
        target(
            "record",
            Format::Text,
            named("record")?,
            &RECORD,
            &whole(&["problems.json", "record.json"])?,
        ),
        target("golden", Format::Safetensors, golden, &GOLDEN, &[]),
    ];
    for target in &mut all {
        if target.seeds.is_empty() {
            return Err(format!("{CORPUS} has nothing for {}", target.name).into());
        }
        if target.name == "golden" {
            target.folder = "golden/";
        } else {
            // Beside the whole file of that name.
            for seed in &mut target.seeds {
                seed.name = format!("damaged-{}", seed.name);
            }
        }
    }
    Ok(all)
}

/// The files of a folder, by name.
fn seeds(folder: &Path, is_one: impl Fn(&str) -> bool) -> Result<Vec<Seed>, Box<dyn Error>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = crate::file_name(&path);
        if is_one(&name) {
            seeds.push(Seed {
                name,
                contents: fs::read(path)?,
            });
        }
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seeds)
}

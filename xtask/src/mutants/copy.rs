//! The copy of the kernels that has the mutants in it, in a workspace of its own, and what cargo says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::known::Known;
use super::rewrite::{Mutant, blamed, rewritten};
use crate::gpu_bundle::strip;

/// What the copy holds.
const CRATES: [&str; 5] = [
    "kernels-gpu",
    "crates/op-spec",
    "crates/oracle",
    "crates/cuda_std",
    "crates/cuda_std_macros",
];

/// Those of which sources are changed.
const CHANGED: [&str; 2] = ["kernels-gpu", "crates/op-spec"];

/// The copy.
pub(crate) struct Copy {
    folder: PathBuf,
    /// Texts by their paths under the root, as they are in the repository.
    texts: BTreeMap<String, String>,
    jobs: usize,
}

/// The folder of all that this makes, under the root.
const PACKED: &str = "target/mutants";

/// What was built.
pub(crate) struct Built {
    pub(crate) mutants: Vec<Mutant>,
    pub(crate) tests: Vec<Tests>,
    /// How many were left out of this sample or of earlier ones, because they do not compile.
    pub(crate) refused: usize,
}

/// A test program.
pub(crate) struct Tests {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

fn read(
    root: &Path,
    folder: &Path,
    texts: &mut BTreeMap<String, String>,
) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, texts)?;
        } else {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            texts.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

impl Copy {
    /// Reads what is to be copied, and writes what never changes.
    pub(crate) fn new(root: &Path, jobs: usize) -> Result<Self, Box<dyn Error>> {
        let mut texts = BTreeMap::new();
        for folder in CRATES {
            read(root, &root.join(folder), &mut texts)?;
        }
        for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            texts.insert(file.into(), fs::read_to_string(root.join(file))?);
        }
        let folder = root.join(PACKED).join("copy");
        Ok(Self {
            folder,
            texts,
            jobs,
        })
    }

    /// A file's text, as it is in the repository.
    pub(crate) fn text(&self, file: &str) -> &str {
        self.texts.get(file).map_or("", String::as_str)
    }

    /// The sources that mutants are made of: kernels, and the geometries of their launches.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        // What measures the device's peak computes nothing that anyone is given.
        let is_source = |file: &str| {
            let kernels = file.starts_with("kernels-gpu/src/") && !file.contains("/peak/");
            let launches =
                file.starts_with("crates/launch-config/src/") && !file.ends_with("/peak.rs");
            kernels || launches
        };
        let texts = self
            .texts
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str()));
        texts.filter(move |(file, _)| is_source(file))
    }

    /// Writes the copy with these mutants, and returns the texts of the files that have some.
    fn write(&self, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
        let mut of_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        for mutant in mutants {
            of_file.entry(&mutant.file).or_default().push(mutant);
        }
        let mut changed = BTreeMap::new();
        for (file, text) in &self.texts {
            let mut text = text.clone();
            if let Some(mutants) = of_file.get(file.as_str()) {
                text = rewritten(&text, mutants);
                changed.insert(file.clone(), text.clone());
            } else if file == "Cargo.toml" {
                text = manifest(&text)?;
            } else if CHANGED.iter().any(|of| *file == format!("{of}/Cargo.toml")) {
                let depends = "[dependencies]\nmutants.workspace = true\n";
                text = replaced(&text, "[dependencies]\n", depends)?;
            }
            put(&self.folder.join(file), &text)?;
        }
        let switch = self.folder.join("crates/mutants");
        let manifest =
            "[package]\nname = \"mutants\"\nversion = \"0.0.0\"\nedition.workspace = true\n";
        put(&switch.join("Cargo.toml"), manifest)?;
        put(&switch.join("src/lib.rs"), include_str!("switch.rs"))?;
        Ok(changed)
    }

    /// Runs cargo on the copy, and returns its messages.
    fn cargo(&self, what: &[&str]) -> Result<(bool, Vec<Value>), Box<dyn Error>> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(&self.folder)
            .args(what)
            .args([
                "--package=kernels-gpu",
                "--package=op-spec",
                "--features=op-spec/chain",
                "--tests",
            ])
            .args(["--message-format=json", "--offline", "--quiet"])
            .arg(format!("--jobs={}", self.jobs))
            .env("CARGO_TARGET_DIR", self.folder.with_file_name("target"))
            // Mutants are never seen where constants are computed, which only an unstable function can tell.
            .env("RUSTC_BOOTSTRAP", "mutants")
            // What the compiler knows to be wrong is to be noticed by tests.
            .env("RUSTFLAGS", "--cap-lints=allow")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let messages: Result<_, _> = text.lines().map(serde_json::from_str).collect();
        Ok((output.status.success(), messages?))
    }

    /// Writes the copy with those of the mutants that compile, builds its tests, and returns both.
    pub(crate) fn build(
        &self,
        key: u64,
        mut candidates: Vec<Mutant>,
        wanted: usize,
    ) -> Result<Built, Box<dyn Error>> {
        let path = self.folder.with_file_name("known.json");
        let mut known = Known::read(&path, key);
        candidates.retain(|mutant| !known.do_not.contains(&mutant.number));
        let mut mutants = candidates;
        let compiles = |mutant: &Mutant| known.compile.contains(&mutant.number);
        if !mutants.iter().take(wanted).all(compiles) {
            // As many more as may not compile.
            mutants.truncate(wanted + wanted / 2 + 10);
            loop {
                let texts = self.write(&mutants)?;
                let (is_done, messages) = self.cargo(&["check", "--keep-going"])?;
                if is_done {
                    break;
                }
                let blamed = self.blamed(&texts, &mutants, &messages)?;
                eprintln!("{} mutants do not compile", blamed.len());
                mutants.retain(|mutant| !blamed.contains(&mutant.number));
                known.do_not.extend(blamed);
            }
            known
                .compile
                .extend(mutants.iter().map(|mutant| mutant.number));
            known.write(&path, key)?;
        }
        mutants.truncate(wanted);
        self.write(&mutants)?;
        let (is_done, messages) = self.cargo(&["test", "--no-run"])?;
        if !is_done {
            return Err("the mutants compile, and their tests do not".into());
        }
        let tests = messages
            .iter()
            .filter(|message| message["profile"]["test"] == true);
        let tests = tests.filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some(Tests {
                name,
                path: message["executable"].as_str()?.into(),
            })
        });
        Ok(Built {
            mutants,
            tests: tests.collect(),
            refused: known.do_not.len(),
        })
    }

    /// Puts what was built where another machine can run it: `xtask mutants --packed` there, with as much of
    /// the sources as it reads.
    pub(crate) fn pack(&self, built: &Built, folder: &Path) -> Result<(), Box<dyn Error>> {
        for (file, text) in &self.texts {
            put(&folder.join(file), text)?;
        }
        let known = Path::new(PACKED).join("known.json");
        let programs = folder.join(PACKED).join("programs");
        fs::create_dir_all(&programs)?;
        fs::copy(self.folder.with_file_name("known.json"), folder.join(known))?;
        strip(&std::env::current_exe()?, &folder.join("xtask"))?;
        for Tests { name, path } in &built.tests {
            strip(path, &programs.join(name))?;
        }
        Ok(())
    }

    /// What was packed.
    pub(crate) fn packed(
        &self,
        key: u64,
        mut mutants: Vec<Mutant>,
        wanted: usize,
    ) -> Result<Built, Box<dyn Error>> {
        let known = Known::read(&self.folder.with_file_name("known.json"), key);
        mutants.retain(|mutant| known.compile.contains(&mutant.number));
        mutants.truncate(wanted);
        let mut tests = Vec::new();
        for entry in fs::read_dir(self.folder.with_file_name("programs"))? {
            let path = entry?.path();
            let name = crate::file_name(&path);
            tests.push(Tests { name, path });
        }
        Ok(Built {
            mutants,
            tests,
            refused: known.do_not.len(),
        })
    }

    /// The mutants that errors of the compiler come from.
    fn blamed(
        &self,
        texts: &BTreeMap<String, String>,
        mutants: &[Mutant],
        messages: &[Value],
    ) -> Result<BTreeSet<u32>, Box<dyn Error>> {
        let mut all = BTreeSet::new();
        let mut unknown = String::new();
        for message in messages.iter().map(|message| &message["message"]) {
            let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
            if message["level"] != "error" || spans.is_empty() {
                continue;
            }
            let (primary, others): (Vec<_>, Vec<_>) =
                spans.iter().partition(|span| span["is_primary"] == true);
            let mut found = false;
            for span in [primary, others].concat() {
                for (file, place) in places(span) {
                    let Some(text) = texts.get(&file) else {
                        continue;
                    };
                    let of_file: Vec<&Mutant> = mutants
                        .iter()
                        .filter(|mutant| mutant.file == file)
                        .collect();
                    let numbers = blamed(text, &of_file, &[place]);
                    found |= !numbers.is_empty();
                    all.extend(numbers);
                }
                if found {
                    break;
                }
            }
            if !found {
                unknown += message["rendered"].as_str().unwrap_or_default();
            }
        }
        if all.is_empty() {
            return Err(format!(
                "the copy does not compile, and it is no mutant's fault:\n{unknown}"
            )
            .into());
        }
        Ok(all)
    }
}

/// The file and bytes that a span is of, and those of the macros that it came from.
fn places(span: &Value) -> Vec<(String, Range<usize>)> {
    let mut places = Vec::new();
    let mut span = span;
    while let Some(file) = span["file_name"].as_str() {
        let byte = |name: &str| span[name].as_u64().unwrap_or(0) as usize;
        places.push((file.to_owned(), byte("byte_start")..byte("byte_end")));
        span = &span["expansion"]["span"];
    }
    places
}

/// Writes a file unless it is there, so that cargo sees what changed.
fn put(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, text)?)
}

fn replaced(text: &str, what: &str, by: &str) -> Result<String, String> {
    match text.matches(what).count() {
        1 => Ok(text.replace(what, by)),
        _ => Err(format!("a file of the copy does not have {what:?} once")),
    }
}

/// The workspace's manifest, with the members that the copy has.
fn manifest(text: &str) -> Result<String, String> {
    let end = text
        .find("[workspace.package]")
        .ok_or("no [workspace.package]")?;
    let members = format!("[workspace]\nresolver = \"3\"\nmembers = {CRATES:?}\n\n");
    let text = members + &text[end..];
    let first = "[workspace.dependencies]\n";
    replaced(
        &text,
        first,
        &format!("{first}mutants = {{ path = \"crates/mutants\" }}\n"),
    )
}

//! `cargo xtask mistakes LIST`: plants hand-written mistakes in a copy of the repository, one at a time, and
//! runs the test that must detect each. `crates/planted-bugs` does the same for kernels, all in one build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::copy::write;

/// The time that a test may take, as `timeout` reads it. A mistake may make it run forever.
const TIME: &str = "15m";

/// The arguments of `cargo xtask mistakes`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A list in TOML, such as tests/mistakes/host.toml.
    list: PathBuf,
    /// Plant only the mistakes whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
}

/// A list of mistakes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// A shell command that prepares the copy, run in its root before the first test.
    setup: Option<String>,
    mistake: Vec<Mistake>,
}

/// A mistake, with the test that must fail because of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    name: String,
    /// The file, from the root of the repository.
    file: String,
    /// Text that occurs once in the file.
    from: String,
    /// The text in its place.
    to: String,
    /// A shell command, run in the root of the copy.
    test: String,
}

impl Mistake {
    /// Returns the contents of its file with the mistake.
    fn planted(&self, text: &str) -> Result<String> {
        let found = text.matches(&self.from).count();
        ensure!(
            found == 1,
            "{}: `{}` occurs {found} times in {}",
            self.name,
            self.from,
            self.file
        );
        Ok(text.replacen(&self.from, &self.to, 1))
    }
}

/// The outcome of a test.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// The copy does not compile, so the test says nothing.
    DidNotCompile,
}

/// Runs a test in a folder. Its output goes to `log`.
fn outcome(test: &str, folder: &Path, log: &Path) -> Result<Outcome> {
    let output = fs::File::create(log)?;
    let status = Command::new("timeout")
        .args([TIME, "sh", "-c", test])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.with_file_name("target"))
        .env("CUDA_BUILDER_RUSTC", "none")
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()?;
    let said = fs::read(log)?;
    let said = String::from_utf8_lossy(&said);
    Ok(match status.success() {
        true => Outcome::Passed,
        false if said.contains("could not compile") || said.contains("SyntaxError") => {
            Outcome::DidNotCompile
        }
        false => Outcome::Failed,
    })
}

/// Copies the repository, and tries the mistakes of a list in the copy.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let text = fs::read_to_string(&arguments.list)
        .with_context(|| format!("{}", arguments.list.display()))?;
    let list: List = toml::from_str(&text)?;
    let tree = root.join("target/mistakes/tree");
    write(root, &tree, |_, _| Ok(None))?;
    let mistakes: Vec<&Mistake> = (list.mistake.iter())
        .filter(|mistake| mistake.name.contains(&arguments.only))
        .collect();
    ensure!(
        !mistakes.is_empty(),
        "no mistake is called {}",
        arguments.only
    );
    let missed = judge(list.setup.as_deref(), &mistakes, &tree)?;
    ensure!(missed.is_empty(), "not detected: {}", missed.join(", "));
    Ok(())
}

/// Tries mistakes in a copy, and returns the names of those that their tests do not detect.
fn judge(setup: Option<&str>, mistakes: &[&Mistake], tree: &Path) -> Result<Vec<String>> {
    let log = tree.with_file_name("log.txt");
    let tests: BTreeSet<&str> = mistakes.iter().map(|mistake| &mistake.test[..]).collect();
    for command in setup.into_iter().chain(tests) {
        let without = outcome(command, tree, &log)?;
        ensure!(
            without == Outcome::Passed,
            "without a mistake, `{command}` fails: see {}",
            log.display()
        );
    }
    let mut missed = Vec::new();
    for mistake in mistakes {
        let path = tree.join(&mistake.file);
        let text = fs::read_to_string(&path).with_context(|| mistake.file.clone())?;
        fs::write(&path, mistake.planted(&text)?)?;
        let with = outcome(&mistake.test, tree, &log);
        fs::write(&path, text)?;
        match with? {
            Outcome::Failed => println!("{}: detected", mistake.name),
            Outcome::Passed => {
                println!("{}: NOT detected", mistake.name);
                missed.push(mistake.name.clone());
            }
            Outcome::DidNotCompile => {
                bail!("{} does not compile: see {}", mistake.name, log.display())
            }
        }
    }
    Ok(missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(name: &str, from: &str, to: &str) -> Mistake {
        Mistake {
            name: name.to_owned(),
            file: "f".to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            test: "grep -q one f && { grep -vq three f || { echo could not compile; exit 1; }; }"
                .to_owned(),
        }
    }

    #[test]
    fn mistakes_are_detected_by_tests_that_fail() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).expect("a folder");
        fs::write(tree.join("f"), "one two\n").expect("a file");
        let tried = |mistakes: &[&Mistake]| judge(Some("touch prepared"), mistakes, &tree);
        let (seen, unseen) = (mistake("seen", "one", "1"), mistake("unseen", "two", "2"));
        assert_eq!(tried(&[&seen, &unseen]).expect("tests"), ["unseen"]);
        let after = fs::read_to_string(tree.join("f")).expect("a file");
        assert_eq!(after, "one two\n");
        assert!(tree.join("prepared").exists());

        let broken = mistake("broken", "two", "three");
        assert!(tried(&[&broken]).is_err());
        let absent = mistake("absent", "four", "4");
        let error = tried(&[&absent]).expect_err("no such text").to_string();
        assert_eq!(error, "absent: `four` occurs 0 times in f");
        fs::write(tree.join("f"), "two\n").expect("a file");
        let error = tried(&[&unseen])
            .expect_err("a test that fails")
            .to_string();
        assert!(error.starts_with("without a mistake, "), "{error}");
    }
}

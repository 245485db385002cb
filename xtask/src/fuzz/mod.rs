//! Runs the command line on damaged files. No file may make it panic, hang, exhaust memory, or leave half a
//! file.
//!
//! Each case runs in its own process, which also detects crashes, such as a stack overflow or exhausted
//! memory. A case depends only on the seed and its number.

mod damage;
mod judge;
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use xshell::cmd;

use crate::paths::shell;
use damage::Damage;
use targets::Target;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many cases
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Which ones: the same seed gives the same cases
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only the case of this number
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// The program [default: built in release mode]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs the cases. The files of failed cases are kept in `target/fuzz`.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let Arguments {
        cases,
        seed,
        only,
        program,
    } = arguments;
    let program = match program {
        Some(program) => fs::canonicalize(program)?,
        None => {
            let shell = shell(root)?;
            cmd!(shell, "cargo build --locked --release -p convfuse-cli")
                .quiet()
                .run()?;
            root.join("target/release/convfuse")
        }
    };
    let targets = targets::all(root)?;
    let numbers = only.map_or(0..*cases, |number| number..number + 1);
    // The outcomes of the cases, by target.
    let mut tally = BTreeMap::<_, BTreeMap<_, u64>>::new();
    let mut failures = 0;
    let start = Instant::now();
    let mut said = start;
    for number in numbers.clone() {
        let mut damage = Damage::of_case(*seed, number);
        let target = damage.one(&targets);
        let folder = root.join(format!("target/fuzz/{number}"));
        let verdict = one_case(&program, target, &mut damage, &folder)?;
        let ended = verdict.as_ref().map_or("failed", |ended| ended);
        *tally
            .entry(target.name)
            .or_default()
            .entry(ended)
            .or_default() += 1;
        if let Err(why) = verdict {
            failures += 1;
            println!("case {number}, {}: {why}", target.name);
            println!("    its files and commands: {}", folder.display());
            println!("    again: cargo xtask fuzz --seed {seed} --only {number}");
        } else if only.is_none() {
            fs::remove_dir_all(&folder)?;
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            eprintln!("{} of {} cases, {failures} failed", number + 1, numbers.end);
        }
    }
    let (count, seconds) = (numbers.end - numbers.start, start.elapsed().as_secs());
    println!("{count} cases in {seconds} s, seed {seed}");
    for (name, ended) in tally {
        let ended: Vec<String> = ended
            .iter()
            .map(|(how, count)| format!("{count} {how}"))
            .collect();
        println!("    {name:<12} {}", ended.join(", "));
    }
    ensure!(failures == 0, "{failures} cases failed");
    Ok(())
}

/// Writes a case's files to `folder`, runs the program on them, and judges the outcome.
fn one_case(
    program: &Path,
    target: &Target,
    damage: &mut Damage,
    folder: &Path,
) -> Result<Result<&'static str, String>> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("golden"))?;
    for (name, contents) in &target.beside {
        fs::write(folder.join(name), contents)?;
    }
    let [(name, whole), (_, other)] = [0; 2].map(|_| damage.one(&target.seeds));
    fs::write(folder.join(name), damage.of(target.format, whole, other))?;
    let command = damage.one(target.commands).replace("FILE", name);
    fs::write(folder.join("command.txt"), format!("convfuse {command}\n"))?;
    judge::judge(program, &command, folder, "5")
}

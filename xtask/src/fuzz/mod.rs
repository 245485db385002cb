//! Damaged files given to the command line, without end or as many as asked for: none may make it panic,
//! hang, use up memory, or leave half a file.
//!
//! Each case is a process of its own, so what ends the process is noticed: a stack that overflows, memory
//! that runs out. A case follows from the seed and its number alone.

mod damage;
mod judge;
mod targets;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use damage::Damage;
use judge::Verdict;
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

/// Where files of cases that failed are kept.
const KEPT: &str = "target/fuzz";

/// Runs the cases.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let program = match &arguments.program {
        Some(program) => fs::canonicalize(program)?,
        None => build(root)?,
    };
    let targets = targets::all(root)?;
    let work = root.join(KEPT);
    fs::create_dir_all(&work)?;
    let numbers = match arguments.only {
        Some(number) => number..number + 1,
        None => 0..arguments.cases,
    };
    let mut tally = vec![Tally::default(); targets.len()];
    let mut failures = 0;
    let start = Instant::now();
    let mut said = start;
    for number in numbers.clone() {
        let mut damage = Damage::of_case(arguments.seed, number);
        let index = damage.below(targets.len());
        let target = &targets[index];
        let folder = work.join(number.to_string());
        let verdict = one_case(&program, target, &mut damage, &folder)?;
        tally[index].add(&verdict);
        if let Verdict::Wrong(why) = verdict {
            failures += 1;
            println!("case {number}, {}: {why}", target.name);
            println!("    its files and commands: {}", folder.display());
            println!(
                "    again: cargo xtask fuzz --seed {} --only {number}",
                arguments.seed
            );
        } else if arguments.only.is_none() {
            fs::remove_dir_all(&folder)?;
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            eprintln!("{} of {} cases, {failures} failed", number + 1, numbers.end);
        }
    }
    let seconds = start.elapsed().as_secs();
    println!(
        "{} cases in {seconds} s, seed {}",
        numbers.end - numbers.start,
        arguments.seed
    );
    for (target, tally) in targets.iter().zip(&tally) {
        println!("    {:<12} {tally}", target.name);
    }
    match failures {
        0 => Ok(()),
        count => Err(format!("{count} cases failed").into()),
    }
}

/// Writes a case's files to `folder` and judges what the program does with them.
fn one_case(
    program: &Path,
    target: &Target,
    damage: &mut Damage,
    folder: &Path,
) -> Result<Verdict, Box<dyn Error>> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    for (name, contents) in &target.beside {
        fs::write(folder.join(name), contents)?;
    }
    let seed = &target.seeds[damage.below(target.seeds.len())];
    let other = &target.seeds[damage.below(target.seeds.len())];
    let contents = damage.of(target.format, &seed.contents, &other.contents);
    let name = target.file_name(seed);
    if let Some(parent) = folder.join(&name).parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(folder.join(&name), contents)?;
    let command = target.commands[damage.below(target.commands.len())].replace("FILE", &name);
    fs::write(folder.join("command.txt"), format!("convfuse {command}\n"))?;
    judge::judge(program, &command, folder)
}

fn build(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--locked",
            "--release",
            "--package",
            "convfuse-cli",
        ])
        .current_dir(root)
        .status()?;
    match built.success() {
        true => Ok(root.join("target/release/convfuse")),
        false => Err("the program cannot be built".into()),
    }
}

/// How a target's cases ended.
#[derive(Clone, Default)]
struct Tally {
    taken: u64,
    refused: u64,
    long: u64,
    wrong: u64,
}

impl Tally {
    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Taken => &mut self.taken,
            Verdict::Refused => &mut self.refused,
            Verdict::Long => &mut self.long,
            Verdict::Wrong(_) => &mut self.wrong,
        } += 1;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally {
            taken,
            refused,
            long,
            wrong,
        } = self;
        write!(
            f,
            "{taken} taken, {refused} refused, {long} interrupted as long, {wrong} failed"
        )
    }
}

#[cfg(test)]
mod tests;

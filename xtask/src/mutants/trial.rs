//! Runs tests with a mutant active.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::copy::Tests;
use super::rewrite::Mutant;

/// Why a test could not be run.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Orders of threads in the emulator.
const NATURAL: &str = "natural";
const SHUFFLED: &str = "shuffled";

/// KiB that a test may have: a mutant of a geometry may ask for any amount.
const MEMORY: u64 = 16 << 20;

/// The same of a test that fails with less: tensors of more elements than 32 bits count are addresses, of
/// which few are used.
const FAR_MEMORY: u64 = 64 << 30;

/// A test, and what a run without a mutant showed of it.
pub(crate) struct Case {
    tests: PathBuf,
    /// Program and test.
    pub(crate) name: String,
    test: String,
    /// Whether it can run in a shuffled order as well.
    has_orders: bool,
    seconds: f64,
    memory: u64,
    pub(crate) reached: BTreeSet<u32>,
}

/// What came of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A test failed: which, and how.
    Noticed { by: String, how: String },
    /// As many tests reach it, and none fails.
    NotNoticed { tests: usize },
    /// No test reaches it.
    NotReached,
}

/// All tests, in the order of the time they take, each run once, in natural order, without a mutant.
///
/// # Errors
/// A test that fails without a mutant.
pub(crate) fn cases(
    programs: &[Tests],
    scratch: &Path,
    jobs: usize,
) -> Result<Vec<Case>, Box<dyn Error>> {
    fs::create_dir_all(scratch)?;
    let mut names = Vec::new();
    for program in programs {
        let list = Command::new(&program.path)
            .args(["--list", "--format", "terse"])
            .output()?;
        let list = String::from_utf8(list.stdout)?;
        let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
        names.extend(tests.map(|test| (program, test.to_owned())));
    }
    let results = in_parallel(jobs, names, |number, (program, test)| {
        let reached = scratch.join(format!("reached-{number}"));
        let _ = fs::remove_file(&reached);
        let mut case = Case {
            tests: program.path.clone(),
            name: format!("{}::{test}", program.name),
            test: test.clone(),
            has_orders: program.name == "emulator",
            seconds: f64::INFINITY,
            memory: MEMORY,
            reached: BTreeSet::new(),
        };
        let output = scratch.join(format!("output-{number}"));
        let note = reached.as_os_str().to_str().unwrap_or_default();
        let mut run = |memory| {
            case.memory = memory;
            let start = Instant::now();
            let how = case.run(("MUTANTS_REACHED", note), NATURAL, &output);
            how.map(|how| (how, start.elapsed().as_secs_f64()))
        };
        let (mut how, mut seconds) = run(MEMORY)?;
        if how.is_some() {
            (how, seconds) = run(FAR_MEMORY)?;
        }
        case.seconds = seconds;
        if let Some(how) = how {
            return Err(format!("{} fails without a mutant: {how}", case.name).into());
        }
        if !fs::read_to_string(&output)?.contains("1 passed") {
            return Err(format!("{} did not run", case.name).into());
        }
        let text = fs::read_to_string(&reached).unwrap_or_default();
        case.reached = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(case)
    });
    let results = results
        .into_iter()
        .map(|case| case.map_err(|error: Failure| error as Box<dyn Error>));
    let mut cases = results.collect::<Result<Vec<_>, _>>()?;
    cases.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(cases)
}

/// What becomes of each of these mutants, with `done` called as each is decided.
pub(crate) fn outcomes(
    cases: &[Case],
    mutants: &[Mutant],
    scratch: &Path,
    jobs: usize,
    done: impl Fn(u32, &Outcome) + Sync,
) -> Vec<(u32, Result<Outcome, Failure>)> {
    in_parallel(jobs, mutants.iter().collect(), |_, mutant| {
        let outcome = outcome(cases, mutant, scratch);
        if let Ok(outcome) = &outcome {
            done(mutant.number, outcome);
        }
        (mutant.number, outcome)
    })
}

fn outcome(cases: &[Case], mutant: &Mutant, scratch: &Path) -> Result<Outcome, Failure> {
    let number = mutant.number;
    let output = scratch.join(format!("mutant-{number}"));
    let reaching = || cases.iter().filter(|case| case.reached.contains(&number));
    let orders = if mutant.site.kind.is_of_order() {
        &[NATURAL, SHUFFLED][..]
    } else {
        &[NATURAL]
    };
    for order in orders {
        for case in reaching().filter(|case| *order == NATURAL || case.has_orders) {
            let noticed = case.run(("MUTANT", &number.to_string()), order, &output)?;
            let _ = fs::remove_file(&output);
            if let Some(how) = noticed {
                let by = format!("{}, {order}", case.name);
                return Ok(Outcome::Noticed { by, how });
            }
        }
    }
    Ok(match reaching().count() {
        0 => Outcome::NotReached,
        tests => Outcome::NotNoticed { tests },
    })
}

impl Case {
    /// Runs the test with this variable, its output in a file: how it failed, if it did.
    fn run(
        &self,
        variable: (&str, &str),
        order: &str,
        output: &Path,
    ) -> Result<Option<String>, Failure> {
        // Of a loaded machine, the seconds without a mutant are more than those of a processor.
        let [cpu, wall] = match self.seconds.is_finite() {
            true => [10.0 + 3.0 * self.seconds, 60.0 + 20.0 * self.seconds],
            false => [3600.0; 2],
        };
        let file = File::create(output)?;
        let limits = format!(
            "ulimit -c 0; ulimit -t {}; ulimit -v {}; exec \"$@\"",
            cpu as u64, self.memory
        );
        let mut child = Command::new("sh")
            .args(["-c", &limits, "sh"])
            .arg(&self.tests)
            .args(["--exact", &self.test, "--test-threads=1"])
            .env_remove("MUTANT")
            .env_remove("MUTANTS_REACHED")
            .env(variable.0, variable.1)
            .env("CONVFUSE_TEST_ORDER", order)
            // The oracle's threads would compete with other tests.
            .env("RAYON_NUM_THREADS", "1")
            .env("RUST_BACKTRACE", "0")
            .stderr(file.try_clone()?)
            .stdout(file)
            .spawn()?;
        let status = within(&mut child, Duration::from_secs_f64(wall))?;
        Ok(match status {
            None => Some("takes too long".into()),
            Some(status) if status.success() => None,
            Some(status) => Some(message(
                &fs::read_to_string(output).unwrap_or_default(),
                status,
            )),
        })
    }
}

/// Waits so long for a process, and ends it then.
fn within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What a test said when it failed, in one line.
fn message(output: &str, status: ExitStatus) -> String {
    let mut lines = output
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let said = lines.nth(1).filter(|line| !line.is_empty());
    let said = said.map_or_else(|| status.to_string(), str::to_owned);
    said.chars().take(200).collect()
}

/// Does something to each of these, so many at a time.
fn in_parallel<T: Send + Sync, R: Send>(
    jobs: usize,
    what: Vec<T>,
    f: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let next = Mutex::new(0..what.len());
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(number) = next.lock().ok().and_then(|mut next| next.next()) else {
                return;
            };
            let result = f(number, &what[number]);
            if let Ok(mut results) = results.lock() {
                results.push((number, result));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_ended() {
        let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(
            within(&mut sleeper, Duration::from_millis(50))
                .unwrap()
                .is_none()
        );
        let mut quick = Command::new("true").spawn().unwrap();
        assert!(
            within(&mut quick, Duration::from_secs(60))
                .unwrap()
                .unwrap()
                .success()
        );
    }

    #[test]
    fn results_are_in_the_order_of_what_was_asked() {
        let squares = in_parallel(3, (0..50).collect(), |number, value: &usize| number * value);
        assert_eq!(
            squares,
            (0..50).map(|value| value * value).collect::<Vec<_>>()
        );
    }
}

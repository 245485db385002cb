//! `convfuse campaign`: random cases without end, see [`convfuse_cli::campaign`].

mod tally;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use convfuse_cli::Status;
use convfuse_cli::campaign::{Campaign, FAMILIES, Family, Target};
use serde_json::json;

use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::interrupt;
use super::json::{Found, Json};
use super::out::Out;
use tally::Tally;

/// Options of `campaign`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Number of cases
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Number of cases of each family, instead of --cases
    #[arg(long, value_name = "CASES", conflicts_with = "cases")]
    of_each: Option<u64>,
    /// Seed of all cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first number: where another campaign of this seed ended
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Begin no further case after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    /// Only cases of this family: an operator, a kind of chain, `operators` for all of the former or `chains`
    /// for all of the latter; may be given several times
    #[arg(long, value_parser = families)]
    family: Vec<Families>,
    /// Multiplications that a case may have at the most [default: what the device does in about a second]
    #[arg(long)]
    cost: Option<u64>,
    /// Cases at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Run one case of --family, with the choices that a failure's report shows
    #[arg(long, value_name = "N,N,..", requires = "family", value_delimiter = ',', num_args = 0..=1,
          conflicts_with_all = ["cases", "of_each", "seed", "first", "seconds", "threads"])]
    choices: Option<Vec<u32>>,
    #[command(flatten)]
    json: Json,
}

/// The families of a name.
#[derive(Clone)]
struct Families(Vec<&'static Family>);

fn families(name: &str) -> Result<Families, String> {
    match Family::named(name) {
        found if found.is_empty() => {
            let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            let (operators, chains) = (Family::OPERATORS, Family::CHAINS);
            Err(format!(
                "must be one of {}; {operators} or {chains}",
                names.join(", ")
            ))
        }
        found => Ok(Families(found)),
    }
}

impl Arguments {
    /// The requested families in a fixed order without duplicates; all families if none is requested.
    fn families(&self) -> Vec<&'static Family> {
        let asked: Vec<&str> = self
            .family
            .iter()
            .flat_map(|Families(families)| families.iter().map(|family| family.name))
            .collect();
        let is_asked = |family: &&Family| asked.is_empty() || asked.contains(&family.name);
        FAMILIES.iter().filter(is_asked).collect()
    }

    /// The single family of `--choices`.
    fn only_family(&self) -> Result<&'static Family, Failure> {
        match self.families()[..] {
            [family] => Ok(family),
            _ => Err("--choices are of one --family".into()),
        }
    }

    /// The number of cases. All case numbers must fit in 64 bits.
    fn cases(&self) -> Result<u64, Failure> {
        let families = self.families().len() as u64;
        let cases = match self.of_each {
            Some(cases) => cases.checked_mul(families),
            None => Some(self.cases),
        };
        let is_numbered = |cases: &u64| self.first.checked_add(*cases).is_some();
        let cases = cases.filter(is_numbered);
        Ok(cases.ok_or("--first and the number of cases come to more than 2^64 - 1")?)
    }
}

/// The cost that a device computes in about a second, as [`oracle::Case::cost`] counts it: the case in all
/// modes, and the reference.
fn usual_cost(choice: Choice) -> u64 {
    let slow = if cfg!(debug_assertions) { 10 } else { 1 };
    match choice {
        Choice::Emulator => 3_000_000 / slow,
        Choice::Cpu => 20_000_000 / slow,
        Choice::Gpu(_) | Choice::Best => 60_000_000 / slow,
    }
}

/// How long an interrupt waits for the running cases and the summary.
const LAST_CASES: Duration = Duration::from_secs(60);

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let (at_end, ended) = mpsc::channel::<()>();
    let tell = Arc::clone(&is_interrupted);
    let guard = interrupt::wait(move || {
        tell.store(true, Ordering::Relaxed);
        // No message is sent: the channel closes after the last output, or when the reader closes the
        // output.
        let _ = ended.recv_timeout(LAST_CASES);
    });
    let outcome = json.record("campaign", out, |out, found| {
        campaign(arguments, &is_interrupted, out, found)
    });
    drop((at_end, guard));
    // The waiting thread ends the program now.
    while is_interrupted.load(Ordering::Relaxed) {
        std::thread::park();
    }
    outcome
}

fn campaign(
    arguments: &Arguments,
    is_interrupted: &AtomicBool,
    out: &mut Out,
    found: &mut Found,
) -> Outcome {
    let choice = arguments.device;
    let (families, cases) = (arguments.families(), arguments.cases()?);
    let by_choices = match &arguments.choices {
        Some(choices) => Some((arguments.only_family()?, choices.clone())),
        None => None,
    };
    let device = choice.open()?;
    writeln!(out, "device\n{}", device.info())?;
    found.note("device", json!(device.info()));
    let target = match choice {
        Choice::Emulator => Target::Emulator,
        _ => Target::Device(device),
    };
    let campaign = Campaign {
        target,
        cases,
        families,
        seed: arguments.seed,
        first: arguments.first,
        most: arguments.cost.unwrap_or_else(|| usual_cost(choice)),
        time: arguments.seconds.map_or(Duration::MAX, Duration::from_secs),
        threads: arguments.threads.into(),
    };
    for (family, least) in campaign.left_out() {
        let (name, most) = (family.name, campaign.most);
        writeln!(
            out,
            "{name} is left out: its simplest case costs {least}, --cost is {most}"
        )?;
    }
    // The table only comes at the end, which may take long.
    out.flush()?;
    let mut tally = Tally::new(choice, &campaign);
    let done = match by_choices {
        Some((family, choices)) => tally.one(family, choices, &campaign, out),
        None => tally.all(&campaign, is_interrupted, out),
    };
    tally.report(out, found)?;
    done?;
    match tally.status {
        Status::Right if tally.runs() == 0 => Err(Failure::Refused(tally.idle(&campaign))),
        status => Ok(status),
    }
}

//! `convfuse campaign`: random cases without end, see [`convfuse_cli::campaign`].

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::CellAlignment::{Left, Right};
use convfuse_cli::Status;
use convfuse_cli::campaign::{Campaign, Done, Draft, FAMILIES, Family, Place, Verdict};
use serde::Serialize;
use serde_json::json;

use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::out::{Out, plain, say};
use super::progress::Step;
use super::table::aligned;

/// Options of `campaign`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// How many cases
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// What cases follow from, with their numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first number: where another campaign of this seed ended
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Begin no other case after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    /// Only cases of this family: an operator, or a kind of chain
    #[arg(long, value_parser = family)]
    family: Option<&'static Family>,
    /// Multiplications that a case may have at the most [default: what the device does in about a second]
    #[arg(long)]
    cost: Option<u64>,
    /// Cases at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Do one case of --family, by the choices that a failure was told with
    #[arg(long, value_name = "N,N,..", requires = "family", value_delimiter = ',', num_args = 0..=1,
          conflicts_with_all = ["cases", "seed", "first", "seconds", "threads"])]
    choices: Option<Vec<u32>>,
    #[command(flatten)]
    json: Json,
}

fn family(name: &str) -> Result<&'static Family, String> {
    Draft::family(name).ok_or_else(|| {
        let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// What a failure is made smaller for, or a tenth of --seconds.
const SHRINKING: Duration = Duration::from_secs(60);

/// Failures that are made smaller; the others are told as they are.
const SHRUNK: usize = 5;

/// What a device does of a case in about a second, as [`oracle::Case::cost`] counts it: all ways, and the reference.
fn usual_cost(choice: Choice) -> u64 {
    let slow = if cfg!(debug_assertions) { 10 } else { 1 };
    match choice {
        Choice::Emulator => 3_000_000 / slow,
        Choice::Cpu => 20_000_000 / slow,
        Choice::Gpu(_) | Choice::Best => 60_000_000 / slow,
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("campaign", out, |out, found| {
        campaign(arguments, out, found)
    })
}

fn campaign(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    let choice = arguments.device;
    let device = choice.open()?;
    writeln!(out, "device\n{}", device.info())?;
    found.note("device", json!(device.info()));
    let place = match choice {
        Choice::Emulator => Place::Emulator,
        _ => Place::Device(device),
    };
    let campaign = Campaign {
        place,
        family: arguments.family,
        seed: arguments.seed,
        first: arguments.first,
        cases: arguments.cases,
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
    let mut tally = Tally::new(choice, &campaign);
    let done = match (&arguments.choices, arguments.family) {
        (Some(choices), Some(family)) => tally.one(family, choices.clone(), &campaign, out),
        _ => tally.all(&campaign, out),
    };
    tally.report(out, found)?;
    done?;
    match tally.status {
        Status::Right if tally.runs() == 0 => Err(Failure::Refused(tally.idle(&campaign))),
        status => Ok(status),
    }
}

/// What the cases of a family came to.
#[derive(Debug, Default, Serialize)]
struct Line {
    cases: u64,
    /// That the specification refuses, and the device, too.
    refused: u64,
    /// For which no draft was cheap enough.
    too_costly: u64,
    runs: usize,
    elements: usize,
    wrong: u64,
    failed: u64,
    /// The largest part of its tolerance that an element used: of accurate f32, fast f32, f16, bf16.
    tolerance_used: [f64; 4],
}

#[derive(Debug, Serialize)]
struct Complaint {
    status: Status,
    number: u64,
    text: String,
    case: String,
    repeat: String,
}

struct Tally {
    lines: BTreeMap<&'static str, Line>,
    /// How many cases reached each kernel.
    kernels: BTreeMap<&'static str, u64>,
    complaints: Vec<Complaint>,
    status: Status,
    device: Choice,
    most: u64,
    /// The number behind the last of which all before are done.
    next: u64,
    behind: Vec<u64>,
}

impl Tally {
    fn new(device: Choice, campaign: &Campaign) -> Tally {
        Tally {
            lines: BTreeMap::new(),
            kernels: BTreeMap::new(),
            complaints: Vec::new(),
            status: Status::Right,
            device,
            most: campaign.most,
            next: campaign.first,
            behind: Vec::new(),
        }
    }

    fn all(&mut self, campaign: &Campaign, out: &mut Out) -> Result<(), Failure> {
        let step = Step::start(format!(
            "cases from number {} of seed {}",
            campaign.first, campaign.seed
        ));
        let mut count = 0;
        let done = campaign.run(|done| {
            count += 1;
            step.at(count, usize::try_from(campaign.cases).unwrap_or(0), "");
            self.add(done, campaign, out)
        });
        step.done();
        done
    }

    fn one(
        &mut self,
        family: &'static Family,
        choices: Vec<u32>,
        campaign: &Campaign,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let draft = Draft::chosen(family, choices, campaign.most).ok_or_else(|| {
            let text = "the case costs more than --cost".to_owned();
            Failure::Refused(text)
        })?;
        writeln!(out, "{}", plain(&draft.summary()))?;
        let verdict = draft.judge(&campaign.place);
        self.note(0, &draft, verdict, None, out)
    }

    fn add(&mut self, done: Done, campaign: &Campaign, out: &mut Out) -> Result<(), Failure> {
        self.behind.push(done.number);
        while let Some(at) = self.behind.iter().position(|&number| number == self.next) {
            self.behind.swap_remove(at);
            self.next = self.next.wrapping_add(1);
        }
        match done.draft {
            Some((draft, verdict)) => self.note(done.number, &draft, verdict, Some(campaign), out),
            None => {
                let by_number = &FAMILIES[(done.number % FAMILIES.len() as u64) as usize];
                let name = campaign.family.unwrap_or(by_number).name;
                self.lines.entry(name).or_default().too_costly += 1;
                Ok(())
            }
        }
    }

    /// Takes in what became of a case; one that failed is made smaller where it is part of a campaign.
    fn note(
        &mut self,
        number: u64,
        draft: &Draft,
        verdict: Verdict,
        campaign: Option<&Campaign>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let line = self.lines.entry(draft.family.name).or_default();
        line.cases += 1;
        line.refused += u64::from(verdict.is_refused);
        line.runs += verdict.runs;
        line.elements += verdict.elements;
        for (largest, used) in line.tolerance_used.iter_mut().zip(verdict.used) {
            *largest = largest.max(used);
        }
        for kernel in verdict.kernels {
            *self.kernels.entry(kernel).or_default() += 1;
        }
        let Some(trouble) = verdict.trouble else {
            return Ok(());
        };
        match trouble.status {
            Status::Wrong => line.wrong += 1,
            _ => line.failed += 1,
        }
        self.status = self.status.and(trouble.status);
        // Told at once, for the next steps may not end.
        let family = draft.family.name;
        writeln!(out, "case {number} ({family}): {}", plain(&trouble.text))?;
        let repeat = self.repeat(draft);
        writeln!(out, "  {}\n  repeat: {repeat}", plain(&draft.summary()))?;
        out.flush()?;
        let (mut text, mut case, mut repeat) = (trouble.text, draft.summary(), repeat);
        if let Some(campaign) = campaign
            && self.complaints.len() < SHRUNK
            && let Some(same) = Draft::chosen(draft.family, draft.choices.clone(), self.most)
        {
            let time = SHRINKING.min(campaign.time / 10);
            let smaller = same.smaller(&campaign.place, self.most, time);
            let of_smaller = smaller.judge(&campaign.place).trouble;
            if let Some(trouble) = of_smaller {
                (text, case, repeat) = (trouble.text, smaller.summary(), self.repeat(&smaller));
                writeln!(out, "  smaller: {}\n  {}", plain(&text), plain(&case))?;
                writeln!(out, "  repeat: {repeat}")?;
                out.flush()?;
            }
        }
        self.complaints.push(Complaint {
            status: trouble.status,
            number,
            text,
            case,
            repeat,
        });
        Ok(())
    }

    /// The command that does a draft again.
    fn repeat(&self, draft: &Draft) -> String {
        let choices: Vec<String> = draft.choices.iter().map(u32::to_string).collect();
        format!(
            "convfuse campaign --device {} --family {} --cost {} --choices {}",
            self.device,
            draft.family.name,
            self.most,
            choices.join(",")
        )
    }

    /// How many results were compared.
    fn runs(&self) -> usize {
        self.lines.values().map(|line| line.runs).sum()
    }

    /// Why none was.
    fn idle(&self, campaign: &Campaign) -> String {
        let sum = |of: fn(&Line) -> u64| self.lines.values().map(of).sum::<u64>();
        let (refused, costly) = (sum(|line| line.refused), sum(|line| line.too_costly));
        let mut text = format!(
            "nothing ran: {refused} cases are refused, {costly} cost more than --cost {}",
            self.most
        );
        if let Some(family) = campaign.family {
            let least = Draft::least_cost(family);
            text += &format!(", and the simplest of {} costs {least}", family.name);
        }
        text
    }

    fn report(&self, out: &mut Out, found: &mut Found) -> Result<(), Failure> {
        found.note("families", json!(self.lines));
        let idle = self.lines.iter().filter(|(_, line)| line.runs == 0);
        let idle: Vec<_> = idle.map(|(name, _)| name).collect();
        found.note("nothing_ran", json!(idle));
        found.note("kernels", json!(self.kernels));
        found.note("complaints", json!(self.complaints));
        found.note("next", json!(self.next));
        let mut table = aligned([
            ("family", Left),
            ("cases", Right),
            ("refused", Right),
            ("too costly", Right),
            ("runs", Right),
            ("of tolerance: f32, fast, f16, bf16", Right),
            ("verdict", Left),
        ]);
        for (name, line) in &self.lines {
            let used = line
                .tolerance_used
                .map(|used| format!("{:.0} %", 100.0 * used));
            table.add_row([
                (*name).to_owned(),
                line.cases.to_string(),
                line.refused.to_string(),
                line.too_costly.to_string(),
                line.runs.to_string(),
                used.join(" "),
                match (line.wrong, line.failed) {
                    (0, 0) if line.runs == 0 => "NOTHING RAN".to_owned(),
                    (0, 0) => "right".to_owned(),
                    (wrong, failed) => format!("{wrong} WRONG, {failed} FAILED"),
                },
            ]);
        }
        writeln!(out, "{}\n", table.trim_fmt())?;
        if !self.kernels.is_empty() {
            writeln!(out, "cases that reached a kernel")?;
            for (kernel, cases) in &self.kernels {
                writeln!(out, "{cases:>8}  {kernel}")?;
            }
        }
        say(format_args!("the next case is number {}", self.next));
        out.flush()
    }
}

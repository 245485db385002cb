//! The results of a campaign, and their report.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comfy_table::CellAlignment::{Left, Right};
use convfuse_cli::Status;
use convfuse_cli::campaign::{Campaign, Done, Family, GeneratedCase, Verdict};
use serde::Serialize;
use serde_json::json;

use super::super::device::Choice;
use super::super::failure::Failure;
use super::super::interrupt::INTERRUPTED;
use super::super::json::Found;
use super::super::out::{Out, plain, say};
use super::super::progress::Step;
use super::super::table::aligned;

/// The time limit for reducing a failure, unless a tenth of --seconds is less.
const SHRINKING: Duration = Duration::from_secs(60);

/// The number of failures that are reduced; others are reported without reduction.
const SHRUNK: usize = 5;

/// The results of a family's cases.
#[derive(Debug, Default, Serialize)]
struct Line {
    cases: u64,
    /// Cases that both the specification and the device refuse.
    refused: u64,
    /// Numbers without a cheap enough case.
    too_costly: u64,
    runs: usize,
    elements: usize,
    wrong: u64,
    failed: u64,
    /// The largest ratio of error to tolerance: in accurate f32, fast f32, f16, bf16.
    tolerance_used: [f64; 4],
}

impl Line {
    /// Adds the results of another line.
    fn add(&mut self, other: &Line) {
        self.cases += other.cases;
        self.refused += other.refused;
        self.too_costly += other.too_costly;
        self.runs += other.runs;
        self.elements += other.elements;
        self.wrong += other.wrong;
        self.failed += other.failed;
        self.note_used(other.tolerance_used);
    }

    fn note_used(&mut self, used: [f64; 4]) {
        for (largest, used) in self.tolerance_used.iter_mut().zip(used) {
            *largest = largest.max(used);
        }
    }

    /// Formats a row of the table.
    fn row(&self, name: &str) -> [String; 7] {
        let used = self
            .tolerance_used
            .map(|used| format!("{:.0} %", 100.0 * used));
        [
            name.to_owned(),
            self.cases.to_string(),
            self.refused.to_string(),
            self.too_costly.to_string(),
            self.runs.to_string(),
            used.join(" "),
            match (self.wrong, self.failed) {
                (0, 0) if self.runs == 0 => "NOTHING RAN".to_owned(),
                (0, 0) => "right".to_owned(),
                (wrong, failed) => format!("{wrong} WRONG, {failed} FAILED"),
            },
        ]
    }
}

#[derive(Debug, Serialize)]
struct Complaint {
    status: Status,
    number: u64,
    text: String,
    case: String,
    repeat: String,
}

#[derive(Default)]
pub(super) struct Tally {
    lines: BTreeMap<&'static str, Line>,
    /// The number of cases that reached each kernel.
    kernels: BTreeMap<&'static str, u64>,
    complaints: Vec<Complaint>,
    pub(super) status: Status,
    device: Choice,
    most: u64,
    /// The first number that is not yet done. All earlier ones are.
    next: u64,
    behind: Vec<u64>,
}

impl Tally {
    pub(super) fn new(device: Choice, campaign: &Campaign) -> Tally {
        Tally {
            device,
            most: campaign.most,
            next: campaign.first,
            ..Tally::default()
        }
    }

    /// Runs all cases. After an interrupt, only those that have started.
    pub(super) fn all(
        &mut self,
        campaign: &Campaign,
        is_interrupted: &AtomicBool,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let step = Step::start(format!(
            "cases from number {} of seed {}",
            campaign.first, campaign.seed
        ));
        let mut count = 0;
        let done = campaign.run(|done| {
            count += 1;
            step.at(count, usize::try_from(campaign.cases).unwrap_or(0), "");
            self.add(done, campaign, out)?;
            match is_interrupted.load(Ordering::Relaxed) {
                true => Err(Failure::Machine(INTERRUPTED.to_owned())),
                false => Ok(()),
            }
        });
        step.done();
        done
    }

    pub(super) fn one(
        &mut self,
        family: &'static Family,
        choices: Vec<u32>,
        campaign: &Campaign,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let generated = GeneratedCase::chosen(family, choices, campaign.most)
            .ok_or("the case costs more than --cost")?;
        writeln!(out, "{}", plain(&generated.summary()))?;
        let verdict = generated.judge(&campaign.target);
        self.note(0, &generated, verdict, None, out)
    }

    fn add(&mut self, done: Done, campaign: &Campaign, out: &mut Out) -> Result<(), Failure> {
        self.behind.push(done.number);
        while let Some(at) = self.behind.iter().position(|&number| number == self.next) {
            self.behind.swap_remove(at);
            self.next = self.next.wrapping_add(1);
        }
        match done.generated {
            Some((generated, verdict)) => {
                self.note(done.number, &generated, verdict, Some(campaign), out)
            }
            None => {
                let family = Family::of_number(&campaign.families, done.number);
                self.lines.entry(family.name).or_default().too_costly += 1;
                Ok(())
            }
        }
    }

    /// Records the verdict of a case. A failing case of a campaign is reduced.
    fn note(
        &mut self,
        number: u64,
        generated: &GeneratedCase,
        verdict: Verdict,
        campaign: Option<&Campaign>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let line = self.lines.entry(generated.family.name).or_default();
        line.cases += 1;
        line.refused += u64::from(verdict.is_refused);
        line.runs += verdict.runs;
        line.elements += verdict.elements;
        line.note_used(verdict.used);
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
        // Printed immediately, since the next steps may not end.
        let family = generated.family.name;
        writeln!(out, "case {number} ({family}): {}", plain(&trouble.text))?;
        let repeat = self.repeat(generated);
        writeln!(out, "  {}\n  repeat: {repeat}", plain(&generated.summary()))?;
        out.flush()?;
        let (mut text, mut case, mut repeat) = (trouble.text, generated.summary(), repeat);
        if let Some(campaign) = campaign
            && self.complaints.len() < SHRUNK
            && let Some(same) =
                GeneratedCase::chosen(generated.family, generated.choices.clone(), self.most)
        {
            let time = SHRINKING.min(campaign.time / 10);
            let smaller = same.smaller(&campaign.target, self.most, time);
            let of_smaller = smaller.judge(&campaign.target).trouble;
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

    /// Returns the command that repeats a case.
    fn repeat(&self, generated: &GeneratedCase) -> String {
        let choices: Vec<String> = generated.choices.iter().map(u32::to_string).collect();
        format!(
            "convfuse campaign --device {} --family {} --cost {} --choices {}",
            self.device,
            generated.family.name,
            self.most,
            choices.join(",")
        )
    }

    /// Returns the number of compared results.
    pub(super) fn runs(&self) -> usize {
        self.lines.values().map(|line| line.runs).sum()
    }

    /// Explains why no result was compared.
    pub(super) fn idle(&self, campaign: &Campaign) -> String {
        let sum = |of: fn(&Line) -> u64| self.lines.values().map(of).sum::<u64>();
        let (refused, costly) = (sum(|line| line.refused), sum(|line| line.too_costly));
        let mut text = format!(
            "nothing ran: {refused} cases are refused, {costly} cost more than --cost {}",
            self.most
        );
        if let [family] = campaign.families[..] {
            let least = GeneratedCase::least_cost(family);
            text += &format!(", and the simplest of {} costs {least}", family.name);
        }
        text
    }

    pub(super) fn report(&self, out: &mut Out, found: &mut Found) -> Result<(), Failure> {
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
        let mut all = Line::default();
        for (name, line) in &self.lines {
            table.add_row(line.row(name));
            all.add(line);
        }
        if self.lines.len() > 1 {
            table.add_row(all.row("all"));
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

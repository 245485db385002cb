//! `convfuse profile`: the time of each launch and region of a run.

mod picture;

use std::path::PathBuf;

use comfy_table::CellAlignment::{Left, Right};
use comfy_table::Table;
use convfuse_cli::Status;
use convfuse_cli::bench::{Description, Profile, Protocol, Subject};
use serde_json::json;

use super::bench::{must_end_soon, repeats};
use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::files::Target;
use super::json::{Found, Json, must_differ};
use super::layers::{NO_KERNELS, RunRequest};
use super::out::{Out, plain};
use super::progress::Step;
use super::table::aligned;

/// Options of `profile`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// gpu, gpu:ORDINAL, or emulator, whose times say nothing of a GPU
    #[arg(long, default_value = "gpu")]
    device: Choice,
    #[command(flatten)]
    request: RunRequest,
    /// Repetitions, of which the medians are told [default: 50, in the emulator 1]
    #[arg(long, value_parser = repeats)]
    repeats: Option<usize>,
    /// Also draw the regions' times as bars, of one strategy; - is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("profile", out, |out, found| profile(arguments, out, found))
}

fn profile(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    // Checks everything possible before the first run.
    let json = arguments.json.target(out)?;
    let request = &arguments.request;
    let svg = arguments.svg.as_deref();
    let svg = svg.map(|path| Target::new("--svg", path)).transpose()?;
    must_differ(("--json", json.as_ref()), ("--svg", svg.as_ref()))?;
    request.must_stay(("--json", json.as_ref()))?;
    request.must_stay(("--svg", svg.as_ref()))?;
    let (description, ways) = request.read()?;
    if svg.is_some() && ways.len() > 1 {
        return Err("--svg draws one strategy; name one by --strategy".into());
    }
    if svg == Some(Target::Stdout) {
        out.be_silent();
    }
    description.must_have_memory()?;
    let stream = match arguments.device.open()? {
        cpu if cpu.is_cpu() => return Err(Failure::Refused(NO_KERNELS.to_owned())),
        device => device.stream()?,
    };
    let mut protocol = Protocol::new(&stream)?;
    protocol.repeats = arguments.repeats.unwrap_or(protocol.repeats);
    let problem = description.graph.problem(&description.input)?;
    let runs = protocol.warm_ups + protocol.repeats;
    must_end_soon(&problem, 2 * runs * ways.len(), stream.device())?;
    let subject = Subject::new(&stream, &description)?;
    writeln!(out, "{}", stream.device().info())?;
    found.note("device", json!(stream.device().info()));
    found.note("repeats", protocol.repeats);
    for (strategy, options) in ways {
        let step = Step::start(format!("{strategy} on {}", stream.device()));
        let profile = subject.profile(&options, &mut protocol)?;
        step.done();
        print(&description, &strategy.to_string(), &profile, out)?;
        if let Some(svg) = &svg {
            let device = stream.device().to_string();
            let title = format!("{}, {device}", head(&description));
            svg.write(out, &picture::of(&profile, &title))?;
        }
        let mut record = json!(profile);
        record["strategy"] = json!(strategy.name);
        found.push("profiles", record);
    }
    Ok(Status::Right)
}

/// Describes the run in one line.
fn head(description: &Description) -> String {
    let Description {
        input,
        output,
        dtype,
        ..
    } = description;
    let layers = super::layers::summary(&description.graph);
    format!("{layers}, {input:?} to {output:?}, {dtype}")
}

fn print(
    description: &Description,
    strategy: &str,
    profile: &Profile,
    out: &mut Out,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{}, {strategy}\n\n{}\n",
        head(description),
        table(profile).trim_fmt()
    )?;
    let launches = profile.launch_times.len();
    write!(
        out,
        "{launches} launches of {:.1} us together, with events between them; a run takes {:.1} us",
        profile.seconds_of_launches() * 1e6,
        profile.time.median * 1e6,
    )?;
    match profile.explanation.least_s {
        Some(least) => writeln!(out, ", at least {:.1} us by the data sheet\n", least * 1e6)?,
        None => writeln!(out, "\n")?,
    }
    out.flush()
}

fn table(profile: &Profile) -> Table {
    let mut table = aligned([
        ("region", Left),
        ("kernels", Left),
        ("launches", Right),
        ("us", Right),
        ("share", Right),
        ("least us", Right),
        ("of least", Right),
    ]);
    for region in profile.regions() {
        let least = region.least_s;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let of_least = least.filter(|_| region.seconds > 0.0);
        let of_least = of_least.map(|least| 100.0 * least / region.seconds);
        table.add_row([
            plain(region.name),
            region.kernels.to_owned(),
            region.launches.to_string(),
            format!("{:.1}", region.seconds * 1e6),
            format!("{:.1} %", 100.0 * region.share),
            or_dash(least.map(|least| format!("{:.1}", least * 1e6))),
            or_dash(of_least.map(|percent| format!("{percent:.0} %"))),
        ]);
    }
    table
}

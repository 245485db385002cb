//! `convfuse demo`: both pipelines, every strategy, time beside error.

use std::time::{Duration, Instant};

use convfuse::lab::{case_79, case_85};
use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp, Conv3dMultiplyInstanceNormClampMultiplyMax, Options,
    Pipeline, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};
use convfuse::{Counts, Device, Stream, Tensor, data};
use oracle::{Case, Expected, Precision};

use super::device::Choice;
use super::progress::Step;
use super::table::{Column, Table};
use super::{Outcome, Verdict};

/// Options of `demo`.
#[derive(clap::Args, Default)]
pub(super) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    /// Samples in the batch [default: the full 128; 1 in the emulator]
    #[arg(long)]
    batch: Option<usize>,
    /// Timed runs per strategy, of which the median counts [default: 20 on a GPU, 3 on the CPU, 1 in the emulator]
    #[arg(long)]
    runs: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let device = arguments.device.open()?;
    println!("device\n{}", device.info());
    let stream = device.stream()?;
    let settings = Settings::new(&device, arguments);
    let verdicts = [
        pipeline_85(&stream, &settings)?,
        pipeline_79(&stream, &settings)?,
    ];
    if verdicts.contains(&Verdict::Wrong) {
        eprintln!("convfuse: some outputs are wrong, see above");
        return Ok(Verdict::Wrong);
    }
    Ok(Verdict::Right)
}

struct Settings {
    batch: usize,
    runs: usize,
    seed: u64,
}

impl Settings {
    fn new(device: &Device, arguments: &Arguments) -> Settings {
        let (batch, runs) = match () {
            () if device.is_gpu() => (128, 20),
            () if device.is_cpu() => (128, 3),
            () => (1, 1),
        };
        Settings {
            batch: arguments.batch.unwrap_or(batch),
            runs: arguments.runs.unwrap_or(runs).max(1),
            seed: arguments.seed,
        }
    }
}

fn pipeline_85(stream: &Stream, settings: &Settings) -> Outcome {
    let spec = Spec85::kernelbench();
    let [_, c, h, w] = Spec85::KERNELBENCH_INPUT;
    let x = data::fill(settings.seed + 1, (settings.batch, c, h, w));
    let mut weights = Weights85::init(&spec, settings.seed);
    // Initial values of 1 and 0 would leave half the arithmetic unseen.
    let vector =
        |seed: u64, factor: f32| data::signed(settings.seed + seed, spec.out_channels) * factor;
    weights.group_norm_weight = Some(vector(2, 1.5));
    weights.group_norm_bias = Some(vector(3, 0.5));
    weights.scale = vector(4, 1.5);
    let model = Conv2dGroupNormScaleMaxPoolClamp::new(stream, &spec, &weights)?;
    let case = case_85(&spec, &weights, x);
    pipeline(
        "85: conv2d, group_norm, scale, max_pool2d, clamp",
        &model,
        &case,
        stream,
        settings,
    )
}

fn pipeline_79(stream: &Stream, settings: &Settings) -> Outcome {
    let spec = Spec79::kernelbench();
    let [_, c, d, h, w] = Spec79::KERNELBENCH_INPUT;
    let x = data::fill(settings.seed + 5, (settings.batch, c, d, h, w));
    let weights = Weights79::init(&spec, settings.seed);
    let model = Conv3dMultiplyInstanceNormClampMultiplyMax::new(stream, &spec, &weights)?;
    let case = case_79(&spec, &weights, x);
    let title = "79: conv3d, multiply, instance_norm, clamp, multiply, channel_max";
    pipeline(title, &model, &case, stream, settings)
}

fn pipeline<M: Pipeline>(
    title: &str,
    model: &M,
    case: &Case,
    stream: &Stream,
    settings: &Settings,
) -> Outcome {
    let step = Step::start(format!("{title}: float64 reference of all outputs"));
    let expected = case.expected(&Precision::F32)?;
    step.done();
    println!(
        "{title}\n  input {:?}, output {:?}\n",
        case.x.shape(),
        expected.shape()
    );
    let x = Tensor::from_array(stream, &case.x)?;
    let all = M::Strategy::ALL;
    // The CPU backend has one way to do it.
    let cpu = stream.device().is_cpu();
    let strategies = if cpu { &all[..1] } else { all };
    let mut table = Table::new(&[
        Column::Left("strategy"),
        Column::Right("ms"),
        Column::Right("moved MB"),
        Column::Right("launches"),
        Column::Right("extra MB"),
        Column::Right("largest error"),
        Column::Left("kernels"),
    ]);
    let mut complaints = Vec::new();
    for &strategy in strategies {
        let name = if cpu {
            "cpu".to_owned()
        } else {
            strategy.to_string()
        };
        let step = Step::start(format!("  {name}"));
        let options = Options::strategy(strategy);
        let measured = Measured::of(model, &x, &options, stream, settings.runs, &expected)?;
        step.done();
        let error = match measured.error {
            Ok(error) => format!("{error:.1e}"),
            Err(complaint) => {
                complaints.push(format!("{strategy}: {complaint}"));
                "WRONG".to_owned()
            }
        };
        let on_device = |text: String| if cpu { "-".to_owned() } else { text };
        table.row([
            name,
            format!("{:.3}", measured.time.as_secs_f64() * 1e3),
            on_device(megabytes(measured.counts.bytes_moved)),
            on_device(measured.counts.launches.to_string()),
            on_device(megabytes(measured.extra_bytes)),
            error,
            if cpu {
                "ndarray: im2col, dot; all cores".to_owned()
            } else {
                strategy.summary().to_owned()
            },
        ]);
    }
    println!("{table}");
    for complaint in &complaints {
        println!("  {complaint}");
    }
    Ok(if complaints.is_empty() {
        Verdict::Right
    } else {
        Verdict::Wrong
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// A strategy's figures.
struct Measured {
    time: Duration,
    counts: Counts,
    extra_bytes: u64,
    /// The largest error, or what is wrong.
    error: Result<f64, String>,
}

impl Measured {
    fn of<M: Pipeline>(
        model: &M,
        x: &Tensor,
        options: &Options<M::Strategy>,
        stream: &Stream,
        runs: usize,
        expected: &Expected,
    ) -> convfuse::Result<Measured> {
        stream.take_counts();
        let y = model.forward_with(x, options)?;
        let counts = stream.take_counts();
        let error = match expected.check(y.to_f32_array()?.view()) {
            Ok(agreement) => Ok(agreement.largest_error),
            Err(disagreement) => Err(disagreement.to_string()),
        };
        let extra_bytes = counts.peak_bytes.saturating_sub(y.bytes());
        drop(y);
        let time = median_time(model, x, options, stream, runs)?;
        Ok(Measured {
            time,
            counts,
            extra_bytes,
            error,
        })
    }
}

/// The median over `runs` runs: device time between events on a GPU, else wall-clock time.
fn median_time<M: Pipeline>(
    model: &M,
    x: &Tensor,
    options: &Options<M::Strategy>,
    stream: &Stream,
    runs: usize,
) -> convfuse::Result<Duration> {
    let mut times = Vec::with_capacity(runs);
    if stream.device().is_gpu() {
        let mut plan = model.plan(stream, x.shape(), options)?;
        let mut y = plan.output()?;
        for _ in 0..runs {
            let start = stream.record()?;
            plan.execute(x, &mut y)?;
            times.push(stream.record()?.since(&start)?);
        }
    } else {
        for _ in 0..runs {
            let start = Instant::now();
            model.forward_with(x, options)?;
            times.push(start.elapsed());
        }
    }
    times.sort();
    Ok(times[times.len() / 2])
}

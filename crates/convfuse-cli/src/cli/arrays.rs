//! `convfuse arrays`: times host arrays through a model, on one device and on several, and compares them
//! with the copies alone.

use std::time::{Duration, Instant};

use comfy_table::CellAlignment::{Left, Right};
use convfuse::model::ReplicaPlans;
use convfuse::{
    DType, Device, Element, Model, Options, Parameters, PinnedArray, Replicas, Stream, Tensor,
    bf16, data, f16, lab,
};
use convfuse_cli::Status;
use convfuse_cli::bench::{Description, Summary};
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use serde_json::{Value, json};

use super::bench::repeats as parse_repeats;
use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::out::Out;
use super::request::{Attributes, Request, Shape, describe, dtype, shape};
use super::table::aligned;

/// Options of `arrays`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Devices that share each batch, such as gpu:0,gpu:1; measured with the first alone, the first two, and
    /// so on
    #[arg(long, value_delimiter = ',', default_value = "best")]
    devices: Vec<Choice>,
    /// The input's shape: problem 85 for four extents and 79 for five
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape, default_value = "128,8,128,128")]
    shape: Shape,
    /// Element type of the model: f32, f16, bf16
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: DType,
    /// Timed runs, of which the median counts
    #[arg(long, default_value_t = 30, value_parser = parse_repeats)]
    repeats: usize,
    /// Also try other sizes of chunks (in KiB, input and output together) and numbers under way at a time
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("arrays", out, |out, found| match arguments.dtype {
        DType::F32 => measure::<f32>(arguments, out, found),
        DType::F16 => measure::<f16>(arguments, out, found),
        DType::BF16 => measure::<bf16>(arguments, out, found),
        other => Err(Failure::Refused(format!(
            "dtype is {other}, must be f32, f16 or bf16"
        ))),
    })
}

/// Returns the median seconds of `repeats` runs, after two warm-up runs.
fn median(repeats: usize, mut once: impl FnMut() -> convfuse::Result<()>) -> convfuse::Result<f64> {
    let mut times = Vec::new();
    for run in 0..repeats.max(1) + 2 {
        let start = Instant::now();
        once()?;
        let time = start.elapsed();
        if run >= 2 {
            times.push(time);
        }
    }
    Ok(middle(&times))
}

fn middle(times: &[Duration]) -> f64 {
    Summary::of(times).map_or(f64::NAN, |summary| summary.median)
}

/// Host arrays of a user.
struct Host<T: Element> {
    x: ArrayD<f32>,
    y: ArrayD<f32>,
    wanted: ArrayD<f32>,
    pinned_x: PinnedArray<T>,
    pinned_y: PinnedArray<T>,
}

fn measure<T: Element>(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    let input = &arguments.shape.0;
    let request = Request {
        title: None,
        input: input.clone(),
        attributes: Attributes::default(),
        layers: None,
    };
    let Description { graph, output, .. } = describe(&request, T::DTYPE, 0)?;
    if input[0] == 0 {
        return Err(format!("--shape {input:?} has no samples, must have at least one").into());
    }
    let devices = arguments.devices.iter().map(|choice| choice.open());
    let devices = devices.collect::<convfuse::Result<Vec<Device>>>()?;
    let first = devices.first().ok_or(convfuse::Error::NoDevices)?;
    let parameters = Parameters::init(&graph, 7).map_err(convfuse::Error::from)?;
    let model = Model::with_dtype(&first.stream()?, &graph, &parameters, T::DTYPE)?;
    let x = data::try_fill(1, IxDyn(input))?;
    let mut host = Host {
        // The expected output: the whole batch in one run.
        wanted: model
            .forward(&Tensor::from_f32_array(model.stream(), &x, T::DTYPE)?)?
            .to_f32_array()?,
        y: data::try_fill(0, IxDyn(&output))?,
        pinned_x: PinnedArray::<T>::zeros(first, input)?,
        pinned_y: PinnedArray::<T>::zeros(first, &output)?,
        x,
    };
    host.pinned_x
        .view_mut()?
        .zip_mut_with(&host.x, |to, &from| *to = T::from_f32(from));

    let (dtype, repeats) = (T::DTYPE, arguments.repeats);
    writeln!(out, "{first}, {dtype} {input:?}, medians of {repeats} runs")?;
    found.note("device", json!(first.info()));
    found.note("input", json!(input));
    found.note("dtype", dtype.to_string());
    found.note("repeats", repeats);
    let copies = copies_alone(first, &mut host, repeats, out)?;
    found.note("copies_in_turn_s", copies[0]);
    found.note("copies_at_once_s", copies[1]);
    if arguments.sweep {
        sweep(&model, &mut host, repeats, copies, out, found)?;
    }
    let mut table = aligned([
        ("devices", Left),
        ("what", Left),
        ("ms", Right),
        ("of copies one after the other", Right),
        ("of copies both at once", Right),
        ("times as fast as one device", Right),
        ("host us", Right),
    ]);
    let mut is_right = true;
    let mut replicas = || {
        let mut alone: Vec<f64> = Vec::new();
        for count in 1..=devices.len() {
            let replicas = Replicas::new(&model, &devices[..count])?;
            let rows = through(&replicas, &mut host, repeats, &mut is_right)?;
            for (index, row) in rows.into_iter().enumerate() {
                if count == 1 {
                    alone.push(row.seconds);
                }
                found.push("rows", row.record(count));
                table.add_row(row.cells(count, copies, alone[index]));
            }
        }
        Ok(())
    };
    let measured: convfuse::Result<()> = replicas();
    // Reports the results so far even if a later part failed.
    writeln!(out, "{}", table.trim_fmt())?;
    found.note("is_right", is_right);
    if !is_right {
        writeln!(
            out,
            "results differ from those of the whole batch in one run"
        )?;
        return Ok(Status::Wrong);
    }
    measured?;
    Ok(Status::Right)
}

/// Measures the seconds of copying input and output: one after the other, and both at once.
fn copies_alone<T: Element>(
    device: &Device,
    host: &mut Host<T>,
    repeats: usize,
    out: &mut Out,
) -> Result<[f64; 2], Failure> {
    let (to, from) = (device.stream()?, device.stream()?);
    let mut x = Tensor::zeros(&to, host.pinned_x.shape(), T::DTYPE)?;
    let y = Tensor::zeros(&from, host.pinned_y.shape(), T::DTYPE)?;
    let both =
        |x: &mut Tensor, host: &mut Host<T>, middle: &dyn Fn(&Stream) -> convfuse::Result<()>| {
            x.copy_from_pinned(&host.pinned_x)?;
            middle(&to)?;
            y.copy_to_pinned(&mut host.pinned_y)?;
            to.synchronize()?;
            from.synchronize()
        };
    let in_turn = median(repeats, || both(&mut x, host, &Stream::synchronize))?;
    let at_once = median(repeats, || both(&mut x, host, &|_| Ok(())))?;
    let bytes = (x.bytes() + y.bytes()) as f64;
    for (what, seconds) in [("one after the other", in_turn), ("both at once", at_once)] {
        writeln!(
            out,
            "  pinned copies alone, {what}: {:.3} ms, {:.1} GB/s",
            seconds * 1e3,
            bytes / seconds * 1e-9
        )?;
    }
    out.flush()?;
    Ok([in_turn, at_once])
}

/// A row of the table of measurements.
struct Row {
    what: &'static str,
    seconds: f64,
    has_copies: bool,
    /// Host seconds until all work was queued.
    host: Option<f64>,
}

impl Row {
    /// Formats the table's cells. `copies` are the seconds of the copies, `alone` those of one device.
    fn cells(&self, devices: usize, copies: [f64; 2], alone: f64) -> [String; 7] {
        let share = |of: f64| match self.has_copies && devices == 1 {
            true => format!("{:.2}", self.seconds / of),
            false => String::new(),
        };
        let host = self.host.map(|host| format!("{:.1}", host * 1e6));
        [
            devices.to_string(),
            self.what.to_owned(),
            format!("{:.3}", self.seconds * 1e3),
            share(copies[0]),
            share(copies[1]),
            format!("{:.2}", alone / self.seconds),
            host.unwrap_or_default(),
        ]
    }

    fn record(&self, devices: usize) -> Value {
        json!({ "devices": devices, "what": self.what, "median_s": self.seconds, "host_s": self.host })
    }
}

fn through<T: Element>(
    replicas: &Replicas,
    host: &mut Host<T>,
    repeats: usize,
    is_right: &mut bool,
) -> convfuse::Result<Vec<Row>> {
    let options = Options::default();
    let array = median(repeats, || replicas.forward_array(&host.x).map(drop))?;
    let into = median(repeats, || {
        replicas.forward_array_into(&host.x, &mut host.y, &options)
    })?;
    *is_right &= host.y == host.wanted;

    let mut queued = Vec::new();
    let pinned = median(repeats, || {
        let start = Instant::now();
        replicas.forward_pinned(&host.pinned_x, &mut host.pinned_y, &options)?;
        queued.push(start.elapsed());
        host.pinned_y.view().map(drop)
    })?;
    *is_right &= host.pinned_y.view()?.mapv(T::to_f32) == host.wanted;

    let mut plans = replicas.plan(host.x.shape(), &options)?;
    let xs = inputs::<T>(replicas, &plans, &host.x)?;
    let mut ys = plans.outputs()?;
    let (kernels, of_kernels) = kernels(&mut plans, &xs, &mut ys, repeats)?;
    let parts = ys
        .iter()
        .map(Tensor::to_f32_array)
        .collect::<convfuse::Result<Vec<_>>>()?;
    let parts: Vec<_> = parts.iter().map(|part| part.view()).collect();
    *is_right &= ndarray::concatenate(Axis(0), &parts).is_ok_and(|y| y == host.wanted);
    let row = |what, has_copies, seconds, host| Row {
        what,
        seconds,
        has_copies,
        host,
    };
    let on_devices = "plans, tensors on the devices";
    Ok(vec![
        row("forward_array", true, array, None),
        row("forward_array_into", true, into, None),
        row("forward_pinned", true, pinned, Some(middle(&queued))),
        row(on_devices, false, kernels, Some(of_kernels)),
    ])
}

fn inputs<T: Element>(
    replicas: &Replicas,
    plans: &ReplicaPlans,
    x: &ArrayD<f32>,
) -> convfuse::Result<Vec<Tensor>> {
    let shares = replicas.shares(x.shape()[0]);
    let shares = shares.into_iter().filter(|share| !share.is_empty());
    let each = plans.plans().iter().zip(shares);
    each.map(|(plan, share)| {
        let samples = x.slice_axis(Axis(0), Slice::from(share));
        Tensor::from_f32_array(plan.stream(), &samples, T::DTYPE)
    })
    .collect()
}

/// Measures the seconds of one run among many consecutive ones, and the host seconds to queue it.
fn kernels(
    plans: &mut ReplicaPlans,
    xs: &[Tensor],
    ys: &mut [Tensor],
    repeats: usize,
) -> convfuse::Result<(f64, f64)> {
    let is_gpu = xs.iter().all(|x| x.device().is_gpu());
    let in_a_row = if is_gpu { 200 } else { 1 };
    let mut queued = Vec::new();
    let seconds = median(repeats, || {
        let start = Instant::now();
        for _ in 0..in_a_row {
            plans.execute(xs, ys)?;
        }
        queued.push(start.elapsed() / in_a_row);
        plans.synchronize()
    })?;
    Ok((seconds / f64::from(in_a_row), middle(&queued)))
}

/// Measures other chunk sizes and other numbers of chunks in flight.
fn sweep<T: Element>(
    model: &Model,
    host: &mut Host<T>,
    repeats: usize,
    copies: [f64; 2],
    out: &mut Out,
    found: &mut Found,
) -> Result<(), Failure> {
    for kib in [1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384] {
        for stages in [4, 8, 12, 16] {
            let into = median(repeats, || {
                lab::forward_array_cut(model, &host.x, &mut host.y, kib << 10, stages)
            })?;
            model.trim_memory();
            found.push(
                "sweep",
                json!({ "chunk_bytes": kib << 10, "stages": stages, "median_s": into }),
            );
            writeln!(
                out,
                "  chunks of {kib} KiB, {stages} at a time: {:.3} ms, {:.2} of the copies one after the other, {:.2} of both at once",
                into * 1e3,
                into / copies[0],
                into / copies[1]
            )?;
            out.flush()?;
        }
    }
    Ok(())
}

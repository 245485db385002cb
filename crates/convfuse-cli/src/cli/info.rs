//! `convfuse info`.

use std::time::{Duration, Instant};

use comfy_table::CellAlignment::{Left, Right};
use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::{DType, Device, DeviceInfo, Model, Tensor, kernel_cache};
use convfuse_cli::{Status, told};
use serde_json::{Value, json};

use super::device::reason;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::out::{Out, plain};
use super::table;

/// Options of `info`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    json: Json,
}

/// A GPU, with the times of its first results.
struct Gpu {
    info: DeviceInfo,
    /// Problems, and the time from program start until each result is in a host array. It includes driver,
    /// context, kernels, parameters, input, launches, and the copy.
    first_results: [(&'static str, Duration); 2],
}

impl Gpu {
    fn record(&self) -> Value {
        let seconds = |(problem, time): (&str, Duration)| json!({ "problem": problem, "after": time.as_secs_f64() });
        let mut record = json!(self.info);
        record["first_results"] = json!(self.first_results.map(seconds));
        record
    }
}

pub(super) fn run(arguments: &Arguments, start: Instant, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("info", out, |out, found| info(start, out, found))
}

fn info(start: Instant, out: &mut Out, found: &mut Found) -> Outcome {
    let cpu = Device::cpu().info();
    let count = Device::gpu_count();
    found.note("cpu", json!(cpu));
    found.note("gpus", json!([]));
    found.note("no_driver", count.as_ref().err().map(ToString::to_string));
    found.note("kernel_cache", json!(kernel_cache::folder()));
    head(&cpu, out)?;
    let mut status = Status::Right;
    for ordinal in 0..count.as_ref().copied().unwrap_or(0) {
        match used(ordinal, start) {
            Ok(gpu) => {
                found.push("gpus", gpu.record());
                print(ordinal, &gpu, out)?;
            }
            Err(error) => {
                status = status.and(Status::of(&error));
                let error = told(&error);
                found.push("gpus", json!({ "error": error }));
                writeln!(out, "gpu:{ordinal}\n  unusable: {}\n", plain(&error))?;
            }
        }
        out.flush()?;
    }
    match count {
        Ok(0) => writeln!(out, "no GPU: the driver is there, but sees no device")?,
        Ok(_) => {}
        Err(error) => writeln!(out, "no GPU: {error}")?,
    }
    match reason(&Device::best()) {
        None => writeln!(out, "--device best is gpu:0")?,
        Some(reason) => writeln!(out, "--device best is cpu: {reason}")?,
    }
    Ok(status)
}

/// Runs both problems at full size on a GPU.
fn used(ordinal: u32, start: Instant) -> convfuse::Result<Gpu> {
    let device = Device::gpu(ordinal)?;
    let stream = device.stream()?;
    let run = |chain: &Chain, shape: &[usize]| -> convfuse::Result<Duration> {
        let model = Model::init(&stream, chain, 0)?;
        let x = Tensor::zeros(&stream, shape, DType::F32)?;
        model.forward(&x)?.to_array::<f32>()?;
        Ok(start.elapsed())
    };
    let first_results = [
        (
            "85",
            run(&KernelBench85::default().chain()?, &KernelBench85::INPUT)?,
        ),
        (
            "79",
            run(&KernelBench79::default().chain()?, &KernelBench79::INPUT)?,
        ),
    ];
    Ok(Gpu {
        info: device.info(),
        first_results,
    })
}

/// Prints the CPU and the kernels of this build.
fn head(cpu: &DeviceInfo, out: &mut Out) -> Result<(), Failure> {
    writeln!(out, "{cpu}\nkernels of this build")?;
    let header = [("", Left), ("for", Left), ("kernels", Right), ("kB", Right)];
    let mut carried = table::aligned(header);
    for kernels in &cpu.carried {
        let kilobytes = kernels.bytes.div_ceil(1000);
        carried.add_row([
            kernels.what,
            &kernels.arch,
            &kernels.kernels.to_string(),
            &kilobytes.to_string(),
        ]);
    }
    writeln!(out, "{}", carried.trim_fmt())?;
    match kernel_cache::folder() {
        Some(folder) => {
            let folder = folder.display().to_string();
            writeln!(out, "what drivers compile is kept in {}\n", plain(&folder))?;
        }
        None => writeln!(out, "what drivers compile is not kept\n")?,
    }
    out.flush()
}

fn print(ordinal: u32, gpu: &Gpu, out: &mut Out) -> Result<(), Failure> {
    writeln!(out, "gpu:{ordinal}\n{}\n{}\n", gpu.info, loads(&gpu.info))?;
    for (problem, time) in gpu.first_results {
        let ms = 1e3 * time.as_secs_f64();
        writeln!(
            out,
            "results of problem {problem} in an array {ms:.0} ms after the start"
        )?;
    }
    writeln!(out)
}

/// The kernels that a GPU has loaded, as a table.
fn loads(info: &DeviceInfo) -> String {
    let header = [
        ("kernels of problems 85 and 79", Left),
        ("from", Left),
        ("ms", Right),
    ];
    let mut loads = table::aligned(header);
    for load in &info.kernels {
        let ms = format!("{:.2}", 1e3 * load.time.as_secs_f64());
        loads.add_row([load.kernel, &load.origin.to_string(), &ms]);
    }
    loads.trim_fmt()
}

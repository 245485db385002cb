//! `convfuse info`.

use std::time::{Duration, Instant};

use comfy_table::CellAlignment::{Left, Right};
use convfuse::chain::Chain;
use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::{DType, Device, DeviceInfo, Model, Tensor, kernel_cache};
use serde_json::{Value, json};

use super::device::reason;
use super::{Outcome, Verdict, table};

/// Options of `info`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A GPU, and what it did.
struct Gpu {
    info: DeviceInfo,
    /// Problems, and how long after the start of the program the results of each were in an array: driver, context, kernels,
    /// parameters, input, launches, and the copy.
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

pub(super) fn run(arguments: &Arguments, start: Instant) -> Outcome {
    let cpu = Device::cpu().info();
    let count = Device::gpu_count();
    let gpus = 0..count.as_ref().copied().unwrap_or(0);
    let mut failed = false;
    let gpus: Vec<Result<Gpu, String>> = gpus
        .map(|ordinal| used(ordinal, start).map_err(|error| error.to_string()))
        .inspect(|gpu| failed |= gpu.is_err())
        .collect();
    if arguments.json {
        let gpu = |gpu: &Result<Gpu, String>| match gpu {
            Ok(gpu) => gpu.record(),
            Err(error) => json!({ "error": error }),
        };
        let record = json!({
            "cpu": cpu,
            "gpus": gpus.iter().map(gpu).collect::<Vec<_>>(),
            "no_driver": count.as_ref().err().map(ToString::to_string),
            "kernel_cache": kernel_cache::folder(),
        });
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print(&cpu, &gpus);
        match count {
            Ok(0) => println!("no GPU: the driver is there, but sees no device"),
            Ok(_) => {}
            Err(error) => println!("no GPU: {error}"),
        }
        match reason(&Device::best()) {
            None => println!("--device best is gpu:0"),
            Some(reason) => println!("--device best is cpu: {reason}"),
        }
    }
    Ok(if failed {
        Verdict::Wrong
    } else {
        Verdict::Right
    })
}

/// A GPU that has run both problems at full size.
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

fn print(cpu: &DeviceInfo, gpus: &[Result<Gpu, String>]) {
    println!("{cpu}");
    println!("kernels of this build");
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
    println!("{}", carried.trim_fmt());
    match kernel_cache::folder() {
        Some(folder) => println!("what drivers compile is kept in {}\n", folder.display()),
        None => println!("what drivers compile is not kept\n"),
    }
    for (ordinal, gpu) in gpus.iter().enumerate() {
        match gpu {
            Ok(gpu) => {
                println!("gpu:{ordinal}\n{}\n{}\n", gpu.info, loads(&gpu.info));
                for (problem, time) in gpu.first_results {
                    let ms = 1e3 * time.as_secs_f64();
                    println!("results of problem {problem} in an array {ms:.0} ms after the start");
                }
                println!();
            }
            Err(error) => println!("gpu:{ordinal}\n  unusable: {error}\n"),
        }
    }
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

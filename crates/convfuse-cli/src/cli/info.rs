//! `convfuse info`.

use comfy_table::CellAlignment::{Left, Right};
use convfuse::chain::Chain;
use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::{Device, DeviceInfo, Model, Options, kernel_cache};
use serde_json::json;

use super::device::reason;
use super::{Outcome, Verdict, table};

/// Options of `info`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let cpu = Device::cpu().info();
    let count = Device::gpu_count();
    let gpus = 0..count.as_ref().copied().unwrap_or(0);
    let mut failed = false;
    let gpus: Vec<Result<DeviceInfo, String>> = gpus
        .map(|ordinal| loaded(ordinal).map_err(|error| error.to_string()))
        .inspect(|gpu| failed |= gpu.is_err())
        .collect();
    if arguments.json {
        let gpu = |gpu: &Result<DeviceInfo, String>| match gpu {
            Ok(info) => json!(info),
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

/// What a GPU is, after it loaded the kernels that both problems take at full size.
fn loaded(ordinal: u32) -> convfuse::Result<DeviceInfo> {
    let device = Device::gpu(ordinal)?;
    let stream = device.stream()?;
    let load = |chain: &Chain, shape: &[usize]| -> convfuse::Result<()> {
        let model = Model::init(&stream, chain, 0)?;
        model.plan(&stream, shape, &Options::default()).map(drop)
    };
    load(&KernelBench85::default().chain()?, &KernelBench85::INPUT)?;
    load(&KernelBench79::default().chain()?, &KernelBench79::INPUT)?;
    Ok(device.info())
}

fn print(cpu: &DeviceInfo, gpus: &[Result<DeviceInfo, String>]) {
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
            Ok(info) => println!("gpu:{ordinal}\n{info}\n{}\n", loads(info)),
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

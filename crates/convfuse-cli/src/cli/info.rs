//! `convfuse info`.

use super::device::reason;
use super::{Outcome, Verdict};
use convfuse::Device;

pub(super) fn run() -> Outcome {
    println!("{}", Device::cpu().info());
    match Device::gpu_count() {
        Ok(0) => println!("no GPU: the driver is there, but sees no device"),
        Ok(count) => {
            for ordinal in 0..count {
                match Device::gpu(ordinal) {
                    Ok(device) => println!("gpu:{ordinal}\n{}", device.info()),
                    Err(error) => println!("gpu:{ordinal}\n  unusable: {error}\n"),
                }
            }
        }
        Err(error) => println!("no GPU: {error}"),
    }
    match reason(&Device::best()) {
        None => println!("--device best is gpu:0"),
        Some(reason) => println!("--device best is cpu: {reason}"),
    }
    Ok(Verdict::Right)
}

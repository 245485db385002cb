//! Memory that the system refuses because of a limit on the process: wherever a program meets the limit, it
//! gets an error and goes on.
//!
//! The limit applies to the whole process, so each program runs in a child.
#![cfg(target_os = "linux")]

use std::env;
use std::process::Command;

use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::{
    DType, Device, Error, Model, Options, Parameters, PinnedArray, Result, Tensor, data,
};
use ndarray::{ArrayD, IxDyn};

/// The variable that is set in the child.
const CHILD: &str = "CONVFUSE_TEST_LIMIT";
const MIB: u64 = 1 << 20;

/// Returns the bytes of address space that the process uses now.
fn taken() -> u64 {
    let report = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = report.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: the call only returns a number.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Limits the process's address space to this many bytes.
fn limit(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call affects only this process, which is the child of a test.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Runs `program` with increasing memory until it has enough. Before, it must be refused; then its result
/// must be the one without a limit.
fn under_limits<T: PartialEq>(test: &str, step: u64, program: impl Fn() -> Result<T>) {
    if env::var_os(CHILD).is_none() {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
        // Large allocations return to the system, and threads have no reserve, so the next attempt must
        // request memory again. Small allocations have room from the start, because Rust aborts a program
        // that lacks a few bytes.
        child
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .env("MALLOC_TOP_PAD_", "16777216")
            .env("MALLOC_TRIM_THRESHOLD_", "1073741824")
            .env("MALLOC_ARENA_MAX", "1");
        let output = child.output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    // The first run starts threads and makes everything that is made once.
    let wanted = program().unwrap();
    let mut refused = 0;
    for steps in 1.. {
        limit(taken() + steps * step);
        let result = program();
        limit(libc::RLIM_INFINITY);
        match result {
            Err(Error::OutOfMemory { .. }) => refused += 1,
            Err(Error::Parameters(error)) if error.to_string().contains("memory") => refused += 1,
            // Devices that run kernels allocate memory for threads and records of their own.
            #[cfg(feature = "emulator")]
            Err(Error::Emulator(fault)) if has_no_room(&fault.to_string()) => refused += 1,
            Err(error) => panic!("{steps}: {error}"),
            Ok(got) => {
                assert!(got == wanted, "{steps}");
                break;
            }
        }
    }
    println!("{test}: {refused} times refused");
    assert!(refused > 0);
}

#[cfg(feature = "emulator")]
fn has_no_room(fault: &str) -> bool {
    let words = ["no thread for", "no stack for", "no memory"];
    words.iter().any(|words| fault.contains(words))
}

fn forward(device: &Device, chain: &Chain, shape: &[usize], dtype: DType) -> Result<ArrayD<f32>> {
    let stream = device.stream()?;
    let parameters = Parameters::init(chain, 7)?;
    let model = Model::with_dtype(&stream, chain, &parameters, dtype)?;
    let x = data::try_fill(1, IxDyn(shape))?;
    let x = Tensor::from_f32_array(&stream, &x, dtype)?;
    model.forward(&x)?.to_f32_array()
}

#[test]
fn a_model_on_the_cpu() {
    let chain = KernelBench85::default().chain().unwrap();
    under_limits("a_model_on_the_cpu", 4 * MIB, || {
        forward(&Device::cpu(), &chain, &[16, 8, 128, 128], DType::F32)
    });
}

#[test]
fn a_model_on_the_cpu_in_bf16() {
    let chain = KernelBench79::default().chain().unwrap();
    under_limits("a_model_on_the_cpu_in_bf16", 4 * MIB, || {
        forward(&Device::cpu(), &chain, &[32, 3, 16, 32, 32], DType::BF16)
    });
}

#[test]
fn arrays_through_a_model() {
    let chain = KernelBench79::default().chain().unwrap();
    let stream = Device::cpu().stream().unwrap();
    let model = Model::init(&stream, &chain, 7).unwrap();
    let shape = [32, 3, 16, 32, 32];
    let x: ArrayD<f32> = data::fill(1, IxDyn(&shape));
    let reversed = x.clone().reversed_axes().as_standard_layout().into_owned();
    under_limits("arrays_through_a_model", MIB, || {
        let mut pinned = PinnedArray::<f32>::zeros(&Device::cpu(), &shape)?;
        pinned.view_mut()?.assign(&x);
        let mut y = PinnedArray::<f32>::zeros(&Device::cpu(), &model.output_shape(&shape)?)?;
        model.forward_pinned(&pinned, &mut y, &Options::default())?;
        let result = model.forward_array(&reversed.t())?;
        assert!(y.view()? == result);
        Ok(result)
    });
}

#[cfg(feature = "emulator")]
#[test]
fn a_model_in_the_emulator() {
    let chain = KernelBench79::default().chain().unwrap();
    under_limits("a_model_in_the_emulator", MIB, || {
        forward(&Device::emulator(), &chain, &[2, 3, 5, 6, 7], DType::F32)
    });
}

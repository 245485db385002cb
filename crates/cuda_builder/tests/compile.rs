//! Compiles small kernel crates. Without a device toolchain, these tests report themselves as ignored.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use cuda_builder::{Arch, CudaBuilder, Toolchain};
use libtest_mimic::{Arguments, Failed, Trial};

type TestResult = Result<(), Box<dyn Error>>;

/// A profile that would spread the module over several files if it took effect.
const MANIFEST: &str = r#"
[package]
name = "axpy-kernels"
version = "0.1.0"
edition = "2024"

[dependencies]
helper = { path = "helper" }

[workspace]

[profile.release]
opt-level = 0
lto = false
codegen-units = 16
debug = true
overflow-checks = true

[profile.release.package.helper]
opt-level = 1
codegen-units = 4
"#;

const KERNELS: &str = r#"
#![no_std]
#![feature(abi_ptx, stdarch_nvptx, asm_experimental_arch)]
use core::arch::{global_asm, nvptx};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

global_asm!("//@launch_bounds axpy {} {}", const 256, const 2);

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn axpy(a: f32, x: *const f32, y: *mut f32, n: u32) {
    unsafe {
        let block = nvptx::_block_idx_x() as u32 * nvptx::_block_dim_x() as u32;
        let i = block + nvptx::_thread_idx_x() as u32;
        if i < n {
            let i = i as usize;
            *y.add(i) = helper::multiply_add(a, *x.add(i), *y.add(i));
        }
    }
}

#[cfg(cuda_arch = "sm_90a")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn for_hopper_alone() {}
"#;

/// Not inlined, so that the call shows whether both crates are in the module.
const HELPER: &str = "\
#![no_std]
#[inline(never)]
pub fn multiply_add(a: f32, x: f32, y: f32) -> f32 {
    assert!(a != 7.0);
    a * x + y
}
";

/// Writes the crate `axpy-kernels` into a folder.
fn write_crate(folder: &Path, kernels: &str) -> std::io::Result<PathBuf> {
    let path = folder.join("axpy-kernels");
    fs::create_dir_all(path.join("src"))?;
    fs::create_dir_all(path.join("helper/src"))?;
    fs::write(path.join("Cargo.toml"), MANIFEST)?;
    fs::write(path.join("src/lib.rs"), kernels)?;
    let helper = "[package]\nname = \"helper\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(path.join("helper/Cargo.toml"), helper)?;
    fs::write(path.join("helper/src/lib.rs"), HELPER)?;
    Ok(path)
}

/// Returns a builder that keeps its `core` between test runs. Builds for one architecture must not overlap,
/// because each replaces the module of the other.
fn builder(crate_path: &Path, arch: Arch) -> CudaBuilder {
    CudaBuilder::new(crate_path)
        .arch(arch)
        .target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile"))
}

/// Locks for tests that build for one architecture.
static SM_80: Mutex<()> = Mutex::new(());
static SM_90A: Mutex<()> = Mutex::new(());

fn the_module_is_whole_whatever_the_profile_says() -> TestResult {
    let root = tempfile::tempdir()?;
    let path = write_crate(root.path(), KERNELS)?;
    let module = builder(&path, Arch::Sm80).build()?;
    let ptx = &module.ptx;
    assert!(ptx.contains(".target sm_80\n"), "{ptx}");
    assert!(ptx.contains(".visible .entry axpy("), "{ptx}");
    assert!(!ptx.contains("for_hopper_alone"), "{ptx}");
    assert!(!ptx.contains(".extern .func"), "{ptx}");
    assert!(!ptx.contains(".section"), "debug information: {ptx}");
    assert!(
        ptx.contains(".maxntid 256, 1, 1\n.minnctapersm 2\n{"),
        "{ptx}"
    );
    assert_eq!(fs::read_to_string(&module.path)?, *ptx);
    Ok(())
}

fn modules_from_different_folders_are_equal_and_name_no_path() -> TestResult {
    let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let copy = other.path().join("copy.ptx");
    let first = builder(&write_crate(one.path(), KERNELS)?, Arch::Sm80).build()?;
    let second = builder(&write_crate(other.path(), KERNELS)?, Arch::Sm80);
    let second = second.copy_to(&copy).build()?;
    assert_eq!(first.ptx, second.ptx);
    assert_eq!(second.path, copy);
    assert!(!first.ptx.contains(".rs"), "{}", first.ptx);
    Ok(())
}

/// A barrier between two tests of the same condition.
const ELECTED: &str = r#"
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn elected(x: *mut u32, last: u32) {
    unsafe {
        let first = nvptx::_thread_idx_x() as u32 == 0;
        let ticket = if first { *x } else { 0 };
        nvptx::_syncthreads();
        if first && ticket == last {
            *x = 0;
        }
    }
}
"#;

fn a_barrier_is_not_copied_into_branches() -> TestResult {
    let root = tempfile::tempdir()?;
    let path = write_crate(root.path(), &format!("{KERNELS}{ELECTED}"))?;
    let ptx = builder(&path, Arch::Sm80).build()?.ptx;
    let barriers = ptx.matches("bar.sync").count() + ptx.matches("barrier.sync").count();
    assert_eq!(barriers, 1, "{ptx}");
    Ok(())
}

fn kernels_can_be_for_one_architecture() -> TestResult {
    let root = tempfile::tempdir()?;
    let path = write_crate(root.path(), KERNELS)?;
    let module = builder(&path, Arch::Sm90a).build()?;
    assert!(
        module.ptx.contains(".entry for_hopper_alone"),
        "{}",
        module.ptx
    );
    Ok(())
}

fn an_error_in_the_kernels_is_reported_with_its_message() -> TestResult {
    let root = tempfile::tempdir()?;
    let path = write_crate(root.path(), &KERNELS.replace("if i < n", "if i < m"))?;
    let error = builder(&path, Arch::Sm80)
        .build()
        .expect_err("`m` is not defined");
    let text = error.to_string();
    assert!(
        text.starts_with("kernel crate axpy-kernels: does not compile for sm_80"),
        "{text}"
    );
    assert!(text.contains("cannot find value `m`"), "{text}");
    Ok(())
}

fn main() -> ExitCode {
    let toolchain = Toolchain::find();
    if let Err(error) = &toolchain {
        println!("{error}");
    }
    let trial = |arch: &'static Mutex<()>, name, test: fn() -> TestResult| {
        let run = move || {
            let _turn = arch.lock().unwrap_or_else(PoisonError::into_inner);
            test().map_err(|error| Failed::from(error.to_string()))
        };
        Trial::test(name, run).with_ignored_flag(toolchain.is_err())
    };
    macro_rules! trials {
        ($($arch:ident: $test:ident,)*) => { vec![$(trial(&$arch, stringify!($test), $test)),*] };
    }
    // Runs first, parallel to the tests for the other architecture, because compiling `core` takes the
    // longest.
    let trials = trials![
        SM_90A: kernels_can_be_for_one_architecture,
        SM_80: the_module_is_whole_whatever_the_profile_says,
        SM_80: modules_from_different_folders_are_equal_and_name_no_path,
        SM_80: a_barrier_is_not_copied_into_branches,
        SM_80: an_error_in_the_kernels_is_reported_with_its_message,
    ];
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, trials).exit_code()
}

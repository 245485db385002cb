//! Results of calls with a driver and without one.
//!
//! The driver is loaded once per process, so each case runs this executable again as a child, with
//! `LD_LIBRARY_PATH` set to a folder that holds the stand-in from `examples/fake_driver.rs`, or
//! nothing.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::ptr;

use cust::error::CudaError;
use cust::sys::{self, CUresult};

/// Set in the child process.
const CHILD: &str = "CUDA_LOADER_TEST_CHILD";

/// In the parent: lets `prepare` fill a new folder, runs the test of this name in a child that searches the
/// folder for libraries first, and returns false. In the child: returns true.
fn in_child(test: &str, prepare: impl FnOnce(&Path)) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    prepare(&folder);
    let output = Command::new(std::env::current_exe().expect("the path of this test"))
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    false
}

#[test]
fn calls_reach_the_driver_and_come_back_with_its_codes() {
    let prepare = |folder: &Path| {
        // target/<profile>/deps/<this test> -> target/<profile>/examples/
        let executable = std::env::current_exe().expect("the path of this test");
        let profile = executable.ancestors().nth(2).expect("target/<profile>");
        let library = profile.join("examples/libfake_driver.so");
        fs::copy(library, folder.join("libcuda.so.1")).expect("the fake driver was built");
    };
    if !in_child(
        "calls_reach_the_driver_and_come_back_with_its_codes",
        prepare,
    ) {
        return;
    }

    let driver = cuda_loader::driver().expect("the fake driver");
    assert_eq!(driver.library, "libcuda.so.1");
    assert_eq!(driver.version.to_string(), "12.8");

    // SAFETY: the fake driver keeps no state; each call passes the places that it writes to.
    unsafe {
        assert_eq!(sys::cuInit(0), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuInit(1), CUresult::CUDA_ERROR_UNKNOWN);

        let mut milliseconds = 0.0;
        let (start, end) = (
            ptr::without_provenance_mut(3),
            ptr::without_provenance_mut(10),
        );
        let status = sys::cuEventElapsedTime(&mut milliseconds, start, end);
        assert_eq!((status, milliseconds), (CUresult::CUDA_SUCCESS, 7.25));

        let mut values = [1_u32, 2, 3, 4, 5, 6, 7];
        let mut parameters = values.each_mut().map(|value| ptr::from_mut(value).cast());
        let status = sys::cuLaunchKernel(
            ptr::null_mut(),
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            ptr::null_mut(),
            parameters.as_mut_ptr(),
            ptr::null_mut(),
        );
        assert_eq!(status, CUresult::CUDA_SUCCESS);

        let status = sys::cuCtxSynchronize();
        assert_eq!(status, CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
    }
    assert!(
        CudaError::InvalidValue
            .to_string()
            .contains("told by the fake driver")
    );
    assert!(
        CudaError::NotMapped
            .to_string()
            .contains("does not describe")
    );

    let missing = cuda_loader::symbol(c"cuCtxSynchronize").expect_err("not in the fake driver");
    assert_eq!(
        missing.to_string(),
        "CUDA driver: libcuda.so.1 has no function cuCtxSynchronize, a newer driver may"
    );
}

#[test]
fn a_library_that_cannot_be_loaded_is_an_error_and_not_a_crash() {
    let prepare = |folder: &Path| {
        fs::write(folder.join("libcuda.so.1"), "not a library").expect("the broken driver");
    };
    let test = "a_library_that_cannot_be_loaded_is_an_error_and_not_a_crash";
    if !in_child(test, prepare) {
        return;
    }

    let error = cuda_loader::driver().expect_err("no driver");
    assert!(error.to_string().contains("libcuda.so.1 ("), "{error}");

    // SAFETY: 0 is the only valid value of `cuInit`'s flags.
    let status = unsafe { sys::cuInit(0) };
    assert_eq!(status, CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    let error = cust::init(cust::CudaFlags::empty()).expect_err("no driver");
    assert!(
        error.to_string().contains("no CUDA driver is installed"),
        "{error}"
    );
}

//! The scripted driver, in a child process.

use std::ffi::c_void;
use std::process::Command;
use std::ptr::NonNull;
use std::{any, env, fs, mem};

use interface::{ENTRY, Entry};
use tempfile::TempDir;

#[path = "../../../crates/scripted-driver/src/interface.rs"]
#[expect(dead_code, reason = "each program of tests asks for a part")]
pub(crate) mod interface;

pub(crate) use interface::{Mode, Script};

/// The variable that is set in the child.
const CHILD: &str = "CONVFUSE_TEST_CHILD";

/// The interface of the scripted driver.
pub(crate) type Driver = &'static dyn Script;

impl dyn Script {
    /// The number of calls of a function.
    pub(crate) fn count(&self, name: &str) -> u32 {
        self.counts().get(name).copied().unwrap_or(0)
    }

    /// Lets the next call of a function fail.
    pub(crate) fn fail_next(&self, name: &str, code: u32) {
        self.fail(name, self.count(name) + 1, code);
    }

    /// Panics if work used memory that did not exist, or the library used an invalid handle.
    pub(crate) fn expect_no_violations(&self) {
        assert_eq!(self.violations(), "");
    }
}

/// Runs the test that contains `body` in a child process that finds the scripted driver, because a process
/// loads the first driver that it finds, and only once. The test must not violate the driver's rules.
pub(crate) fn scripted<F: FnOnce(Driver)>(body: F) {
    in_child(test_of::<F>(), body);
}

/// [`scripted`] for the test of this name.
pub(crate) fn in_child(test: &str, body: impl FnOnce(Driver)) {
    if let Some(script) = driver() {
        body(script);
        return script.expect_no_violations();
    }
    let folder = folder();
    let executable = env::current_exe().expect("the path of this test");
    // Cargo puts the shared library of a dependency beside the tests.
    let library = executable.with_file_name("libscripted_driver.so");
    fs::copy(library, folder.path().join("libcuda.so.1")).expect("the scripted driver was built");
    let mut child = Command::new(executable);
    child
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        // Kernels that another run compiled would change the calls.
        .env("CONVFUSE_CACHE", "off");
    let output = child.output().expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    print!("{text}");
}

/// An empty folder, which is removed with its handle.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder")
}

/// The name of the test that contains a closure of this type.
pub(crate) fn test_of<F>() -> &'static str {
    let path = any::type_name::<F>().split_once("::");
    let (_, test) = path.expect("it begins with the crate");
    test.trim_end_matches("::{{closure}}")
}

/// Returns the scripted driver, in a child.
fn driver() -> Option<Driver> {
    env::var_os(CHILD)?;
    let address = cuda_loader::symbol(ENTRY).expect("the scripted driver is the one that is found");
    // SAFETY: the driver exports a function of this type under this name.
    let entry = unsafe { mem::transmute::<NonNull<c_void>, Entry>(address) };
    Some(entry())
}

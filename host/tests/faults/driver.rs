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

/// Set in the child, so that it knows what it is.
const CHILD: &str = "CONVFUSE_TEST_CHILD";

/// What the scripted driver is told and asked.
pub(crate) type Driver = &'static dyn Script;

impl dyn Script {
    /// How often a function was called.
    pub(crate) fn count(&self, name: &str) -> u32 {
        self.counts().get(name).copied().unwrap_or(0)
    }

    /// Lets the next call of a function fail.
    pub(crate) fn fail_next(&self, name: &str, code: u32) {
        self.fail(name, self.count(name) + 1, code);
    }

    /// Fails if work used memory that was not there, or the library a handle that was none.
    pub(crate) fn expect_no_violations(&self) {
        assert_eq!(self.violations(), "");
    }
}

/// Runs the test that `body` is written in, in a child that finds the scripted driver: each process loads the
/// driver that it finds first, and only once. What comes of it must violate nothing.
pub(crate) fn scripted<F: FnOnce(Driver)>(body: F) {
    in_child(test_of::<F>(), body);
}

/// The same for the test of this name.
pub(crate) fn in_child(test: &str, body: impl FnOnce(Driver)) {
    if let Some(script) = driver() {
        body(script);
        return script.expect_no_violations();
    }
    let folder = folder();
    let executable = env::current_exe().expect("the path of this test");
    // Cargo puts a dependency's shared library beside the tests.
    let library = executable.with_file_name("libscripted_driver.so");
    fs::copy(library, folder.path().join("libcuda.so.1")).expect("the scripted driver was built");
    let mut child = Command::new(executable);
    child
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        // What another run compiled would change the calls.
        .env("CONVFUSE_CACHE", "off");
    let output = child.output().expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    print!("{text}");
}

/// An empty folder, which goes with its handle.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder")
}

/// The test that a closure of this type is written in.
pub(crate) fn test_of<F>() -> &'static str {
    let path = any::type_name::<F>().split_once("::");
    let (_, test) = path.expect("it begins with the crate");
    test.trim_end_matches("::{{closure}}")
}

/// The driver, in a child.
fn driver() -> Option<Driver> {
    env::var_os(CHILD)?;
    let address = cuda_loader::symbol(ENTRY).expect("the scripted driver is the one that is found");
    // SAFETY: the driver has a function of this type by this name.
    let entry = unsafe { mem::transmute::<NonNull<c_void>, Entry>(address) };
    Some(entry())
}

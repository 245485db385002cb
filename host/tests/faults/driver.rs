//! The scripted driver, in a child process.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs, mem, process};

/// Set in the child, so that it knows what it is: the parent's process number.
const CHILD: &str = "CONVFUSE_TEST_CHILD";

/// In the parent: runs the test of this name in a child that finds the scripted driver, and returns `None`.
/// In the child: the driver. Each process loads the driver that it finds first, and only once.
pub(crate) fn scripted(test: &str) -> Option<Script> {
    let script = in_child();
    if script.is_none() {
        let output = child(test).output().expect("the child starts");
        expect_passed(&output);
    }
    script
}

/// The driver, in a child.
pub(crate) fn in_child() -> Option<Script> {
    env::var_os(CHILD).is_some().then_some(Script)
}

/// The folder of this run of the tests, parents and children, which no other run at the same time has.
pub(crate) fn folder_of_run() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        if let Some(parent) = env::var_os(CHILD) {
            return all.join(parent);
        }
        let own = process::id().to_string();
        // Runs that are over leave theirs to the next one.
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            let number = entry.file_name();
            if *own == *number || !Path::new("/proc").join(number).exists() {
                // Another run may be about to do the same.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        all.join(own)
    })
}

/// A child that runs the test of this name, finds the scripted driver, and keeps no machine code.
pub(crate) fn child(test: &str) -> Command {
    let folder = folder_of_run().join(test.replace("::", "-"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    let executable = env::current_exe().expect("the path of this test");
    // Cargo puts a dependency's shared library beside the tests.
    let library = executable.with_file_name("libscripted_driver.so");
    fs::copy(library, folder.join("libcuda.so.1")).expect("the scripted driver was built");
    let mut command = Command::new(executable);
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, process::id().to_string())
        .env("LD_LIBRARY_PATH", folder)
        // What another run compiled would change the calls.
        .env("CONVFUSE_CACHE", "off");
    command
}

/// What a child said must be that its test passed.
pub(crate) fn expect_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    print!("{text}");
}

/// What the scripted driver is told and asked: `crates/scripted-driver/src/control.rs` has the words.
#[derive(Clone, Copy)]
pub(crate) struct Script;

/// When work is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    AtOnce,
    WhenWaitedFor,
}

/// One of the driver's functions.
///
/// # Safety
/// `F` is its type.
pub(crate) unsafe fn function<F: Copy>(name: &CStr) -> F {
    let address = cuda_loader::symbol(name).expect("the scripted driver is the one that was found");
    assert_eq!(size_of::<F>(), size_of_val(&address));
    // SAFETY: both are addresses, and the caller knows the type.
    unsafe { mem::transmute_copy(&address) }
}

impl Script {
    /// Starts anew: counts, launches and violations.
    pub(crate) fn begin(&self, work: Work) {
        // SAFETY: this is the function's type.
        let begin: extern "C" fn(u32) = unsafe { function(c"scripted_begin") };
        begin(u32::from(work == Work::WhenWaitedFor));
    }

    /// Lets call `number` of a function since the start fail.
    pub(crate) fn fail(&self, name: &str, number: u32, code: u32) {
        // SAFETY: this is the function's type.
        let fail: extern "C" fn(*const c_char, u32, u32) = unsafe { function(c"scripted_fail") };
        fail(CString::new(name).unwrap().as_ptr(), number, code);
    }

    /// Lets call `number` of a function from now on return late.
    pub(crate) fn gate(&self, name: &str, number: u32) {
        // SAFETY: this is the function's type.
        let gate: extern "C" fn(*const c_char, u32) = unsafe { function(c"scripted_gate") };
        gate(CString::new(name).unwrap().as_ptr(), number);
    }

    /// Waits until that call was made.
    pub(crate) fn wait_at_gate(&self) {
        // SAFETY: this is the function's type.
        let reached: extern "C" fn(u32) -> u32 = unsafe { function(c"scripted_reached") };
        assert_ne!(reached(10_000), 0, "no call came to the gate");
    }

    /// Lets it return.
    pub(crate) fn open_gate(&self) {
        // SAFETY: this is the function's type.
        let open: extern "C" fn() = unsafe { function(c"scripted_open") };
        open();
    }

    /// Lets a device have so many bytes of memory for pools.
    pub(crate) fn room(&self, ordinal: u32, bytes: usize) {
        // SAFETY: this is the function's type.
        let room: extern "C" fn(u32, usize) = unsafe { function(c"scripted_room") };
        room(ordinal, bytes);
    }

    /// Does all work that is left, the newest streams' first.
    pub(crate) fn finish(&self) {
        // SAFETY: this is the function's type.
        let finish: extern "C" fn(u32) = unsafe { function(c"scripted_finish") };
        finish(1);
    }

    /// How often each function was called.
    pub(crate) fn counts(&self) -> Vec<(String, u32)> {
        let report = self.report(0, 0);
        let line = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        report.lines().filter_map(line).collect()
    }

    /// Launches and copies on a device.
    pub(crate) fn log(&self, ordinal: u32) -> String {
        self.report(1, ordinal)
    }

    /// What is alive of a device.
    pub(crate) fn alive(&self, ordinal: u32) -> String {
        self.report(2, ordinal)
    }

    /// Fails if work used memory that was not there, or the library a handle that was none.
    pub(crate) fn expect_no_violations(&self) {
        let report = self.report(3, 0);
        assert!(report.is_empty(), "{report}");
    }

    /// What no program should do.
    pub(crate) fn violations(&self) -> String {
        self.report(3, 0)
    }

    fn report(&self, what: u32, ordinal: u32) -> String {
        // SAFETY: this is the function's type.
        let report: extern "C" fn(u32, u32, *mut u8, usize) -> usize =
            unsafe { function(c"scripted_report") };
        let mut buffer = vec![0; 1 << 20];
        let bytes = report(what, ordinal, buffer.as_mut_ptr(), buffer.len());
        assert!(bytes <= buffer.len(), "a report of {bytes} bytes");
        buffer.truncate(bytes);
        String::from_utf8(buffer).expect("reports are text")
    }
}

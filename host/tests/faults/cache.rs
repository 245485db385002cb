//! The user's folder of machine code, in whatever state: each program computes what it does without.

use std::fs;
use std::path::{Path, PathBuf};

use convfuse::graph::presets::KernelBench79;
use convfuse::{Device, KernelOrigin, Model, Options, Tensor, data};
use ndarray::{ArrayD, IxDyn};

use crate::driver::{Script, Work, child, expect_passed, folder_of_run, in_child};

/// On the next device of those that take what their linker makes of PTX: opens it, plans, and runs. Returns
/// where the kernels came from.
struct Programs {
    script: Script,
    ordinal: u32,
    /// Launches and copies of the first.
    log: Option<String>,
}

impl Programs {
    fn new(script: Script) -> Programs {
        Programs {
            script,
            ordinal: 0,
            log: None,
        }
    }

    fn run(&mut self) -> Vec<KernelOrigin> {
        let ordinal = self.ordinal;
        self.ordinal += 4;
        self.script.begin(Work::AtOnce);
        self.run_on(ordinal)
    }

    fn run_on(&mut self, ordinal: u32) -> Vec<KernelOrigin> {
        let shape = [2, 3, 5, 6, 7];
        let device = Device::gpu(ordinal).unwrap();
        let stream = device.stream().unwrap();
        let chain = KernelBench79::default().chain().unwrap();
        let model = Model::init(&stream, &chain, 7).unwrap();
        let x: ArrayD<f32> = data::fill(1, IxDyn(&shape));
        let x = Tensor::from_array(&stream, &x).unwrap();
        let mut plan = model.plan(&stream, &shape, &Options::default()).unwrap();
        let mut y = plan.output().unwrap();
        plan.execute(&x, &mut y).unwrap();
        y.to_array::<f32>().unwrap();
        self.script.expect_no_violations();
        let log = self.script.log(ordinal);
        assert!(log.lines().count() > 3, "{log}");
        assert_eq!(*self.log.get_or_insert_with(|| log.clone()), log);
        let kernels = device.info().kernels;
        assert!(kernels.len() > 1);
        kernels.into_iter().map(|load| load.origin).collect()
    }

    fn compiles(&mut self) {
        let origins = self.run();
        let compiled = |origin: &KernelOrigin| *origin == KernelOrigin::Compiled;
        assert!(origins.iter().all(compiled), "{origins:?}");
    }

    fn finds(&mut self) {
        let origins = self.run();
        let cached = |origin: &KernelOrigin| *origin == KernelOrigin::Cached;
        assert!(origins.iter().all(cached), "{origins:?}");
    }
}

/// The child's programs; in the parent, which has run the child with such a cache, `None`.
fn with_cache(test: &str, cache: &Path) -> Option<Programs> {
    let script = in_child();
    if script.is_none() {
        let output = child(test).env("CONVFUSE_CACHE", cache).output();
        expect_passed(&output.expect("the child starts"));
    }
    script.map(Programs::new)
}

/// An empty folder for a test, which its child finds as it is.
fn folder(name: &str) -> PathBuf {
    let folder = folder_of_run().join(format!("cache-{name}"));
    if in_child().is_none() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
    }
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_torn_or_foreign_is_compiled_anew() {
    let folder = folder("torn");
    let Some(mut programs) = with_cache("cache::what_is_torn_or_foreign_is_compiled_anew", &folder)
    else {
        return;
    };
    programs.compiles();
    programs.finds();
    let spoil: [fn(&Path, Vec<u8>); 4] = [
        |path, whole| fs::write(path, &whole[..whole.len() / 2]).unwrap(),
        |path, _| fs::write(path, "").unwrap(),
        |path, _| fs::write(path, b"\x7fELF, but whose?").unwrap(),
        |path, mut whole| {
            *whole.last_mut().unwrap() ^= 1;
            fs::write(path, whole).unwrap();
        },
    ];
    for spoil in spoil {
        for path in files(&folder) {
            spoil(&path, fs::read(&path).unwrap());
        }
        programs.compiles();
        programs.finds();
    }
    // Whole, but not what this driver takes; nor does it take what the build carries, which comes first.
    programs.script.begin(Work::AtOnce);
    programs.script.fail("cuModuleLoadData", 2, 209);
    let ordinal = programs.ordinal;
    let origins = programs.run_on(ordinal);
    assert_eq!(origins[0], KernelOrigin::Compiled);
    assert!(!origins[1..].contains(&KernelOrigin::Compiled));
}

#[test]
fn a_file_in_place_of_the_folder() {
    let file = folder("file").join("file");
    if in_child().is_none() {
        fs::write(&file, "no folder").unwrap();
    }
    if let Some(mut programs) = with_cache("cache::a_file_in_place_of_the_folder", &file) {
        programs.compiles();
        programs.compiles();
        assert_eq!(fs::read(&file).unwrap(), b"no folder");
    }
}

/// Not even root makes a folder there.
#[test]
fn a_folder_that_cannot_be_made() {
    let folder = Path::new("/proc/self/convfuse");
    if let Some(mut programs) = with_cache("cache::a_folder_that_cannot_be_made", folder) {
        programs.compiles();
        programs.compiles();
    }
}

#[test]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;

    let folder = folder("shut");
    let Some(mut programs) = with_cache("cache::a_folder_that_cannot_be_written", &folder) else {
        return;
    };
    let shut = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    shut(0o500);
    // Nothing is shut to root.
    if fs::File::create(folder.join("probe")).is_err() {
        programs.compiles();
        programs.compiles();
        assert!(files(&folder).is_empty());
    }
    shut(0o700);
}

/// Files end after a few bytes, as they do where a disk is full.
#[test]
fn a_disk_that_is_full() {
    let folder = folder("full");
    let Some(mut programs) = with_cache("cache::a_disk_that_is_full", &folder) else {
        return;
    };
    let limit = |bytes| {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: both calls concern this process alone, which is the child of a test.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
    };
    for bytes in [0, 10, 1000] {
        limit(bytes);
        programs.compiles();
        assert!(files(&folder).is_empty(), "{bytes}");
    }
    limit(libc::RLIM_INFINITY);
    programs.compiles();
    programs.finds();
}

#[test]
fn a_user_without_a_home() {
    let Some(script) = in_child() else {
        let mut child = child("cache::a_user_without_a_home");
        for name in ["CONVFUSE_CACHE", "XDG_CACHE_HOME", "HOME"] {
            child.env_remove(name);
        }
        return expect_passed(&child.output().expect("the child starts"));
    };
    assert_eq!(convfuse::kernel_cache::folder(), None);
    let mut programs = Programs::new(script);
    programs.compiles();
    programs.compiles();
}

/// Four processes begin with an empty folder.
#[test]
fn processes_that_compile_the_same_at_once() {
    let folder = folder("processes");
    let test = "cache::processes_that_compile_the_same_at_once";
    let Some(script) = in_child() else {
        let mut commands = [(); 4].map(|()| child(test));
        let children = commands.each_mut().map(|command| {
            command.env("CONVFUSE_CACHE", &folder);
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command.spawn().expect("the child starts")
        });
        for child in children {
            expect_passed(&child.wait_with_output().expect("the child ends"));
        }
        let is_finished = |path: &PathBuf| path.extension().is_some_and(|end| end == "cubin");
        assert!(files(&folder).iter().all(is_finished));
        return;
    };
    let mut programs = Programs::new(script);
    // Of one's own or another's.
    programs.run();
    // All of it is there by now.
    programs.finds();
}

//! The user's folder of machine code, in whatever state: each program computes what it does without.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use convfuse::kernel_cache::keep_in;
use convfuse::{Device, KernelOrigin};

use crate::driver::{Driver, Mode, folder, scripted};
use crate::lost::{ended_well, fork};
use crate::things::{model_79, planned};

/// Opens the next device that links PTX, plans and runs. Returns the origins of the kernels.
struct Programs {
    script: Driver,
    ordinal: u32,
    /// Launches and copies of the first.
    log: Option<String>,
}

impl Programs {
    fn new(script: Driver) -> Programs {
        let (ordinal, log) = (0, None);
        Programs {
            script,
            ordinal,
            log,
        }
    }

    fn run(&mut self) -> Vec<KernelOrigin> {
        self.script.begin(Mode::AtOnce);
        self.run_as_it_fails()
    }

    fn run_as_it_fails(&mut self) -> Vec<KernelOrigin> {
        let ordinal = self.ordinal;
        self.ordinal += 4;
        let device = Device::gpu(ordinal).unwrap();
        let stream = device.stream().unwrap();
        let (mut plan, x, mut y) = planned(&model_79(&stream), &stream, &[2, 3, 5, 6, 7]);
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

    fn all_from(&mut self, origin: KernelOrigin) {
        let origins = self.run();
        assert!(origins.iter().all(|of| *of == origin), "{origins:?}");
    }

    fn compiles(&mut self) {
        self.all_from(KernelOrigin::Compiled);
    }

    fn finds(&mut self) {
        self.all_from(KernelOrigin::Cached);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_torn_or_foreign_is_compiled_anew() {
    scripted(|script| {
        let (folder, mut programs) = (folder(), Programs::new(script));
        keep_in(folder.path());
        programs.compiles();
        programs.finds();
        let spoil: [fn(&mut Vec<u8>); 4] = [
            |whole| whole.truncate(whole.len() / 2),
            |whole| whole.clear(),
            |whole| *whole = b"\x7fELF, but whose?".to_vec(),
            |whole| *whole.last_mut().unwrap() ^= 1,
        ];
        for spoil in spoil {
            for path in files(folder.path()) {
                let mut whole = fs::read(&path).unwrap();
                spoil(&mut whole);
                fs::write(path, whole).unwrap();
            }
            programs.compiles();
            programs.finds();
        }
        // Whole, but not what this driver takes; nor does it take what the build carries, which comes first.
        programs.script.begin(Mode::AtOnce);
        programs.script.fail("cuModuleLoadData", 2, 209);
        let origins = programs.run_as_it_fails();
        assert_eq!(origins[0], KernelOrigin::Compiled);
        assert!(!origins[1..].contains(&KernelOrigin::Compiled));
    });
}

/// Of a folder that cannot be made, or written, or whose files end after a few bytes, as they do where a disk
/// is full.
#[test]
fn where_nothing_can_be_kept_all_is_compiled() {
    scripted(|script| {
        let (folder, mut programs) = (folder(), Programs::new(script));
        let file = folder.path().join("file");
        fs::write(&file, "no folder").unwrap();
        // Not even root makes a folder there.
        for place in [&*file, Path::new("/proc/self/convfuse")] {
            keep_in(place);
            programs.compiles();
            programs.compiles();
        }
        assert_eq!(fs::read(file).unwrap(), b"no folder");

        let folder = folder.path().join("folder");
        fs::create_dir(&folder).unwrap();
        keep_in(&folder);
        let shut = |mode| fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        shut(0o500);
        // Nothing is shut to root.
        if fs::File::create(folder.join("probe")).is_err() {
            programs.compiles();
            programs.compiles();
        }
        shut(0o700);
        let _ = fs::remove_file(folder.join("probe"));
        let limit = |rlim_cur| {
            let rlim_max = libc::RLIM_INFINITY;
            let limit = libc::rlimit { rlim_cur, rlim_max };
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
    });
}

/// Four processes, forked off before a device was used, begin with an empty folder.
#[test]
fn processes_that_compile_the_same_at_once() {
    scripted(|script| {
        let folder = folder();
        keep_in(folder.path());
        let run = || {
            let mut programs = Programs::new(script);
            // Of one's own or another's.
            programs.run();
            // All of it is there by now.
            programs.finds();
        };
        let processes = [run; 4].map(fork);
        assert_eq!(processes.map(ended_well), [true; 4]);
        let is_finished = |path: &PathBuf| path.extension().is_some_and(|end| end == "cubin");
        assert!(files(folder.path()).iter().all(is_finished));
    });
}

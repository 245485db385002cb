//! The user's folder of machine code, in various states: each program computes the same as without it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use convfuse::kernel_cache::keep_in;
use convfuse::{Device, KernelOrigin};

use crate::driver::{Driver, Mode, folder, scripted};
use crate::lost::{ended_well, fork};
use crate::things::{model_79, planned};

/// Runs programs, each on the next device that links PTX. A program opens, plans and runs. Returns the
/// origins of the kernels.
struct Programs {
    script: Driver,
    ordinal: u32,
    /// The launches and copies of the first program.
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
        // The file is complete, but this driver refuses it. It also refuses the build's machine code, which
        // is tried first.
        programs.script.begin(Mode::AtOnce);
        programs.script.fail("cuModuleLoadData", 2, 209);
        let origins = programs.run_as_it_fails();
        assert_eq!(origins[0], KernelOrigin::Compiled);
        assert!(!origins[1..].contains(&KernelOrigin::Compiled));
    });
}

/// The folder cannot be created or written, or its files end after a few bytes, as on a full disk.
#[test]
fn where_nothing_can_be_kept_all_is_compiled() {
    scripted(|script| {
        let (folder, mut programs) = (folder(), Programs::new(script));
        let file = folder.path().join("file");
        fs::write(&file, "no folder").unwrap();
        // Even root cannot create a folder there.
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
        // Root ignores permissions.
        if fs::File::create(folder.join("probe")).is_err() {
            programs.compiles();
            programs.compiles();
        }
        shut(0o700);
        let _ = fs::remove_file(folder.join("probe"));
        let limit = |rlim_cur| {
            let rlim_max = libc::RLIM_INFINITY;
            let limit = libc::rlimit { rlim_cur, rlim_max };
            // SAFETY: both calls affect only this process, which is the child of a test.
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

/// Four processes, forked before a device was used, begin with an empty folder.
#[test]
fn processes_that_compile_the_same_at_once() {
    scripted(|script| {
        let folder = folder();
        keep_in(folder.path());
        let run = || {
            let mut programs = Programs::new(script);
            // The machine code comes from this process or another one.
            programs.run();
            // By now the folder has all of it.
            programs.finds();
        };
        let processes = [run; 4].map(fork);
        assert_eq!(processes.map(ended_well), [true; 4]);
        let is_finished = |path: &PathBuf| path.extension().is_some_and(|end| end == "cubin");
        assert!(files(folder.path()).iter().all(is_finished));
    });
}
